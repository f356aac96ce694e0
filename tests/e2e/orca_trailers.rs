//! Load reports after the answers, where an engine knows more than before them.

use forebay_tests::backend::{Backend, RequestLog, Step};
use forebay_tests::bodies::{CHAT, DONE, MODEL, OK_SSE, chunk};
use forebay_tests::config::Config;
use forebay_tests::gateway::Gateway;
use forebay_tests::{http1, wait};

use crate::common::wait_endpoints;
use crate::traffic::{Answer, send};

/// A stream with this report in its trailers, and nothing in its head.
fn reporting(report: &'static str) -> impl Fn(&RequestLog) -> Vec<Step> + Send + Sync + 'static {
    move |_| {
        let mut bytes = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\nTrailer: endpoint-load-metrics\r\n\r\n".to_vec();
        for piece in [chunk("a"), DONE.to_vec()] {
            bytes.extend(http1::chunk(&piece));
        }
        bytes.extend_from_slice(format!("0\r\n{report}\r\n\r\n").as_bytes());
        vec![Step::send(bytes)]
    }
}

const IDLE: &str = "endpoint-load-metrics: TEXT application_utilization=0.2, rps_fractional=20.0";
// The same as JSON, four times as busy.
const BUSY: &str =
    "Endpoint-Load-Metrics: JSON {\"application_utilization\":0.8,\"rps_fractional\":20.0}\r\nx-other: 1";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reports_in_trailers_count_and_never_reach_the_client() {
    let backends = [Backend::start(reporting(IDLE)).await, Backend::start(reporting(BUSY)).await];
    let urls = backends.each_ref().map(Backend::url);
    let config = Config::new()
        .pool(
            "chat",
            MODEL,
            urls.iter().map(String::as_str),
            "policy: orca_weighted_round_robin\norca: {blackout_period: 0s, weight_update_period: 100ms}",
        )
        .with("response_headers: {endpoint: true}");
    let gateway = Gateway::start(&config).await;
    wait_endpoints(&gateway, 2).await;
    wait::until_async("a share of about 0.8", async || {
        let answers = send(gateway.addr(), 200, 2, |_| (CHAT, OK_SSE.to_vec())).await;
        assert!(answers.iter().all(Answer::is_good));
        let share = answers.iter().filter(|a| a.endpoint == urls[0]).count() as f64 / 200.0;
        (0.74..=0.86).contains(&share).then_some(())
    })
    .await;
    let fields = [("Content-Type", "application/json"), ("TE", "trailers"), ("Connection", "close, TE")];
    let mut client = gateway.connect().await;
    client.send(&http1::request("POST", CHAT, &fields, OK_SSE)).await;
    let (raw, _) = client.raw_rest().await;
    assert!(raw.ends_with(b"\r\n0\r\n\r\n"), "{}", String::from_utf8_lossy(&raw));
    let raw = String::from_utf8_lossy(&raw).to_ascii_lowercase();
    assert!(raw.contains("data: [done]"), "{raw}");
    assert!(!raw.contains("load-metrics") && !raw.contains("x-other") && !raw.contains("trailer"), "{raw}");
}
