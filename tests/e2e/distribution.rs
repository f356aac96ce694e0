//! How requests are spread: newcomers, several models, misses, order.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use forebay_tests::backend::{Backend, RequestLog, Step};
use forebay_tests::bodies::{CHAT, completion, json, polite};
use forebay_tests::config::Config;
use forebay_tests::gateway::Gateway;
use tokio::time::Instant;

use crate::common::wait_endpoints;
use crate::traffic::{Answer, Traffic, send, text};

fn asked(model: &str, n: usize, bytes: usize) -> Vec<u8> {
    let prompt = text(n as u64, bytes);
    format!(r#"{{"model":"{model}","messages":[{{"role":"user","content":"{prompt}"}}]}}"#).into_bytes()
}

fn after(wait: Duration) -> impl Fn(&RequestLog) -> Vec<Step> + Send + Sync + 'static {
    move |r| [vec![Step::Sleep(wait)], polite(r)].concat()
}

async fn four(script: impl Fn(&RequestLog) -> Vec<Step> + Send + Sync + Clone + 'static) -> Vec<Backend> {
    let mut backends = Vec::new();
    for _ in 0..4 {
        backends.push(Backend::start(script.clone()).await);
    }
    backends
}

/// Four endpoints with twenty requests each, and a fifth that joins, empty and slow.
async fn newcomer(policy: &str, window: &str, after_ms: u64) {
    let mut backends = Vec::new();
    for _ in 0..4 {
        backends.push(Backend::start(after(Duration::from_millis(200))).await);
    }
    let begun = AtomicUsize::new(0);
    let slow = Backend::start(move |r: &RequestLog| {
        let wait = if begun.fetch_add(1, Ordering::SeqCst) < 10 { 5_000 } else { 200 };
        [vec![Step::Sleep(Duration::from_millis(wait))], polite(r)].concat()
    })
    .await;
    slow.set_healthy(false);
    let url = slow.url();
    let urls: Vec<String> = backends.iter().map(Backend::url).chain([url.clone()]).collect();
    let config = Config::new()
        .pool(
            "chat",
            "tide-7b",
            urls.iter().map(String::as_str),
            &format!("policy: {policy}\nslow_start: {{window: {window}}}\nhealth: {{interval: 100ms}}"),
        )
        .with("response_headers: {endpoint: true}");
    let gateway = Gateway::start(&config).await;
    wait_endpoints(&gateway, 4).await;
    let begin = Instant::now();
    let traffic = Traffic::start(gateway.addr(), 80, |n| asked("tide-7b", n, 200));
    tokio::time::sleep_until(begin + Duration::from_millis(after_ms)).await;
    slow.set_healthy(true);
    wait_endpoints(&gateway, 5).await;
    let joined = Instant::now();
    let mut most: (f64, f64) = (0.0, 0.0);
    while joined.elapsed() < Duration::from_secs(10) {
        let list = gateway.admin_json("/api/v1/endpoints").await;
        let list = list["endpoints"].as_array().unwrap();
        let of = |e: &serde_json::Value| e["in_flight"].as_f64().unwrap();
        let mean = list.iter().map(of).sum::<f64>() / 5.0;
        let its = of(list.iter().find(|e| e["url"] == url.as_str()).unwrap());
        assert!(
            its <= 1.5 * mean,
            "{policy}: {its} in flight at the newcomer, {mean} on average, after {:?}",
            joined.elapsed()
        );
        if its / mean > most.0 / most.1.max(1.0) {
            most = (its, mean);
        }
        tokio::time::sleep(Duration::from_millis(25)).await;
    }
    let answers = traffic.stop().await;
    assert!(answers.iter().all(Answer::is_good));
    println!("{policy}: at most {most:?} (its, mean); {} requests", slow.count());
    assert!(slow.count() > 0, "{policy}: the newcomer got nothing");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b53_a_newcomer_is_not_overrun_by_the_default_policy() {
    newcomer("predictive", "3s", 3_200).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b53_a_newcomer_is_not_overrun_by_least_request() {
    newcomer("least_request", "3s", 3_200).await;
}

/// The others are as new to the gateway, but carry all the load already.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b53_a_newcomer_of_a_young_fleet_is_not_overrun() {
    newcomer("predictive", "10s", 2_000).await;
}

#[tokio::test]
async fn b53_models_that_alternate_do_not_share_a_turn() {
    let backends = four(polite).await;
    let urls: Vec<String> = backends.iter().map(Backend::url).collect();
    backends[2].set_model("reef-13b");
    backends[3].set_model("reef-13b");
    let config = Config::new()
        .pool("a", "tide-7b", urls[..2].iter().map(String::as_str), "policy: round_robin")
        .pool("b", "reef-13b", urls[2..].iter().map(String::as_str), "policy: round_robin");
    let gateway = Gateway::start(&config).await;
    wait_endpoints(&gateway, 4).await;
    for n in 0..200 {
        let model = if n % 2 == 0 { "tide-7b" } else { "reef-13b" };
        assert_eq!(gateway.post(CHAT, &asked(model, n, 40)).await.status(), 200);
    }
    let counts: Vec<usize> = backends.iter().map(Backend::count).collect();
    assert!(counts.iter().all(|n| (49..=51).contains(n)), "{counts:?}");
}

/// One at a time, every prompt new: nobody is better than another.
async fn misses(policy: &str) {
    const REQUESTS: usize = 800;
    let backends = four(polite).await;
    let urls: Vec<String> = backends.iter().map(Backend::url).collect();
    let config =
        Config::new().pool("chat", "tide-7b", urls.iter().map(String::as_str), &format!("policy: {policy}"));
    let gateway = Gateway::start(&config).await;
    wait_endpoints(&gateway, 4).await;
    let answers = send(gateway.addr(), REQUESTS, 1, |n| (CHAT, asked("tide-7b", n, 600))).await;
    assert!(answers.iter().all(Answer::is_good));
    let shares: Vec<f64> = backends.iter().map(|b| b.count() as f64 / REQUESTS as f64).collect();
    println!("{policy}: {shares:?}");
    assert!(shares.iter().all(|share| (0.20..=0.30).contains(share)), "{policy}: {shares:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b53_misses_are_spread_by_prefix_affinity() {
    misses("prefix_affinity").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b53_misses_are_spread_by_the_default_policy() {
    misses("predictive").await;
}

#[tokio::test]
async fn b53_the_order_of_the_endpoints_does_not_matter() {
    let backends = four(|_| json("200 OK", &completion("tide-7b", 12, 30))).await;
    let urls: Vec<String> = backends.iter().map(Backend::url).collect();
    let mut sorted: Vec<&str> = urls.iter().map(String::as_str).collect();
    sorted.sort_unstable();
    let shuffled = [sorted[2], sorted[0], sorted[3], sorted[1]];
    let mut chosen: Vec<Vec<String>> = Vec::new();
    for order in [[sorted[0], sorted[1], sorted[2], sorted[3]], shuffled] {
        let config = Config::new()
            .pool("chat", "tide-7b", order, "policy: consistent_hash")
            .with("response_headers: {endpoint: true}");
        let gateway = Gateway::start(&config).await;
        wait_endpoints(&gateway, 4).await;
        let mut answers = send(gateway.addr(), 100, 1, |n| (CHAT, asked("tide-7b", n, 300))).await;
        answers.sort_by_key(|answer| answer.number);
        chosen.push(answers.into_iter().map(|answer| answer.endpoint).collect());
    }
    let differ = chosen[0].iter().zip(&chosen[1]).filter(|(a, b)| a != b).count();
    assert_eq!(differ, 0, "{differ} of 100 went elsewhere with another order");
}
