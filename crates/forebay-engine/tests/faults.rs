//! Faults on command, and what a client sees of them.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test that panics has failed")]

mod common;

use common::{Answer, Running, options, post, read_to_end, read_until, start};
use forebay_engine::{EngineOptions, Exit, Fault, FaultKind};
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

fn request(tokens: u32, stream: bool) -> Vec<u8> {
    let body = json!({
        "model": "tiny", "prompt": "a", "max_tokens": tokens, "ignore_eos": true, "stream": stream,
    });
    post("/v1/completions", &body.to_string())
}

async fn command(engine: &Running, fault: serde_json::Value) {
    let answer = engine.post("/fault", &fault.to_string()).await;
    assert_eq!(answer.status, 200, "{}", answer.body);
}

async fn healthy(engine: &Running) {
    let answer = engine.exchange(&request(3, true)).await;
    assert!(answer.status == 200 && answer.complete && answer.body.ends_with("[DONE]\n\n"), "{answer:?}");
    assert_eq!(answer.events().len(), 3);
}

#[tokio::test]
async fn faults_must_be_switched_on() {
    let engine = start(EngineOptions { faults: false, ..options() }).await;
    assert_eq!(engine.post("/fault", r#"{"kind":"hang"}"#).await.status, 404);
    healthy(&engine).await;
}

#[tokio::test]
async fn a_status_strikes_as_often_as_told() {
    let engine = start(options()).await;
    command(&engine, json!({"kind": "status", "code": 429, "count": 2, "retry_after": 7})).await;
    for stream in [true, false] {
        let answer = engine.exchange(&request(3, stream)).await;
        assert_eq!((answer.status, answer.header("retry-after")), (429, Some("7")));
        assert_eq!(answer.json()["error"]["code"], 429);
        assert_eq!(engine.get("/health").await.status, 200);
    }
    healthy(&engine).await;
}

#[tokio::test]
async fn a_hanging_engine_takes_requests_and_shows_none() {
    let engine = start(options()).await;
    command(&engine, json!({"kind": "hang"})).await;
    let mut stream = engine.connect().await;
    stream.write_all(&request(3, true)).await.unwrap();
    let seen = read_until(&mut stream, "\r\n\r\n").await;
    assert!(seen.ends_with("\r\n\r\n"), "{seen}");
    let mut plain = engine.connect().await;
    plain.write_all(&request(3, false)).await.unwrap();
    let stats = engine.until("two in flight", |s| s.in_flight == 2).await;
    assert_eq!((stats.load.running, stats.load.waiting), (0, 0));
    drop((stream, plain));
    engine.until("none in flight", |s| s.in_flight == 0).await;
    command(&engine, json!({"kind": "none"})).await;
    healthy(&engine).await;
}

#[tokio::test]
async fn a_cut_ends_the_connection_in_the_middle() {
    let engine = start(options()).await;
    for how in ["fin", "rst"] {
        command(&engine, json!({"kind": "cut", "after": 4, "how": how, "count": 2})).await;
        let mut stream = engine.connect().await;
        stream.write_all(&request(100, true)).await.unwrap();
        let mut bytes = Vec::new();
        let end = loop {
            match tokio::time::timeout(common::LIMIT, stream.read_buf(&mut bytes)).await.unwrap() {
                Ok(0) => break "fin",
                Ok(_) => {}
                Err(error) => {
                    assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset);
                    break "rst";
                }
            }
        };
        assert_eq!(end, how);
        let answer = Answer::parse(&bytes);
        assert_eq!((answer.chunks.len(), answer.complete), (4, false));

        let plain = engine.exchange(&request(3, false)).await;
        assert!(plain.status == 200 && !plain.complete && !plain.body.is_empty(), "{plain:?}");
        engine.until("nothing in flight", |s| s.in_flight == 0 && s.load.running == 0).await;
    }
    healthy(&engine).await;
}

#[tokio::test]
async fn streams_break_politely() {
    let engine = start(options()).await;
    command(&engine, json!({"kind": "stream_error", "after": 2, "count": 1})).await;
    let answer = engine.exchange(&request(100, true)).await;
    assert!(answer.complete);
    assert_eq!(answer.chunks.len(), 4);
    // To the letter as recorded from an engine whose core was killed.
    assert_eq!(
        answer.chunks[2],
        "data: {\"error\": {\"message\": \"EngineCore encountered an issue. See stack trace (above) for the root \
         cause.\", \"type\": \"InternalServerError\", \"param\": null, \"code\": 500}}\n\n"
    );
    assert_eq!(answer.chunks[3], "data: [DONE]\n\n");

    command(&engine, json!({"kind": "abort", "after": 2, "count": 1})).await;
    let answer = engine.exchange(&request(100, true)).await;
    let events = answer.events();
    assert!(answer.complete && answer.body.ends_with("[DONE]\n\n"));
    assert_eq!(events.len(), 3);
    assert_eq!(events[2]["choices"][0]["finish_reason"], "abort");
    command(&engine, json!({"kind": "stream_error", "count": 1})).await;
    assert_eq!(engine.exchange(&request(100, false)).await.status, 500);
    command(&engine, json!({"kind": "abort", "after": 2, "count": 1})).await;
    let answer = engine.exchange(&request(100, false)).await.json();
    assert_eq!(answer["choices"][0]["finish_reason"], "abort");
    assert_eq!(answer["usage"]["completion_tokens"], 2);
    engine.until("nothing left", |s| s.load.running == 0 && s.load.blocks_used == 0).await;
    healthy(&engine).await;
}

#[tokio::test]
async fn slow_stretches_the_engines_own_times() {
    let engine = start(options()).await;
    let sum = async || {
        let page = engine.get("/metrics").await.body;
        let name = "vllm:inter_token_latency_seconds_sum";
        let line = page.lines().find(|l| l.starts_with(name)).unwrap();
        line.rsplit_once(' ').unwrap().1.parse::<f64>().unwrap()
    };
    engine.exchange(&request(20, true)).await;
    let normal = sum().await;
    command(&engine, json!({"kind": "slow", "factor": 3.0})).await;
    engine.exchange(&request(20, true)).await;
    let slow = sum().await - normal;
    assert!((slow / normal - 3.0).abs() < 0.01, "{slow} {normal}");
}

#[tokio::test]
async fn a_frozen_engine_goes_on_where_it_stood() {
    let engine = start(options()).await;
    let mut stream = engine.connect().await;
    stream.write_all(&request(200, true)).await.unwrap();
    engine.until("some tokens", |s| s.load.generation_tokens > 5).await;
    engine.handle.set_fault(Fault { kind: FaultKind::Freeze, count: None });
    let stood = engine.handle.stats().load.generation_tokens;
    assert_eq!(engine.get("/health").await.status, 200);
    for _ in 0..20 {
        tokio::task::yield_now().await;
        assert_eq!(engine.handle.stats().load.generation_tokens, stood);
    }
    engine.handle.set_fault(Fault { kind: FaultKind::None, count: None });
    let answer = Answer::parse(&read_to_end(&mut stream).await);
    assert_eq!(answer.events().len(), 200);
}

#[tokio::test]
async fn a_crash_closes_everything() {
    let engine = start(options()).await;
    let mut stream = engine.connect().await;
    stream.write_all(&request(1000, true)).await.unwrap();
    read_until(&mut stream, "data: ").await;
    engine.handle.set_fault(Fault { kind: FaultKind::Crash, count: None });
    let rest = String::from_utf8(read_to_end(&mut stream).await).unwrap();
    assert!(!rest.contains("[DONE]") && !rest.ends_with("0\r\n\r\n"), "{rest}");
    let address = engine.address;
    assert_eq!(engine.exit().await, Exit::Crashed);
    assert!(tokio::net::TcpStream::connect(address).await.is_err());
}

#[tokio::test]
async fn a_dead_engine_core_says_so_and_then_closes() {
    let engine = start(EngineOptions { time_scale: 1.0, ..options() }).await;
    let mut stream = engine.connect().await;
    stream.write_all(&request(1000, true)).await.unwrap();
    read_until(&mut stream, "data: ").await;
    let mut plain = engine.connect().await;
    plain.write_all(&request(1000, false)).await.unwrap();
    engine.until("both running", |s| s.load.running == 2).await;
    engine.handle.set_fault(Fault { kind: FaultKind::EngineDead, count: None });
    let rest = String::from_utf8(read_to_end(&mut stream).await).unwrap();
    assert!(rest.contains("EngineCore encountered an issue") && rest.contains("data: [DONE]"), "{rest}");
    assert!(rest.ends_with("0\r\n\r\n"), "the end is orderly");
    assert_eq!(Answer::parse(&read_to_end(&mut plain).await).status, 500);
    assert_eq!(engine.exit().await, Exit::Crashed);
}
