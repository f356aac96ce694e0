//! What one client, and all together, may use; each limit with a clear refusal.

use std::time::Duration;

use forebay_tests::backend::{Gate, RequestLog, Step};
use forebay_tests::bodies::{CHAT, OK_JSON, ok_json, polite};
use forebay_tests::client::{self, End};
use forebay_tests::http1;

use crate::common::{openai_error, retry_after, through_with};

fn hold(gate: &Gate) -> impl Fn(&RequestLog) -> Vec<Step> + Send + Sync + use<> {
    let gate = gate.clone();
    move |_| [vec![Step::Wait(gate.clone())], ok_json()].concat()
}

#[tokio::test]
async fn requests_over_the_in_flight_limit_are_refused_with_a_time_to_wait() {
    let gate = Gate::default();
    let (backend, gateway) = through_with("limits: {in_flight: 2}", hold(&gate)).await;
    let mut held = Vec::new();
    for n in 0..2 {
        let mut client = gateway.connect().await;
        client.send(&http1::post(CHAT, OK_JSON)).await;
        backend.request(n).await;
        held.push(client);
    }
    for _ in 0..3 {
        let refused = gateway.post(CHAT, OK_JSON).await;
        openai_error(&refused, 503);
        retry_after(&refused);
    }
    gateway.wait_metric("forebay_rejected_total", &[("reason", "inflight_limit")], 3.0).await;
    gate.open();
    for client in &mut held {
        assert_eq!(client.response().await.status(), 200);
    }
    assert_eq!(gateway.post(CHAT, OK_JSON).await.status(), 200);
    assert_eq!(backend.count(), 3);
}

#[tokio::test]
async fn head_over_its_limit_is_431() {
    let (backend, gateway) = through_with("limits: {header_bytes: 8KiB}", polite).await;
    let big = "x".repeat(16 << 10);
    let mut client = gateway.connect().await;
    client.send(&http1::request("POST", CHAT, &[("X-Big", &big)], OK_JSON)).await;
    assert_eq!(client.head().await.status(), 431);
    let many: Vec<(String, String)> = (0..400).map(|n| (format!("X-Field-{n}"), "y".repeat(40))).collect();
    let many: Vec<(&str, &str)> = many.iter().map(|(n, v)| (n.as_str(), v.as_str())).collect();
    let mut client = gateway.connect().await;
    client.send(&http1::request("POST", CHAT, &many, OK_JSON)).await;
    assert_eq!(client.head().await.status(), 431);
    let fits = "x".repeat(6 << 10);
    let request = http1::request("POST", CHAT, &[("X-Big", &fits)], OK_JSON);
    assert_eq!(client::exchange(gateway.addr(), &request).await.status(), 200);
    assert_eq!(backend.count(), 1);
    gateway.wait_metric("forebay_rejected_total", &[("reason", "headers_too_large")], 2.0).await;
}

#[tokio::test]
async fn head_that_does_not_come_in_time_ends_the_connection() {
    let (backend, gateway) = through_with("limits: {header_read: 500ms}", polite).await;
    // Half a head; and one that comes a byte at a time, which must not extend the limit.
    for drip in [false, true] {
        let mut client = gateway.connect().await;
        client.send(b"POST /v1/chat/completions HTTP/1.1\r\nHost: g\r\nX-Slow: ").await;
        let (answer, end) = if drip {
            for _ in 0..200 {
                if client.try_send(b"x").await.is_err() {
                    break;
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            client.raw_rest().await
        } else {
            client.raw_rest().await
        };
        assert_ne!(end, End::Limit, "drip: {drip}");
        let text = String::from_utf8_lossy(&answer);
        assert!(text.is_empty() || text.starts_with("HTTP/1.1 408"), "{text}");
    }
    assert_eq!(backend.count(), 0);
    gateway.wait_metric("forebay_client_connections", &[], 0.0).await;
}

#[tokio::test]
async fn body_that_stalls_is_408() {
    let (backend, gateway) = through_with("limits: {body_stall: 500ms}", polite).await;
    let mut client = gateway.connect().await;
    client
        .send(
            format!("POST {CHAT} HTTP/1.1\r\nHost: g\r\nContent-Length: 1000\r\n\r\n{{\"model\"").as_bytes(),
        )
        .await;
    openai_error(&client.response().await, 408);
    assert!(client.closes_within(Duration::from_secs(10)).await);
    gateway.wait_metric("forebay_rejected_total", &[("reason", "body_timeout")], 1.0).await;
    gateway.wait_idle().await;
    // A body that is slow and never silent for that long is not stalled.
    let bytes = http1::post(CHAT, OK_JSON);
    let mut client = gateway.connect().await;
    client.send_segments(bytes.chunks(8), Duration::from_millis(60)).await;
    assert_eq!(client.response().await.status(), 200);
    assert_eq!(backend.count(), 1);
}

#[tokio::test]
async fn bodies_of_all_requests_together_are_bounded() {
    let gate = Gate::default();
    let (backend, gateway) =
        through_with("limits: {body: 1MiB, body_memory: 1MiB, body_stall: 1s}", hold(&gate)).await;
    let mut body = br#"{"model":"tide-7b","messages":[{"role":"user","content":""#.to_vec();
    body.resize(700 << 10, b'x');
    body.extend_from_slice(br#""}]}"#);
    let mut first = gateway.connect().await;
    first.send(&http1::post(CHAT, &body)).await;
    backend.request(0).await;
    let mut second = gateway.connect().await;
    let _ = second.try_send(&http1::post(CHAT, &body)).await;
    let refused = second.response_within(Duration::from_secs(60)).await;
    openai_error(&refused, 503);
    retry_after(&refused);
    gateway.wait_metric("forebay_rejected_total", &[("reason", "body_memory")], 1.0).await;
    gate.open();
    assert_eq!(first.response().await.status(), 200);
    assert_eq!(gateway.post(CHAT, &body).await.status(), 200, "the room was not given back");
}

#[tokio::test]
async fn connections_over_their_limit_are_turned_away_with_a_time_to_wait() {
    let (_backend, gateway) = through_with("limits: {connections: 2}", polite).await;
    let mut first = gateway.connect().await;
    let mut second = gateway.connect().await;
    for client in [&mut first, &mut second] {
        assert_eq!(client.exchange(&http1::post(CHAT, OK_JSON)).await.status(), 200);
    }
    for _ in 0..5 {
        let refused = gateway.post(CHAT, OK_JSON).await;
        openai_error(&refused, 503);
        retry_after(&refused);
    }
    gateway.wait_metric("forebay_rejected_total", &[("reason", "connection_limit")], 5.0).await;
    first.close();
    gateway.wait_metric("forebay_client_connections", &[], 1.0).await;
    assert_eq!(gateway.post(CHAT, OK_JSON).await.status(), 200);
    assert_eq!(second.exchange(&http1::post(CHAT, OK_JSON)).await.status(), 200);
}

#[tokio::test]
async fn idle_clients_are_let_go() {
    let (_backend, gateway) = through_with("limits: {client_idle: 1s}", polite).await;
    let mut client = gateway.connect().await;
    assert_eq!(client.exchange(&http1::post(CHAT, OK_JSON)).await.status(), 200);
    assert!(client.closes_within(Duration::from_secs(10)).await);
    gateway.wait_metric("forebay_client_connections", &[], 0.0).await;
}
