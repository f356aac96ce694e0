//! A client's connection: kept, and its requests in every framing.

use std::time::Duration;

use forebay_tests::bodies::{CHAT, OK_JSON, OK_SSE, polite};
use forebay_tests::client;
use forebay_tests::http1;

use crate::common::{openai_error, through, through_with};

#[tokio::test]
async fn expect_continue_is_answered_before_the_body() {
    let (backend, gateway) = through(polite).await;
    let mut client = gateway.connect().await;
    let head = format!(
        "POST {CHAT} HTTP/1.1\r\nHost: g\r\nContent-Type: application/json\r\nExpect: 100-continue\r\nContent-Length: {}\r\n\r\n",
        OK_JSON.len()
    );
    client.send(head.as_bytes()).await;
    assert_eq!(client.head().await.status(), 100);
    assert_eq!(backend.count(), 0);
    client.send(OK_JSON).await;
    assert_eq!(client.response().await.status(), 200);
    assert_eq!(backend.request(0).await.body, OK_JSON);
    // The gateway has answered it; the engine need not.
    assert_eq!(backend.request(0).await.head.get("expect"), None);
}

#[tokio::test]
async fn expect_continue_with_a_body_that_is_too_large_is_413_at_once() {
    let (_backend, gateway) = through_with("limits: {body: 1MiB}", polite).await;
    let mut client = gateway.connect().await;
    let head = format!(
        "POST {CHAT} HTTP/1.1\r\nHost: g\r\nExpect: 100-continue\r\nContent-Length: {}\r\n\r\n",
        (1 << 20) + 1
    );
    client.send(head.as_bytes()).await;
    let head = client.head().await;
    assert_eq!(head.status(), 413, "asked for a body that it will refuse");
}

#[tokio::test]
async fn chunked_request_body_arrives_whole() {
    let (backend, gateway) = through(polite).await;
    let head = format!(
        "POST {CHAT} HTTP/1.1\r\nHost: g\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
    );
    for size in [1, 7, 1000] {
        let mut client = gateway.connect().await;
        client.send(head.as_bytes()).await;
        client.send_segments(http1::chunked(OK_JSON, size).chunks(5), Duration::from_micros(200)).await;
        assert_eq!(client.response().await.status(), 200, "chunks of {size}");
    }
    // Extensions and a trailer are framing, not body.
    let body =
        [format!("{:X};a=\"b\"\r\n", OK_JSON.len()).as_bytes(), OK_JSON, b"\r\n0\r\nX-Trailer: 1\r\n\r\n"]
            .concat();
    assert_eq!(client::exchange(gateway.addr(), &[head.as_bytes(), &body].concat()).await.status(), 200);
    assert_eq!(backend.count(), 4);
    for request in backend.requests() {
        assert_eq!(request.body, OK_JSON);
        assert_eq!(request.head.count("content-length") + request.head.count("transfer-encoding"), 1);
    }
    assert_eq!(backend.errors(), Vec::<String>::new());
}

#[tokio::test]
async fn connections_are_kept_on_both_sides() {
    // Each worker has connections of its own.
    let (backend, gateway) = through_with("workers: 1", polite).await;
    let mut client = gateway.connect().await;
    for n in 0..20 {
        let body = if n % 2 == 0 { OK_JSON } else { OK_SSE };
        let answer = client.exchange(&http1::post(CHAT, body)).await;
        assert_eq!((answer.status(), answer.is_complete()), (200, true));
    }
    // And for clients that come one after another.
    for _ in 0..20 {
        assert_eq!(gateway.post(CHAT, OK_JSON).await.status(), 200);
    }
    let mut used: Vec<usize> = backend.requests().iter().map(|r| r.connection).collect();
    assert_eq!(used.len(), 40);
    used.dedup();
    assert_eq!(used.len(), 1, "one request after the other took connections {used:?}");
}

#[tokio::test]
async fn a_refused_request_keeps_the_clients_connection_usable() {
    let (_backend, gateway) = through(polite).await;
    let mut client = gateway.connect().await;
    for _ in 0..3 {
        openai_error(&client.exchange(&http1::post(CHAT, b"{")).await, 400);
        openai_error(&client.exchange(&http1::post("/nope", OK_JSON)).await, 404);
        assert_eq!(client.exchange(&http1::post(CHAT, OK_JSON)).await.status(), 200);
    }
}
