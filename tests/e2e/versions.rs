//! Splits by version, and policies that change while the gateway runs.

use std::collections::{BTreeMap, BTreeSet};

use forebay_tests::backend::Backend;
use forebay_tests::bodies::{CHAT, MODEL, polite};
use forebay_tests::client;
use forebay_tests::config::Config;
use forebay_tests::gateway::Gateway;
use forebay_tests::http1;
use forebay_tests::wait;

use crate::common::{openai_error, wait_endpoints};
use crate::traffic::{Answer, Traffic, send, text};

async fn some(n: usize) -> Vec<Backend> {
    let mut backends = Vec::new();
    for _ in 0..n {
        backends.push(Backend::start(polite).await);
    }
    backends
}

async fn split(backends: &[Backend]) -> Gateway {
    let urls: Vec<String> = backends.iter().map(Backend::url).collect();
    let endpoints = urls.iter().zip(["version: stable", "version: stable", "version: canary"]);
    let config = Config::new()
        .pool_of("chat", MODEL, endpoints.map(|(url, own)| (url.as_str(), own)), "health: {interval: 100ms}")
        .with(
            "models:\n\
             \x20 - name: tide\n\
             \x20   targets:\n\
             \x20     - {model: tide-7b, version: stable, weight: 80}\n\
             \x20     - {model: tide-7b, version: canary, weight: 20}\n\
             response_headers: {endpoint: true}",
        );
    let gateway = Gateway::start(&config).await;
    wait_endpoints(&gateway, 3).await;
    gateway
}

fn asked(model: &str, user: Option<usize>, n: usize) -> Vec<u8> {
    let user = user.map(|user| format!(r#""user":"u{user}","#)).unwrap_or_default();
    format!(
        r#"{{"model":"{model}",{user}"messages":[{{"role":"user","content":"{}"}}]}}"#,
        text(n as u64, 100)
    )
    .into_bytes()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_split_by_version_keeps_its_shares() {
    let backends = some(3).await;
    let gateway = split(&backends).await;
    let answers = send(gateway.addr(), 600, 4, |n| (CHAT, asked("tide", None, n))).await;
    assert!(answers.iter().all(Answer::is_good));
    let canary = backends[2].count() as f64 / 600.0;
    assert!((0.14..=0.26).contains(&canary), "the share of 0.2 was {canary}");
    assert!(backends[0].count() > 0 && backends[1].count() > 0);
    // The model's own name is for every version.
    let answers = send(gateway.addr(), 60, 4, |n| (CHAT, asked(MODEL, None, 1000 + n))).await;
    let used: BTreeSet<&str> = answers.iter().map(|a| a.endpoint.as_str()).collect();
    assert_eq!(used.len(), 3, "{used:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_stays_on_its_version() {
    let backends = some(3).await;
    let gateway = split(&backends).await;
    let answers = send(gateway.addr(), 500, 4, |n| (CHAT, asked("tide", Some(n % 100), n))).await;
    assert!(answers.iter().all(Answer::is_good));
    let canary = backends[2].url();
    let mut versions: BTreeMap<usize, BTreeSet<bool>> = BTreeMap::new();
    for answer in &answers {
        versions.entry(answer.number % 100).or_default().insert(answer.endpoint == canary);
    }
    let wavering: Vec<_> = versions.iter().filter(|(_, of)| of.len() > 1).collect();
    assert!(wavering.is_empty(), "these sessions met both versions: {wavering:?}");
    let on_canary = versions.values().filter(|of| of.contains(&true)).count();
    assert!((6..=36).contains(&on_canary), "{on_canary} of 100 sessions on a version with a share of 0.2");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_version_without_a_ready_endpoint_is_not_replaced_by_another() {
    let backends = some(3).await;
    let gateway = split(&backends).await;
    backends[2].set_healthy(false);
    wait_endpoints(&gateway, 2).await;
    let mut refused = 0;
    for n in 0..60 {
        let response = gateway.post(CHAT, &asked("tide", None, n)).await;
        if response.status() != 200 {
            openai_error(&response, 503);
            refused += 1;
        }
    }
    assert_eq!(backends[2].count(), 0);
    assert!(refused > 0, "a request for the canary was answered by another version");
    assert!(refused < 40, "{refused} of 60 refused with a share of 0.2");
}

async fn patch(gateway: &Gateway, target: &str, body: &str) -> client::Response {
    let fields = [("Content-Type", "application/json")];
    client::exchange(gateway.admin(), &http1::request("PATCH", target, &fields, body.as_bytes())).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pools_policy_changes_while_requests_run() {
    let backends = some(3).await;
    let urls: Vec<String> = backends.iter().map(Backend::url).collect();
    let config = Config::new()
        .pool("chat", MODEL, urls.iter().map(String::as_str), "")
        .with("response_headers: {endpoint: true}");
    let gateway = Gateway::start(&config).await;
    wait_endpoints(&gateway, 3).await;
    let policy =
        async || gateway.admin_json("/api/v1/pools/chat").await["policy"].as_str().unwrap().to_string();
    assert_eq!(policy().await, "predictive");
    // All begin alike: a policy that goes by prefixes sends them to one place.
    let system = text(1, 8 << 10);
    let request = move |n: usize| {
        let (system, question) = (&system, text(n as u64, 40));
        format!(
            r#"{{"model":"tide-7b","messages":[{{"role":"system","content":"{system}"}},{{"role":"user","content":"{question}"}}]}}"#
        )
        .into_bytes()
    };
    let traffic = Traffic::start(gateway.addr(), 2, request.clone());
    wait::until("some answers", || (traffic.count() > 100).then_some(())).await;
    for next in ["round_robin", "consistent_hash", "learned", "least_request", "prequal", "round_robin"] {
        let response = patch(&gateway, "/api/v1/pools/chat", &format!(r#"{{"policy":"{next}"}}"#)).await;
        assert_eq!(response.status(), 200, "{next}: {}", response.text());
        assert_eq!(policy().await, next);
        let seen = traffic.count();
        wait::until("more answers", || (traffic.count() > seen + 60).then_some(())).await;
        let decision = gateway.admin_json("/api/v1/decisions?last=1").await;
        assert_eq!(decision["decisions"][0]["policy"], next);
    }
    let answers = traffic.stop().await;
    assert!(answers.iter().all(Answer::is_good), "{:?}", answers.iter().find(|a| !a.is_good()));
    // In turn, whatever they begin with.
    let answers = send(gateway.addr(), 90, 1, move |n| (CHAT, request(n))).await;
    for url in &urls {
        assert_eq!(answers.iter().filter(|a| a.endpoint == *url).count(), 30, "{url}");
    }
    let response = patch(&gateway, "/api/v1/pools/chat", r#"{"policy":"best"}"#).await;
    assert_eq!(response.status(), 400, "{}", response.text());
    assert_eq!(policy().await, "round_robin", "a refused change changes nothing");
    assert_eq!(patch(&gateway, "/api/v1/pools/nope", r#"{"policy":"random"}"#).await.status(), 404);
}
