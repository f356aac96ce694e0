//! Connections, cancellation, and many streams at once.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test that panics has failed")]

mod common;

use std::time::Duration;

use bytes::Bytes;
use common::{Answer, LIMIT, Running, options, post, read_to_end, read_until, start};
use forebay_engine::{EngineOptions, EngineStats, Exit};
use http_body_util::{BodyExt as _, Full};
use hyper_util::rt::TokioIo;
use serde_json::json;
use tokio::io::AsyncWriteExt as _;
use tokio::time::{Instant, timeout};

/// Slow enough that nothing ends by itself during a test.
fn endless() -> EngineOptions {
    EngineOptions { time_scale: 1.0, max_model_len: 100_000, ..options() }
}

fn long(stream: bool) -> String {
    json!({
        "model": "tiny", "messages": [{"role": "user", "content": "hello"}], "max_tokens": 50_000,
        "ignore_eos": true, "stream": stream,
    })
    .to_string()
}

fn idle(stats: &EngineStats) -> bool {
    stats.load.running == 0 && stats.load.waiting == 0 && stats.load.blocks_used == 0 && stats.in_flight == 0
}

#[tokio::test]
async fn an_idle_connection_is_closed_after_five_seconds() {
    let engine = start(options()).await;
    let mut stream = engine.connect().await;
    // Twice on one connection: the second answer starts the time again.
    for _ in 0..2 {
        stream.write_all(b"GET /health HTTP/1.1\r\nHost: e\r\n\r\n").await.unwrap();
        read_until(&mut stream, "\r\n\r\n").await;
    }
    let answered = Instant::now();
    assert_eq!(read_to_end(&mut stream).await, b"");
    let waited = answered.elapsed();
    assert!(waited > Duration::from_millis(4900), "{waited:?}");
}

#[tokio::test]
async fn a_busy_connection_is_not_idle() {
    let engine = start(endless()).await;
    let mut stream = engine.connect().await;
    stream.write_all(b"GET /health HTTP/1.1\r\nHost: e\r\n\r\n").await.unwrap();
    read_until(&mut stream, "\r\n\r\n").await;
    let mut request =
        post("/v1/completions", r#"{"model":"tiny","prompt":"a","max_tokens":750,"ignore_eos":true}"#);
    let head = String::from_utf8(request.clone()).unwrap().replace("Connection: close\r\n", "");
    request = head.into_bytes();
    let began = Instant::now();
    stream.write_all(&request).await.unwrap();
    let answer = read_until(&mut stream, "\"metrics\":null}").await;
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    assert!(began.elapsed() > Duration::from_secs(5), "750 tokens take six seconds");
}

#[tokio::test]
async fn old_and_unusual_requests_work() {
    let engine = start(options()).await;
    let body = r#"{"model":"tiny","prompt":"a","max_tokens":2,"stream":true}"#;
    let n = body.len();
    let old = format!(
        "POST /v1/completions HTTP/1.0\r\nContent-Type: application/json\r\nContent-Length: {n}\r\n\r\n{body}"
    );
    let mut stream = engine.connect().await;
    stream.write_all(old.as_bytes()).await.unwrap();
    let answer = String::from_utf8(read_to_end(&mut stream).await).unwrap();
    assert!(answer.contains("200 OK") && answer.contains("[DONE]"), "{answer}");

    let (a, b) = body.split_at(10);
    let chunked = format!(
        "POST /v1/completions HTTP/1.1\r\nHost: e\r\nConnection: close\r\nContent-Type: application/json\r\n\
         Transfer-Encoding: chunked\r\n\r\n{:x}\r\n{a}\r\n{:x}\r\n{b}\r\n0\r\n\r\n",
        a.len(),
        b.len()
    );
    assert_eq!(engine.exchange(chunked.as_bytes()).await.status, 200);

    let mut stream = engine.connect().await;
    let head = format!(
        "POST /v1/completions HTTP/1.1\r\nHost: e\r\nConnection: close\r\nContent-Type: application/json\r\n\
         Content-Length: {n}\r\nExpect: 100-continue\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    read_until(&mut stream, "100 Continue\r\n\r\n").await;
    stream.write_all(body.as_bytes()).await.unwrap();
    assert_eq!(Answer::parse(&read_to_end(&mut stream).await).status, 200);
}

#[tokio::test]
async fn a_body_over_the_limit_is_refused_unread() {
    let engine = start(options()).await;
    let head = "POST /v1/completions HTTP/1.1\r\nHost: e\r\nContent-Type: application/json\r\n\
                Content-Length: 67108865\r\n\r\n";
    assert_eq!(engine.exchange(head.as_bytes()).await.status, 413);
}

#[tokio::test]
async fn the_request_id_is_echoed_and_names_the_answer() {
    let engine = start(options()).await;
    let body = r#"{"model":"tiny","prompt":"a","max_tokens":1}"#;
    let request = String::from_utf8(post("/v1/completions", body)).unwrap();
    let request = request.replace("Host: e\r\n", "Host: e\r\nX-Request-Id: my-1\r\n");
    let answer = engine.exchange(request.as_bytes()).await;
    assert_eq!(answer.header("x-request-id"), Some("my-1"));
    assert_eq!(answer.json()["id"], "cmpl-my-1");
    let (one, two) = (engine.get("/health").await, engine.get("/health").await);
    assert_ne!(one.header("x-request-id"), two.header("x-request-id"));
    assert_eq!(one.header("server"), Some("forebay-engine"));
}

#[tokio::test]
async fn a_client_that_leaves_stops_its_work() {
    let engine = start(EngineOptions { max_num_seqs: Some(1), ..endless() }).await;
    for stream in [true, false] {
        // One runs, one waits behind it.
        let mut first = engine.connect().await;
        first.write_all(&post("/v1/chat/completions", &long(stream))).await.unwrap();
        engine.until("running", |s| s.load.running == 1 && s.load.generation_tokens > 0).await;
        let mut second = engine.connect().await;
        second.write_all(&post("/v1/chat/completions", &long(stream))).await.unwrap();
        engine.until("waiting", |s| s.load.waiting == 1).await;
        assert_eq!(engine.get("/load").await.body, r#"{"server_load":2}"#);
        if stream {
            // The head of the one that waits is out all the same, and no more.
            let seen = read_until(&mut second, "\r\n\r\n").await;
            assert!(seen.ends_with("\r\n\r\n") && seen.starts_with("HTTP/1.1 200"), "{seen}");
        }
        drop(second);
        engine.until("the waiting one gone", |s| s.load.waiting == 0 && s.in_flight == 1).await;
        drop(first);
        engine.until("idle", idle).await;
    }
}

#[tokio::test]
async fn a_client_that_leaves_before_the_first_token_stops_its_work() {
    let engine = start(EngineOptions { time_scale: 0.01, ..endless() }).await;
    for stream in [true, false] {
        let mut client = engine.connect().await;
        client.write_all(&post("/v1/chat/completions", &long(stream))).await.unwrap();
        engine.until("running", |s| s.load.running == 1).await;
        drop(client);
        engine.until("idle", idle).await;
    }
    assert_eq!(engine.handle.stats().load.generation_tokens, 0);
}

#[tokio::test]
async fn the_head_comes_before_the_first_token() {
    let engine = start(EngineOptions { time_scale: 0.001, ..endless() }).await;
    let mut client = engine.connect().await;
    client.write_all(&post("/v1/chat/completions", &long(true))).await.unwrap();
    let seen = read_until(&mut client, "\r\n\r\n").await;
    assert!(seen.contains("text/event-stream") && seen.ends_with("\r\n\r\n"), "{seen}");
    assert_eq!(engine.handle.stats().load.generation_tokens, 0);
}

async fn one_stream(engine: &Running, n: usize) -> usize {
    let io = TokioIo::new(engine.connect().await);
    let (mut sender, connection) = hyper::client::conn::http1::handshake(io).await.unwrap();
    let connection = tokio::spawn(connection);
    let body = json!({
        "model": "tiny", "prompt": format!("stream {n}"), "max_tokens": 50, "ignore_eos": true, "stream": true,
    });
    let request = http::Request::post("/v1/completions")
        .header("host", "e")
        .header("content-type", "application/json")
        .body(Full::new(Bytes::from(body.to_string())))
        .unwrap();
    let mut answer = sender.send_request(request).await.unwrap();
    let mut text = String::new();
    while let Some(frame) = answer.frame().await {
        text.push_str(std::str::from_utf8(&frame.unwrap().into_data().unwrap()).unwrap());
    }
    drop(sender);
    connection.await.unwrap().unwrap();
    assert!(text.ends_with("data: [DONE]\n\n"));
    text.matches("data: {").count()
}

#[tokio::test]
async fn a_hundred_streams_at_once_all_get_their_tokens() {
    a_hundred_streams().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hundred_streams_on_two_threads() {
    a_hundred_streams().await;
}

async fn a_hundred_streams() {
    let engine = start(options()).await;
    let all = async {
        let streams: Vec<_> = (0..100).map(|n| Box::pin(one_stream(&engine, n))).collect();
        for stream in join_all(streams).await {
            assert_eq!(stream, 50);
        }
    };
    timeout(LIMIT, all).await.unwrap();
    let stats = engine.until("idle", idle).await;
    assert_eq!((stats.requests, stats.load.generation_tokens), (100, 5000));
}

/// Clients of every kind that leave at any moment: after 0 to 60 ms, which is
/// before, during or after their answers.
#[tokio::test]
async fn whoever_leaves_whenever_leaves_nothing_behind() {
    let engine = start(EngineOptions { max_num_seqs: Some(8), time_scale: 2.0, ..endless() }).await;
    let bodies = [
        ("/v1/chat/completions", long(true)),
        ("/v1/chat/completions", long(false)),
        (
            "/v1/completions",
            r#"{"model":"tiny","prompt":["a","b"],"n":2,"max_tokens":3,"stream":true}"#.into(),
        ),
        ("/v1/messages", long(true)),
        ("/v1/responses", r#"{"model":"tiny","input":"hello","stream":true}"#.into()),
        ("/v1/embeddings", r#"{"model":"tiny","input":"hello"}"#.into()),
    ];
    let mut clients = tokio::task::JoinSet::new();
    for n in 0..120usize {
        let (path, body) = &bodies[n % bodies.len()];
        let request = post(path, body);
        let mut stream = engine.connect().await;
        let stay = Duration::from_millis((n * 37 % 61) as u64);
        clients.spawn(async move {
            // Some leave in the middle of their own request.
            let sent = if n % 10 == 9 { request.len() / 2 } else { request.len() };
            stream.write_all(&request[..sent]).await.unwrap();
            tokio::time::sleep(stay).await;
        });
    }
    timeout(LIMIT, clients.join_all()).await.unwrap();
    engine.until("idle", idle).await;
}

/// Polls all futures together.
async fn join_all<F: Future<Output = usize> + Unpin>(mut futures: Vec<F>) -> Vec<usize> {
    let mut done: Vec<Option<usize>> = vec![None; futures.len()];
    std::future::poll_fn(|cx| {
        for (future, done) in futures.iter_mut().zip(&mut done).filter(|(_, done)| done.is_none()) {
            if let std::task::Poll::Ready(value) = std::pin::Pin::new(future).poll(cx) {
                *done = Some(value);
            }
        }
        match done.iter().all(Option::is_some) {
            true => std::task::Poll::Ready(()),
            false => std::task::Poll::Pending,
        }
    })
    .await;
    done.into_iter().flatten().collect()
}

#[tokio::test]
async fn shutdown_ends_what_is_in_flight_with_abort() {
    let mut engine = start(endless()).await;
    let mut chat = engine.connect().await;
    chat.write_all(&post("/v1/chat/completions", &long(true))).await.unwrap();
    let mut plain = engine.connect().await;
    plain.write_all(&post("/v1/chat/completions", &long(false))).await.unwrap();
    let mut messages = engine.connect().await;
    messages.write_all(&post("/v1/messages", &long(true))).await.unwrap();
    engine.until("three running", |s| s.load.running == 3 && s.load.generation_tokens > 10).await;
    engine.stop();

    let chat = Answer::parse(&read_to_end(&mut chat).await);
    assert!(chat.complete && chat.body.ends_with("data: [DONE]\n\n"));
    assert_eq!(chat.events().last().unwrap()["choices"][0]["finish_reason"], "abort");
    let plain = Answer::parse(&read_to_end(&mut plain).await);
    assert_eq!(plain.status, 200);
    let json = plain.json();
    assert_eq!(json["choices"][0]["finish_reason"], "abort");
    let made = json["usage"]["completion_tokens"].as_u64().unwrap();
    assert!(made > 0 && made < 50_000);
    assert_eq!(json["choices"][0]["message"]["content"].as_str().unwrap().len() as u64, made * 4);
    let messages = Answer::parse(&read_to_end(&mut messages).await);
    assert!(messages.complete && messages.body.contains("message_stop"));
    let address = engine.address;
    assert_eq!(engine.exit().await, Exit::Shutdown);
    assert!(tokio::net::TcpStream::connect(address).await.is_err());
}
