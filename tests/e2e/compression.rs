//! B13: encoded answers are passed as they are, and never asked for where they must be read.

use std::time::Duration;

use forebay_tests::backend::{Gate, RequestLog, Step};
use forebay_tests::bodies::{
    CHAT, DONE, LAST_CHUNK, OK_JSON, OK_SSE, OK_SSE_USAGE, chunk, completion, ok_json, response, stream,
    usage,
};
use forebay_tests::http1;
use forebay_tests::{client, gzip};

use crate::common::through;

fn offers_gzip(request: &RequestLog) -> bool {
    request.head.all("accept-encoding").iter().any(|v| v.contains("gzip"))
}

fn gzip_stream(pieces: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let mut encoder = gzip::Encoder::default();
    let mut out: Vec<Vec<u8>> = pieces.iter().map(|p| encoder.flush(p)).collect();
    out.push(encoder.finish());
    out
}

const GZIP_SSE_HEAD: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n\r\n";

fn post_offering(body: &[u8], encodings: &str) -> Vec<u8> {
    http1::request(
        "POST",
        CHAT,
        &[("Content-Type", "application/json"), ("Accept-Encoding", encodings)],
        body,
    )
}

#[tokio::test]
async fn b13_engine_that_obeys_is_asked_for_identity_and_usage_is_read() {
    let pieces = [chunk("a"), chunk("b"), usage(41, 17), DONE.to_vec()];
    let payload = pieces.concat();
    let (backend, gateway) = through(move |r| {
        if offers_gzip(r) {
            let mut steps = vec![Step::send(GZIP_SSE_HEAD)];
            steps.extend(gzip_stream(&pieces).iter().map(|p| Step::send(http1::chunk(p))));
            steps.push(Step::send(LAST_CHUNK));
            steps
        } else {
            stream(&pieces, Duration::ZERO)
        }
    })
    .await;
    let offering = post_offering(OK_SSE_USAGE, "gzip, deflate, br, zstd");
    for (n, request) in [offering, http1::post(CHAT, OK_SSE_USAGE)].iter().enumerate() {
        let response = client::exchange(gateway.addr(), request).await;
        assert_eq!(response.head.get("content-encoding"), None);
        assert_eq!(response.body, payload);
        let encodings = backend.request(n).await.head.all("accept-encoding").join(",");
        assert!(encodings.is_empty() || encodings == "identity", "asked for {encodings:?}");
        let n = (n + 1) as f64;
        gateway.wait_metric("forebay_tokens_total", &[("kind", "prompt")], 41.0 * n).await;
    }
}

#[tokio::test]
async fn b13_gzip_stream_of_an_engine_that_does_not_obey_passes_untouched_and_at_once() {
    let pieces = [chunk("a"), chunk("b"), usage(41, 17), DONE.to_vec()];
    let encoded = gzip_stream(&pieces);
    let gates: Vec<Gate> = encoded.iter().map(|_| Gate::default()).collect();
    let (script, held) = (encoded.clone(), gates.clone());
    let (_backend, gateway) = through(move |_| {
        let mut steps = vec![Step::send(GZIP_SSE_HEAD)];
        for (piece, gate) in script.iter().zip(&held) {
            steps.extend([Step::Wait(gate.clone()), Step::send(http1::chunk(piece))]);
        }
        steps.push(Step::send(LAST_CHUNK));
        steps
    })
    .await;
    let mut client = gateway.connect().await;
    client.send(&post_offering(OK_SSE_USAGE, "gzip")).await;
    let mut head = None;
    let mut body = Vec::new();
    for (piece, gate) in encoded.iter().zip(&gates) {
        gate.open();
        if head.is_none() {
            head = Some(client.head().await);
        }
        body.extend(client.read_until("one flushed piece", |got| got == piece).await);
    }
    let response = client.rest(head.unwrap()).await;
    assert!(response.is_complete() && response.body.is_empty());
    assert_eq!(response.head.all("content-encoding"), ["gzip"]);
    assert_eq!(gzip::decode(&body).unwrap(), pieces.concat());
    gateway.wait_outcome("finished", 1.0).await;
    gateway.wait_metric("forebay_usage_unknown_total", &[], 1.0).await;
}

#[tokio::test]
async fn b13_gzip_error_and_gzip_answer_keep_their_label() {
    let error =
        br#"{"error":{"message":"slow down","type":"requests","param":null,"code":"rate_limit_exceeded"}}"#;
    let whole = completion("tide-7b", 12, 30);
    let answer = whole.clone();
    let (_backend, gateway) = through(move |r| {
        let (status, body) =
            if r.index == 0 { ("429 Too Many Requests", error.to_vec()) } else { ("200 OK", answer.clone()) };
        let fields =
            [("Content-Type", "application/json"), ("Content-Encoding", "gzip"), ("Retry-After", "7")];
        vec![Step::send(response(status, &fields, &gzip::encode(&body)))]
    })
    .await;
    for (status, body) in [(429, error.to_vec()), (200, whole)] {
        let response = client::exchange(gateway.addr(), &post_offering(OK_JSON, "gzip")).await;
        assert_eq!(response.status(), status);
        assert_eq!(response.head.all("content-encoding"), ["gzip"]);
        assert_eq!(response.head.count("content-length") + response.head.count("transfer-encoding"), 1);
        assert_eq!(gzip::decode(&response.body).unwrap(), body);
        assert_eq!(response.head.get("retry-after"), Some("7"));
    }
    gateway.wait_outcome("backpressure", 1.0).await;
}

#[tokio::test]
async fn b13_nothing_is_compressed_by_the_gateway() {
    let (_backend, gateway) = through(|r| {
        if r.asks_for_stream() { stream(&[chunk("a"), DONE.to_vec()], Duration::ZERO) } else { ok_json() }
    })
    .await;
    for body in [OK_SSE, OK_JSON] {
        let response = client::exchange(gateway.addr(), &post_offering(body, "gzip, br")).await;
        assert_eq!((response.status(), response.head.get("content-encoding")), (200, None));
    }
}
