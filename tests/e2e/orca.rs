//! Load reports in the heads of answers.

use std::time::Duration;

use forebay_tests::backend::{Backend, RequestLog, Step};
use forebay_tests::bodies::{CHAT, MODEL, OK_JSON, completion, response};
use forebay_tests::config::Config;
use forebay_tests::gateway::Gateway;
use forebay_tests::wait;

use crate::common::wait_endpoints;
use crate::traffic::{Answer, send};

/// Answers with this report, whether asked for or not.
fn reporting(report: &'static str) -> impl Fn(&RequestLog) -> Vec<Step> + Send + Sync + 'static {
    move |_| {
        let fields = [("Content-Type", "application/json"), ("endpoint-load-metrics", report)];
        vec![Step::send(response("200 OK", &fields, &completion(MODEL, 12, 30)))]
    }
}

fn asked(_: usize) -> (&'static str, Vec<u8>) {
    (CHAT, OK_JSON.to_vec())
}

const IDLE: &str =
    "TEXT application_utilization=0.2, rps_fractional=20.0, named_metrics.kv_cache_usage_perc=0.1";
const BUSY: &str =
    "TEXT application_utilization=0.8, rps_fractional=20.0, named_metrics.kv_cache_usage_perc=0.1";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reports_are_asked_for_where_configured_and_never_reach_the_client() {
    let backend = Backend::start(reporting(IDLE)).await;
    for (ask, wanted) in [("none", None), ("text", Some("text")), ("json", Some("json"))] {
        let config =
            Config::new().pool("chat", MODEL, [backend.url().as_str()], &format!("orca: {{ask: {ask}}}"));
        let gateway = Gateway::start(&config).await;
        let response = gateway.post(CHAT, OK_JSON).await;
        assert_eq!(response.status(), 200);
        for field in ["endpoint-load-metrics", "endpoint-load-metrics-bin"] {
            assert_eq!(response.head.get(field), None, "{ask}");
        }
        let request = backend.requests().pop().unwrap();
        assert_eq!(request.head.get("endpoint-load-metrics-format"), wanted, "{ask}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn weights_follow_what_endpoints_report() {
    let backends = [Backend::start(reporting(IDLE)).await, Backend::start(reporting(BUSY)).await];
    let urls = backends.each_ref().map(Backend::url);
    let config = Config::new()
        .pool(
            "chat",
            MODEL,
            urls.iter().map(String::as_str),
            "policy: orca_weighted_round_robin\norca: {ask: text, blackout_period: 0s, weight_update_period: 100ms}",
        )
        .with("response_headers: {endpoint: true}");
    let gateway = Gateway::start(&config).await;
    wait_endpoints(&gateway, 2).await;
    let share = async |want: std::ops::RangeInclusive<f64>| {
        wait::until_async(&format!("a share within {want:?}"), async || {
            let answers = send(gateway.addr(), 200, 2, asked).await;
            assert!(answers.iter().all(Answer::is_good));
            let share = answers.iter().filter(|a| a.endpoint == urls[0]).count() as f64 / 200.0;
            want.contains(&share).then_some(share)
        })
        .await
    };
    // Same rate at a quarter of the utilisation: four times the weight.
    share(0.74..=0.86).await;
    // The other way round, and the weights follow.
    backends[0].script(reporting(BUSY));
    backends[1].script(reporting(IDLE));
    share(0.14..=0.26).await;
    // As far as reports can be read; what cannot be read changes nothing.
    backends[0].script(reporting("TEXT application_utilization=NaN, rps_fractional=-inf"));
    tokio::time::sleep(Duration::from_millis(300)).await;
    share(0.14..=0.26).await;
}
