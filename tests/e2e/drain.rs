//! The graceful end: unready first, then no new connections, then the last stream.

use std::time::Duration;

use forebay_tests::backend::{Backend, Gate, RequestLog, Step};
use forebay_tests::bodies::{CHAT, DONE, LAST_CHUNK, OK_JSON, OK_SSE, chunk, ok_json, open_stream};
use forebay_tests::client::Client;
use forebay_tests::config::Config;
use forebay_tests::gateway::Gateway;
use forebay_tests::h2::{self, H2Client};
use forebay_tests::http1;
use tokio::net::TcpStream;
use tokio::time::Instant;

use crate::common::through_with;

fn held_stream(gate: &Gate) -> impl Fn(&RequestLog) -> Vec<Step> + Send + Sync + use<> {
    let gate = gate.clone();
    move |r| {
        if !r.asks_for_stream() {
            return ok_json();
        }
        let mut steps = open_stream(&[chunk("a")], Duration::ZERO);
        steps.push(Step::Wait(gate.clone()));
        steps.push(Step::send([http1::chunk(&chunk("b")), http1::chunk(DONE), LAST_CHUNK.to_vec()].concat()));
        steps
    }
}

async fn open(gateway: &Gateway) -> (Client, http1::Head) {
    let mut client = gateway.connect().await;
    client.send(&http1::post(CHAT, OK_SSE)).await;
    let head = client.head().await;
    client.read_until("the first event", |got| got == chunk("a")).await;
    (client, head)
}

async fn wait_unready(gateway: &Gateway) {
    forebay_tests::wait::until_async("/readyz to be 503", async || {
        (gateway.admin_get("/readyz").await.status() == 503).then_some(())
    })
    .await;
}

#[tokio::test]
async fn sigterm_drains_in_order_and_cuts_nothing() {
    let gate = Gate::default();
    let (_backend, mut gateway) = through_with("drain: {delay: 2s, limit: 60s}", held_stream(&gate)).await;
    let (mut streaming, head) = open(&gateway).await;
    let mut kept = gateway.connect().await;
    assert_eq!(kept.exchange(&http1::post(CHAT, OK_JSON)).await.status(), 200);
    let mut idle = gateway.connect().await;
    assert_eq!(idle.exchange(&http1::post(CHAT, OK_JSON)).await.status(), 200);
    gateway.terminate();
    wait_unready(&gateway).await;
    assert_eq!(gateway.admin_get("/healthz").await.status(), 200);
    assert_eq!(gateway.metric("forebay_draining", &[]).await, 1.0);
    // Still accepting, on kept connections and on new ones, and asking clients to go.
    let fresh = gateway.post(CHAT, OK_JSON).await;
    let again = kept.exchange(&http1::post(CHAT, OK_JSON)).await;
    for response in [fresh, again] {
        assert_eq!(response.status(), 200, "{}", response.text());
        assert_eq!(response.head.get("connection").map(str::to_ascii_lowercase).as_deref(), Some("close"));
    }
    assert!(kept.closes_within(Duration::from_secs(10)).await);
    // Then no longer.
    let addr = gateway.addr();
    forebay_tests::wait::until_async("new connections to be refused", async || {
        TcpStream::connect(addr).await.is_err().then_some(())
    })
    .await;
    assert!(idle.closes_within(Duration::from_secs(10)).await, "an idle connection outlives the drain");
    assert!(gateway.ended().is_none(), "ended with a stream open");
    gate.open();
    let response = streaming.rest(head).await;
    assert_eq!(
        (response.body.as_slice(), response.is_complete()),
        ([chunk("b"), DONE.to_vec()].concat().as_slice(), true)
    );
    let status = gateway.wait_end().await;
    assert!(status.success(), "{status}: {}", gateway.logs());
}

#[tokio::test]
async fn second_sigterm_ends_at_once() {
    let gate = Gate::default();
    let (_backend, mut gateway) = through_with("drain: {delay: 60s, limit: 60s}", held_stream(&gate)).await;
    let (mut streaming, head) = open(&gateway).await;
    gateway.terminate();
    wait_unready(&gateway).await;
    let start = Instant::now();
    gateway.terminate();
    gateway.wait_end().await;
    assert!(start.elapsed() < Duration::from_secs(10));
    assert!(streaming.rest(head).await.is_cut(), "a cut that looks like an end");
}

#[tokio::test]
async fn drain_limit_cuts_what_is_left_and_says_so() {
    let gate = Gate::default();
    let (backend, mut gateway) = through_with("drain: {delay: 0s, limit: 1s}", held_stream(&gate)).await;
    let (mut streaming, head) = open(&gateway).await;
    gateway.terminate();
    let response = streaming.rest(head).await;
    assert!(response.is_cut());
    assert!(!response.text().contains("[DONE]"));
    gateway.wait_end().await;
    backend.peer_end(backend.request(0).await.connection).await;
    let logs = gateway.logs();
    assert!(logs.contains("cut"), "nothing of what was cut: {logs}");
}

#[tokio::test]
async fn http2_clients_are_told_to_go_and_keep_their_streams() {
    let gate = Gate::default();
    let backend = Backend::start(held_stream(&gate)).await;
    let config = Config::chat([backend.url().as_str()]).with("drain: {delay: 0s, limit: 60s}");
    let mut gateway = Gateway::start(&config).await;
    let client = H2Client::connect(gateway.addr()).await;
    let mut response = client.post(CHAT, OK_SSE).await.unwrap();
    assert_eq!(h2::frame(response.body_mut()).await.unwrap().unwrap(), chunk("a"));
    let idle = H2Client::connect(gateway.addr()).await;
    assert_eq!(h2::body(idle.get("/v1/models").await.unwrap()).await.map(|b| b.is_empty()).ok(), Some(false));
    gateway.terminate();
    assert!(
        idle.closed_within(Duration::from_secs(10)).await,
        "an idle HTTP/2 connection outlives the drain"
    );
    gate.open();
    assert_eq!(h2::body(response).await.unwrap(), [chunk("b"), DONE.to_vec()].concat());
    assert!(client.closed_within(Duration::from_secs(10)).await);
    assert!(gateway.wait_end().await.success());
}

#[tokio::test]
async fn an_idle_gateway_ends_as_soon_as_its_delay_is_over() {
    let (_backend, mut gateway) = through_with("drain: {delay: 0s}", |_| ok_json()).await;
    gateway.terminate();
    assert!(gateway.wait_end().await.success());
}
