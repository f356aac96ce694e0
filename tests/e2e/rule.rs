//! Rules: the operator's own condition and cost for each candidate.

use forebay_tests::backend::{Backend, Gate, Step};
use forebay_tests::bodies::{self, CHAT, OK_JSON, OK_SSE, polite};
use forebay_tests::config::Config;
use forebay_tests::gateway::Gateway;
use forebay_tests::http1;
use forebay_tests::wait;

use crate::common::{openai_error, retry_after, wait_endpoints};

/// A metrics page with one gauge that no engine of ours has.
fn depth(value: u32) -> Vec<Step> {
    let page = format!("# TYPE my_depth gauge\nmy_depth {value}\n");
    vec![Step::send(bodies::response("200 OK", &[("Content-Type", "text/plain")], page.as_bytes()))]
}

/// Two backends with the same script and these depths, and a gateway with these fields of the pool.
async fn two(depths: [u32; 2], fields: &str) -> ([Backend; 2], Gateway) {
    let backends = [Backend::start(polite).await, Backend::start(polite).await];
    for (backend, value) in backends.iter().zip(depths) {
        backend.set_page("/metrics", depth(value));
    }
    let urls = [backends[0].url(), backends[1].url()];
    let fields = format!(
        "engine: vllm\nsignals: {{depth: my_depth}}\nslow_start: {{window: 0s}}\n\
         scrape: {{interval_min: 20ms, interval_max: 50ms}}\n\
         health: {{interval: 100ms, rise: 1, fall: 1, timeout: 2s}}\n{fields}"
    );
    let own = [(urls[0].as_str(), "zone: a"), (urls[1].as_str(), "zone: b")];
    let config = Config::new().pool_of("chat", "tide-7b", own, &fields);
    let gateway = Gateway::start(&config).await;
    wait_endpoints(&gateway, 2).await;
    (backends, gateway)
}

/// Asks until `wanted` backend alone got all of eight requests in a row.
async fn wait_all_go_to(backends: &[Backend; 2], gateway: &Gateway, wanted: usize) {
    wait::until_async("eight requests in a row at one backend", async || {
        let other = backends[1 - wanted].count();
        for _ in 0..8 {
            assert_eq!(gateway.post(CHAT, OK_JSON).await.status(), 200);
        }
        (backends[1 - wanted].count() == other).then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_condition_on_a_signal_of_ones_own_keeps_requests_away() {
    let (backends, gateway) = two([9, 0], "policy: round_robin\nrule: {filter: depth < 5}").await;
    // Until the first page was read its depth is unknown, and the rule says nothing.
    wait_all_go_to(&backends, &gateway, 1).await;
    backends[0].set_page("/metrics", depth(0));
    let before = backends[0].count();
    wait::until_async("the first backend to get requests again", async || {
        assert_eq!(gateway.post(CHAT, OK_JSON).await.status(), 200);
        (backends[0].count() > before).then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_cost_moves_requests_and_follows_its_signal() {
    let (backends, gateway) = two([9, 0], "policy: predictive\nrule: {cost_ms: depth * 1000}").await;
    wait_all_go_to(&backends, &gateway, 1).await;
    backends[0].set_page("/metrics", depth(0));
    backends[1].set_page("/metrics", depth(9));
    wait_all_go_to(&backends, &gateway, 0).await;
}

#[tokio::test]
async fn who_filters_everybody_is_told_so() {
    let (backends, gateway) =
        two([9, 9], "policy: least_request\nrule: {filter: \"value_or(depth, 9) < 5\"}").await;
    let response = gateway.post(CHAT, OK_JSON).await;
    let message = openai_error(&response, 503);
    assert!(message.contains("rule of the pool \"chat\" filters all its endpoints"), "{message}");
    assert_eq!(response.json()["error"]["code"], "no_endpoint_allowed");
    assert!(retry_after(&response) >= 1);
    assert_eq!((backends[0].count(), backends[1].count()), (0, 0));
    // The other is taken away: the rule still is the reason that this one is not used.
    backends[1].set_page("/metrics", depth(0));
    wait::until_async("the second backend to get a request", async || {
        (gateway.post(CHAT, OK_JSON).await.status() == 200).then_some(())
    })
    .await;
    assert_eq!(backends[0].count(), 0);
    backends[1].set_healthy(false);
    wait_endpoints(&gateway, 1).await;
    let message = openai_error(&gateway.post(CHAT, OK_JSON).await, 503);
    assert!(
        message.contains("filters 1 of its 2 endpoints") && message.contains("no other is ready"),
        "{message}"
    );
}

#[tokio::test]
async fn a_rule_can_look_at_the_request() {
    let (backends, gateway) = two(
        [0, 0],
        "policy: random\nrule: {filter: \"stream ? zone == 'a' : zone == 'b' && model == 'tide-7b'\"}",
    )
    .await;
    for _ in 0..8 {
        assert_eq!(gateway.post(CHAT, OK_SSE).await.status(), 200);
        assert_eq!(gateway.post(CHAT, OK_JSON).await.status(), 200);
    }
    assert!(backends[0].requests().iter().all(|request| request.asks_for_stream()));
    assert_eq!((backends[0].count(), backends[1].count()), (8, 8));
}

#[tokio::test]
async fn a_rule_sees_what_is_in_flight_now() {
    let gate = Gate::default();
    let (backends, gateway) = two([0, 0], "policy: random\nrule: {filter: in_flight < 1}").await;
    for backend in &backends {
        let gate = gate.clone();
        backend.script(move |request| {
            let mut steps = vec![Step::Wait(gate.clone())];
            steps.extend(polite(request));
            steps
        });
    }
    let mut clients = Vec::new();
    for n in 1..=2 {
        let mut client = gateway.connect().await;
        client.send(&http1::post(CHAT, OK_JSON)).await;
        clients.push(client);
        wait::until("the request at a backend", || {
            (backends[0].count() + backends[1].count() == n).then_some(())
        })
        .await;
    }
    assert_eq!((backends[0].count(), backends[1].count()), (1, 1));
    let message = openai_error(&gateway.post(CHAT, OK_JSON).await, 503);
    assert!(message.contains("filters all its endpoints"), "{message}");
    gate.open();
    for client in &mut clients {
        assert_eq!(client.response().await.status(), 200);
    }
}

#[tokio::test]
async fn a_rule_sees_who_holds_the_prompt() {
    let (backends, gateway) =
        two([0, 0], "policy: random\nrule: {filter: \"stream || held_tokens > 0.5 * prompt_tokens\"}").await;
    let ask = |stream: bool| {
        let text = "The tide comes in and the tide goes out. ".repeat(100);
        let body = serde_json::json!({
            "model": "tide-7b", "stream": stream, "messages": [{"role": "user", "content": text}],
        });
        body.to_string().into_bytes()
    };
    // Nobody holds it yet.
    openai_error(&gateway.post(CHAT, &ask(false)).await, 503);
    assert_eq!(gateway.post(CHAT, &ask(true)).await.status(), 200);
    gateway.wait_idle().await;
    for _ in 0..8 {
        assert_eq!(gateway.post(CHAT, &ask(false)).await.status(), 200);
    }
    let mut counts = [backends[0].count(), backends[1].count()];
    counts.sort_unstable();
    assert_eq!(counts, [0, 9]);
}
