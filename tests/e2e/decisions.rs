//! The decision log of a busy gateway replays to the same decisions.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use forebay_tests::backend::{Backend, RequestLog, Step};
use forebay_tests::bodies::{CHAT, polite};
use forebay_tests::client::Client;
use forebay_tests::config::Config;
use forebay_tests::gateway::Gateway;
use forebay_tests::http1;
use forebay_tests::tempdir::TempDir;

use crate::common::{Dice, wait_endpoints};
use crate::sim::{decisions, sim};
use crate::traffic::text;

const DECISIONS: usize = 11_000;
const CLIENTS: usize = 16;

/// Mostly short chats with beginnings in common, some long, some of a session,
/// some not streamed.
fn chat(n: usize) -> Vec<u8> {
    let system = text((n % 40) as u64, if n.is_multiple_of(10) { 6_000 } else { 900 });
    let (stream, session) = (!n.is_multiple_of(3), n % 25);
    format!(
        r#"{{"model":"tide-7b","user":"s{session}","messages":[{{"role":"system","content":"{system}"}},{{"role":"user","content":"question {n}"}}],"stream":{stream},"max_tokens":2}}"#
    )
    .into_bytes()
}

/// A prompt of token ids, for the engine that tells which it holds.
fn ids(n: usize) -> Vec<u8> {
    let group = n % 20;
    let ids: Vec<String> = (0..400).map(|i| (group * 500 + i).to_string()).collect();
    format!(r#"{{"model":"tide-telling","prompt":[{}],"max_tokens":2,"ignore_eos":true}}"#, ids.join(","))
        .into_bytes()
}

/// Asks one after the other on connections that live on, and leaves some
/// requests in the middle.
async fn keep_asking(addr: std::net::SocketAddr, next: Arc<AtomicUsize>, seed: u64) {
    let mut dice = Dice(seed);
    let mut client = Client::connect(addr).await;
    loop {
        let n = next.fetch_add(1, Ordering::Relaxed);
        if n >= DECISIONS {
            return;
        }
        let request = match n % 7 {
            0 => http1::post("/v1/completions", &ids(n)),
            _ => http1::post(CHAT, &chat(n)),
        };
        if dice.below(40) == 0 {
            client.send(&request).await;
            tokio::time::sleep(Duration::from_millis(dice.below(4) as u64)).await;
            client.reset();
            client = Client::connect(addr).await;
            continue;
        }
        let response = client.exchange(&request).await;
        assert!(response.is_complete(), "request {n}: {:?} {}", response.end, response.text());
        assert_eq!(response.status(), 200, "request {n}: {}", response.text());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_log_of_ten_thousand_replays() {
    let dir = TempDir::new();
    let log = dir.path().join("decisions.log");
    // One in thirty takes its time: then others go elsewhere, and some leave while they wait.
    let script = |r: &RequestLog| {
        let pause = if r.index.is_multiple_of(30) { 30 } else { 0 };
        [vec![Step::Sleep(Duration::from_millis(pause))], polite(r)].concat()
    };
    let backends = [Backend::start(script).await, Backend::start(script).await];
    backends.iter().for_each(Backend::keep_no_bytes);
    let telling = sim(|options| {
        options.time_scale = 50.0;
        options.kv_events = Some("127.0.0.1:0".parse().unwrap());
        options.kv_replay = Some("127.0.0.1:0".parse().unwrap());
    })
    .await;
    let own = format!(
        "version: telling, kv_events: \"{}\", kv_replay: \"{}\"",
        telling.kv_events, telling.kv_replay
    );
    let urls = backends.each_ref().map(Backend::url);
    let config = Config::new()
        .pool_of(
            "chat",
            "tide-7b",
            [(urls[0].as_str(), ""), (urls[1].as_str(), ""), (telling.url.as_str(), own.as_str())],
            "scrape: {interval_min: 50ms, interval_max: 50ms, models_interval: 200ms}\nshadow_policy: least_work",
        )
        .with("models: [{name: tide-telling, targets: [{model: tide-7b, version: telling}]}]")
        .with(&format!("workers: 2\ndrain: {{delay: 0s}}\ndecision_log: {{path: \"{}\"}}", log.display()));
    let mut gateway = Gateway::start(&config).await;
    wait_endpoints(&gateway, 3).await;

    let next = Arc::new(AtomicUsize::new(0));
    let mut clients = tokio::task::JoinSet::new();
    for seed in 0..CLIENTS {
        clients.spawn(keep_asking(gateway.addr(), Arc::clone(&next), seed as u64));
    }
    clients.join_all().await;
    gateway.wait_idle().await;
    let page = gateway.metrics().await;
    gateway.stop().await;

    let count = |name: &str| forebay_tests::exposition::sum(&page, name, &[]).unwrap_or(0.0);
    let endpoints: Vec<f64> = [urls[0].as_str(), urls[1].as_str(), telling.url.as_str()]
        .iter()
        .map(|url| {
            let labels = [("endpoint", *url)];
            forebay_tests::exposition::sum(&page, "forebay_endpoint_requests_total", &labels).unwrap_or(0.0)
        })
        .collect();
    assert!(
        endpoints.iter().sum::<f64>() > 10_000.0 && endpoints[2] > 1_000.0,
        "not everybody took part: {endpoints:?}"
    );
    let cancelled =
        forebay_tests::exposition::sum(&page, "forebay_requests_total", &[("outcome", "client_cancelled")]);
    assert!(cancelled.unwrap_or(0.0) > 20.0, "only {cancelled:?} left: no proof");
    assert!(count("forebay_requests_total") > 10_000.0);

    let (output, same) = decisions(&log, 0);
    let report = &output["report"];
    println!("{report}, requests by endpoint {endpoints:?}, {cancelled:?} cancelled");
    let number = |key: &str| report[key].as_u64().unwrap();
    assert!(number("decisions") >= 10_000, "{report}");
    for nothing in ["mismatches", "snapshot_mismatches", "cut_off"] {
        assert_eq!(number(nothing), 0, "{report}");
    }
    // A snapshot follows whatever was lost: one Gate, nothing lost, one snapshot.
    assert_eq!(number("snapshots"), 1, "entries were lost: {report}");
    assert_eq!(report["other_build"], false);
    assert!(same);
}
