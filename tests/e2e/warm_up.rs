//! Warm-up: an endpoint gets small inferences of the gateway's own before it
//! gets anybody else's.

use forebay_tests::backend::{Backend, RequestLog, Step};
use forebay_tests::bodies::{self, CHAT, OK_JSON, polite};
use forebay_tests::config::Config;
use forebay_tests::gateway::Gateway;
use forebay_tests::wait;

use crate::common::{openai_error, wait_endpoints};

const PROBED: &str = "health: {interval: 100ms, rise: 1, fall: 1, timeout: 2s}";
const COMPLETIONS: &str = "/v1/completions";

/// A gateway before this backend that warms it up.
async fn warmed_up(backend: &Backend, warm_up: &str, fields: &str) -> Gateway {
    let url = backend.url();
    let fields = format!("warm_up: {warm_up}\nslow_start: {{window: 0s}}\n{fields}");
    Gateway::start_unready(&Config::new().pool("chat", "tide-7b", [url.as_str()], &fields)).await
}

fn is_warm_up(request: &RequestLog) -> bool {
    request.head.target() == COMPLETIONS
}

#[tokio::test]
async fn so_many_inferences_come_before_the_first_request() {
    let backend = Backend::start(polite).await;
    let gateway = warmed_up(&backend, "{requests: 12, concurrency: 3}", PROBED).await;
    gateway.wait_ready().await;
    assert_eq!(gateway.post(CHAT, OK_JSON).await.status(), 200);
    let requests = backend.requests();
    assert_eq!(requests.len(), 13);
    assert!(requests[..12].iter().all(is_warm_up));
    let body = requests[0].json();
    assert_eq!((&body["model"], body["max_tokens"].as_u64()), (&"tide-7b".into(), Some(8)));
    assert_eq!(requests[12].head.target(), CHAT);

    // Away and back: it is warmed up again.
    backend.set_healthy(false);
    wait_endpoints(&gateway, 0).await;
    backend.set_healthy(true);
    gateway.wait_ready().await;
    assert_eq!(backend.requests()[13..].iter().filter(|request| is_warm_up(request)).count(), 12);
}

#[tokio::test]
async fn nobody_gets_through_while_it_is_warmed_up() {
    let gate = forebay_tests::backend::Gate::default();
    let closed = gate.clone();
    let backend = Backend::start(move |request| {
        let mut steps = vec![Step::Wait(closed.clone())];
        steps.extend(polite(request));
        steps
    })
    .await;
    let gateway = warmed_up(&backend, "{requests: 2}", "health: {enabled: false}").await;
    backend.request(0).await;
    openai_error(&gateway.post(CHAT, OK_JSON).await, 503);
    wait_endpoints(&gateway, 0).await;
    gate.open();
    gateway.wait_ready().await;
    assert_eq!(gateway.post(CHAT, OK_JSON).await.status(), 200);
    assert_eq!(backend.requests().iter().filter(|request| is_warm_up(request)).count(), 2);
}

#[tokio::test]
async fn who_takes_no_such_requests_gets_in_nevertheless() {
    let backend = Backend::start(|request| match request.head.target() {
        CHAT if request.json()["max_tokens"].is_null() => polite(request),
        _ => bodies::json("400 Bad Request", br#"{"error":{"message":"no"}}"#),
    })
    .await;
    let gateway = warmed_up(&backend, "{requests: 50, concurrency: 10}", PROBED).await;
    gateway.wait_ready().await;
    assert_eq!(gateway.post(CHAT, OK_JSON).await.status(), 200);
    assert!(backend.count() < 50, "{}", backend.count());
    assert!(gateway.logs().contains("without its whole warm-up"), "{}", gateway.logs());
}

/// A page of an engine whose process began at this second.
fn began(at: u32) -> Vec<Step> {
    let page = format!(
        "vllm:num_requests_running 0\nvllm:num_requests_waiting 0\nprocess_start_time_seconds {at}\n"
    );
    vec![Step::send(bodies::response("200 OK", &[("Content-Type", "text/plain")], page.as_bytes()))]
}

#[tokio::test]
async fn an_engine_that_began_anew_is_warmed_up_again() {
    let backend = Backend::start(polite).await;
    backend.set_page("/metrics", began(1_790_000_000));
    let fields = format!("{PROBED}\nengine: vllm\nscrape: {{interval_min: 20ms, interval_max: 50ms}}");
    let gateway = warmed_up(&backend, "{requests: 3}", &fields).await;
    gateway.wait_ready().await;
    wait::until_async("the first page to be read", async || {
        let age = gateway.metric("forebay_endpoint_signal_age_seconds", &[]).await;
        (age > 0.0).then_some(())
    })
    .await;
    assert_eq!(backend.count(), 3);
    backend.set_page("/metrics", began(1_790_000_100));
    backend.request(5).await;
    gateway.wait_ready().await;
    assert_eq!(backend.count(), 6);
    assert!(backend.requests().iter().all(is_warm_up));
}
