//! An address where something else answers now.

use std::time::Duration;

use forebay_tests::backend::{Backend, RequestLog, Step};
use forebay_tests::bodies::{CHAT, MODEL, completion, json, model_missing, response};
use forebay_tests::config::Config;
use forebay_tests::gateway::Gateway;
use forebay_tests::{client, http1, wait};
use tokio::time::Instant;

use crate::common::wait_endpoints;
use crate::traffic::{Answer, Traffic, ask, text};

const OTHER: &str = "reef-13b";

async fn before(backends: [&Backend; 2], scrape: &str) -> Gateway {
    let urls = backends.map(Backend::url);
    let config = Config::new()
        .pool(
            "chat",
            MODEL,
            urls.iter().map(String::as_str),
            &format!(
                "scrape: {{interval_min: 30ms, interval_max: 60ms, {scrape}}}\nhealth: {{interval: 100ms}}"
            ),
        )
        .with("response_headers: {endpoint: true}");
    let gateway = Gateway::start(&config).await;
    wait_endpoints(&gateway, 2).await;
    gateway
}

fn serves(model: &'static str) -> impl Fn(&RequestLog) -> Vec<Step> + Send + Sync + 'static {
    move |_| json("200 OK", &completion(model, 12, 30))
}

fn metrics_of(model: &str) -> Vec<Step> {
    let page = format!("vllm:num_requests_running{{engine=\"0\",model_name=\"{model}\"}} 0.0\n");
    vec![Step::send(forebay_tests::bodies::response(
        "200 OK",
        &[("Content-Type", "text/plain")],
        page.as_bytes(),
    ))]
}

fn asked(n: usize) -> Vec<u8> {
    let prompt = text((n % 4) as u64, 4096);
    format!(r#"{{"model":"{MODEL}","messages":[{{"role":"user","content":"{prompt} {n}"}}]}}"#).into_bytes()
}

/// Every one with a beginning of its own.
fn afresh(n: usize) -> Vec<u8> {
    let prompt = text(1_000 + n as u64, 4096);
    format!(r#"{{"model":"{MODEL}","messages":[{{"role":"user","content":"{prompt}"}}]}}"#).into_bytes()
}

async fn wait_state(gateway: &Gateway, url: &str, state: &str) {
    wait::until_async(&format!("{url} to be {state}"), async || {
        let list = gateway.admin_json("/api/v1/endpoints").await;
        let its = list["endpoints"].as_array().unwrap().iter().find(|e| e["url"] == url).unwrap().clone();
        (its["state"] == state).then_some(())
    })
    .await;
}

/// Waits until the gateway has found out so much of its models.
async fn wait_check(gateway: &Gateway, url: &str, check: &str) {
    wait::until_async(&format!("{url} to be {check}"), async || {
        let list = gateway.admin_json("/api/v1/endpoints").await;
        let its = list["endpoints"].as_array().unwrap().iter().find(|e| e["url"] == url).unwrap().clone();
        (its["model_check"] == check).then_some(())
    })
    .await;
}

/// As an operator does.
async fn set_state(gateway: &Gateway, url: &str, state: &str) {
    let list = gateway.admin_json("/api/v1/endpoints").await;
    let its = list["endpoints"].as_array().unwrap().iter().find(|e| e["url"] == url).unwrap();
    let target = format!("/api/v1/endpoints/{}", its["id"].as_str().unwrap());
    let (fields, body) = ([("Content-Type", "application/json")], format!(r#"{{"state":"{state}"}}"#));
    let request = http1::request("PATCH", &target, &fields, body.as_bytes());
    let answer = client::exchange(gateway.admin(), &request).await;
    assert_eq!(answer.status(), 200, "{}", answer.text());
}

/// What the last decision took this endpoint to hold of its prompt.
async fn predicted(gateway: &Gateway, url: &str) -> f64 {
    let list = gateway.admin_json("/api/v1/decisions?last=1").await;
    let candidates = list["decisions"][0]["candidates_priced"].as_array().unwrap();
    candidates.iter().find(|c| c["endpoint"] == url).unwrap()["held_tokens"].as_f64().unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b52_another_model_at_the_same_address_gets_nothing() {
    let first = Backend::start(serves(MODEL)).await;
    let (at, url) = (first.addr().to_string(), first.url());
    let second = Backend::start(serves(MODEL)).await;
    let gateway = before([&first, &second], "models_interval: 200ms").await;
    let traffic = Traffic::start(gateway.addr(), 4, asked);
    wait::until("answers of both", || (first.count() > 20 && second.count() > 20).then_some(())).await;

    // It goes, and another takes its address, which answers whatever it is asked.
    drop(first);
    wait_state(&gateway, &url, "unready").await;
    let other = Backend::start_at(&at, serves(OTHER)).await;
    other.set_model(OTHER);
    other.set_page("/metrics", metrics_of(OTHER));
    wait::until("the gateway to look at it", || {
        gateway.logs().contains("serves another model").then_some(())
    })
    .await;
    let known = Instant::now();
    tokio::time::sleep(Duration::from_millis(500)).await;
    let late: Vec<_> =
        other.requests().into_iter().filter(|r| r.at > known + Duration::from_millis(50)).collect();
    assert!(late.is_empty(), "{} requests for {MODEL} after it was known what is there", late.len());

    // Back again: it is used, over connections of its own, and nothing is expected of it.
    traffic.stop().await;
    drop(other);
    let back = Backend::start_at(&at, serves(MODEL)).await;
    wait_state(&gateway, &url, "ready").await;
    assert!(ask(gateway.addr(), CHAT, &asked(0)).await.is_good());
    assert_eq!(predicted(&gateway, &url).await, 0.0, "what the first had is expected of the third");
    let traffic = Traffic::start(gateway.addr(), 6, afresh);
    wait::until("answers of the one that came back", || (back.count() > 10).then_some(())).await;
    let answers = traffic.stop().await;
    assert!(answers.iter().all(Answer::is_good), "{:?}", answers.iter().find(|a| !a.is_good()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b52_no_request_reaches_another_model_before_its_list_was_read() {
    let first = Backend::start(serves(MODEL)).await;
    let (at, url) = (first.addr().to_string(), first.url());
    let second = Backend::start(serves(MODEL)).await;
    // Its list alone tells, and is not looked at again for long by itself.
    let gateway = before([&first, &second], "models_interval: 30s").await;
    let traffic = Traffic::start(gateway.addr(), 4, asked);
    wait::until("answers of both", || (first.count() > 20 && second.count() > 20).then_some(())).await;
    drop(first);
    wait_state(&gateway, &url, "unready").await;
    let other = Backend::start_at(&at, serves(OTHER)).await;
    other.set_model(OTHER);
    wait::until("its list to be read", || gateway.logs().contains("serves another model").then_some(()))
        .await;
    tokio::time::sleep(Duration::from_millis(300)).await;
    traffic.stop().await;
    assert_eq!(other.count(), 0, "requests for {MODEL} reached an engine with {OTHER}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b52_an_engine_that_says_it_has_no_such_model_is_looked_at() {
    let first = Backend::start(serves(MODEL)).await;
    let second = Backend::start(serves(MODEL)).await;
    // Nothing but its answers tells.
    let gateway = before([&first, &second], "models_interval: 1h").await;
    let url = first.url();
    let traffic = Traffic::start(gateway.addr(), 4, asked);
    wait::until("answers of both", || (first.count() > 20 && second.count() > 20).then_some(())).await;
    // The same process, as it seems, with another model.
    first.set_model(OTHER);
    first.script(|r| model_missing(r.json()["model"].as_str().unwrap_or_default()));
    let since = Instant::now();
    wait_state(&gateway, &url, "unready").await;
    let took = since.elapsed();
    let at = first.count();
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert!(first.count() <= at + 4, "it is still asked");
    println!("noticed after {took:?}");
    assert!(took < Duration::from_secs(5), "its answers say so at once, and it took {took:?}");
    // And back.
    traffic.stop().await;
    first.script(serves(MODEL));
    first.set_model(MODEL);
    let seen = first.count();
    let traffic = Traffic::start(gateway.addr(), 6, afresh);
    wait::until("answers of the one that came back", || (first.count() > seen + 10).then_some(())).await;
    traffic.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b52_what_was_disabled_is_looked_at_before_it_is_used_again() {
    let first = Backend::start(serves(MODEL)).await;
    let (at, url) = (first.addr().to_string(), first.url());
    let second = Backend::start(serves(MODEL)).await;
    let gateway = before([&first, &second], "models_interval: 1h").await;
    let traffic = Traffic::start(gateway.addr(), 4, asked);
    wait::until("answers of both", || (first.count() > 20 && second.count() > 20).then_some(())).await;
    set_state(&gateway, &url, "disabled").await;
    // While nobody looks, another comes to the address without a gap.
    drop(first);
    let other = Backend::start_at(&at, serves(OTHER)).await;
    other.set_model(OTHER);
    set_state(&gateway, &url, "ready").await;
    wait_check(&gateway, &url, "other").await;
    let seen = second.count();
    wait::until("further answers", || (second.count() > seen + 50).then_some(())).await;
    assert_eq!(other.count(), 0, "requests for {MODEL} reached an engine with {OTHER}");
    wait_state(&gateway, &url, "unready").await;

    // The right one again, after the same.
    set_state(&gateway, &url, "disabled").await;
    drop(other);
    let back = Backend::start_at(&at, serves(MODEL)).await;
    set_state(&gateway, &url, "ready").await;
    wait_check(&gateway, &url, "listed").await;
    wait_state(&gateway, &url, "ready").await;
    traffic.stop().await;
    assert!(ask(gateway.addr(), CHAT, &asked(0)).await.is_good());
    assert_eq!(predicted(&gateway, &url).await, 0.0, "what the first had is expected of the third");
    let traffic = Traffic::start(gateway.addr(), 6, afresh);
    wait::until("answers of the one that came back", || (back.count() > 10).then_some(())).await;
    let answers = traffic.stop().await;
    assert!(answers.iter().all(Answer::is_good), "{:?}", answers.iter().find(|a| !a.is_good()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b52_after_a_restart_in_place_no_connection_of_before_is_used() {
    let only = Backend::start(serves(MODEL)).await;
    let started = |at: u32| {
        let page = format!("process_start_time_seconds {at}\nvllm:num_requests_running 0\n");
        vec![Step::send(forebay_tests::bodies::response(
            "200 OK",
            &[("Content-Type", "text/plain")],
            page.as_bytes(),
        ))]
    };
    only.set_page("/metrics", started(1_700_000_000));
    let url = only.url();
    let config = Config::new().pool(
        "chat",
        MODEL,
        [url.as_str()],
        "scrape: {interval_min: 30ms, interval_max: 60ms}\nhealth: {interval: 100ms}",
    );
    let gateway = Gateway::start(&config.with("workers: 1")).await;
    for n in 0..3 {
        assert!(ask(gateway.addr(), CHAT, &asked(n)).await.is_good());
    }
    let before = only.requests().last().unwrap().connection;
    // Its start time alone tells.
    only.set_page("/metrics", started(1_700_000_060));
    wait::until("it to be noticed", || gateway.logs().contains("its metrics began anew").then_some(())).await;
    // Made so far: none of them is to be used.
    let made = only.connections().len();
    wait::until("another look", || (only.connections().len() > made).then_some(())).await;
    assert!(ask(gateway.addr(), CHAT, &asked(3)).await.is_good());
    let after = only.requests().last().unwrap().connection;
    assert!(after >= made, "connection {after} of {made}, and {before} before");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_engine_that_shows_its_models_only_for_a_key_is_ready_without_and_known_with_it() {
    const KEY: &str = "hunter2-hunter2";
    let backend = Backend::start(serves(MODEL)).await;
    let url = backend.url();
    let gateway_with = async |key: &str| {
        let fields = format!("scrape: {{interval_min: 30ms, interval_max: 60ms}}\n{key}");
        let config = Config::new().pool("chat", MODEL, [url.as_str()], &fields);
        let gateway = Gateway::start_with(&config, &[("ENGINE_KEY", KEY)]).await;
        gateway.wait_ready().await;
        gateway
    };
    let shown = |logs: &[forebay_tests::backend::ConnectionLog]| {
        logs.iter().filter(|log| String::from_utf8_lossy(&log.bytes).contains(KEY)).count()
    };
    let unlabelled = response("200 OK", &[("Content-Type", "text/plain")], b"vllm:num_requests_running 0\n");
    backend.set_page("/metrics", vec![Step::send(unlabelled)]);
    backend.set_page("/v1/models", model_missing("x"));
    let gateway = gateway_with("").await;
    wait_check(&gateway, &url, "unlisted").await;
    assert!(ask(gateway.addr(), CHAT, &asked(0)).await.is_good());
    assert_eq!(shown(&backend.connections()), 0);
    drop(gateway);

    let list =
        format!(r#"{{"object":"list","data":[{{"id":"{MODEL}","object":"model","owned_by":"vllm"}}]}}"#);
    backend.set_page("/v1/models", json("200 OK", list.as_bytes()));
    let gateway = gateway_with("engine_key: ${ENGINE_KEY}").await;
    wait_check(&gateway, &url, "listed").await;
    assert!(ask(gateway.addr(), CHAT, &asked(1)).await.is_good());
    assert!(shown(&backend.connections()) > 0, "it is shown to the engine");
    let of_clients = backend.requests();
    let head = &of_clients.last().unwrap().head;
    assert_eq!(head.get("authorization"), None, "clients' requests are passed on as they come");
    let status = gateway.admin_json("/api/v1/status").await.to_string();
    for text in [gateway.logs(), gateway.stdout(), gateway.metrics().await, status] {
        assert!(!text.contains(KEY), "the key is shown: {text}");
    }
}
