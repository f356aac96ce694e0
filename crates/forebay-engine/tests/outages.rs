//! Engines that slow down, die and come back, or lose their network.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test that panics has failed")]

mod common;

use std::net::SocketAddr;
use std::time::Duration;

use common::kv::{next, of_type, replay, subscribe};
use common::{LIMIT, Running, options, post, read_until, start};
use forebay_engine::{EngineOptions, Exit};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::timeout;

/// Long enough to be seen on a busy machine.
const SHORT: Duration = Duration::from_millis(400);

fn prompt(start: u32, tokens: u32, stream: bool) -> String {
    let ids: Vec<u32> = (start..start + 40).collect();
    json!({"model": "tiny", "prompt": ids, "max_tokens": tokens, "ignore_eos": true, "stream": stream})
        .to_string()
}

/// The cached tokens of a prompt of 40, of which 32 can be.
async fn cached(engine: &Running, start: u32) -> Value {
    let answer = engine.post("/v1/completions", &prompt(start, 1, false)).await;
    answer.json()["usage"]["prompt_tokens_details"]["cached_tokens"].clone()
}

/// Waits until the address takes a connection again.
async fn back(engine: &Running) {
    let connect = async {
        while TcpStream::connect(engine.address).await.is_err() {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    timeout(LIMIT, connect).await.expect("it comes back");
}

/// A stream under way.
async fn streaming(engine: &Running) -> TcpStream {
    let mut stream = engine.connect().await;
    stream.write_all(&post("/v1/completions", &prompt(7_000, 900, true))).await.unwrap();
    read_until(&mut stream, "data: ").await;
    stream
}

/// How a connection ends: `Ok` for an end, `Err` for a reset.
async fn end(mut stream: TcpStream) -> std::io::Result<()> {
    let mut bytes = Vec::new();
    timeout(LIMIT, stream.read_to_end(&mut bytes)).await.expect("it ends").map(drop)?;
    assert!(!String::from_utf8_lossy(&bytes).contains("[DONE]"));
    Ok(())
}

fn slow() -> EngineOptions {
    EngineOptions { time_scale: 1.0, ..options() }
}

#[tokio::test]
async fn a_restarted_engine_is_empty_and_counts_from_zero() {
    let engine = start(slow()).await;
    assert_eq!(cached(&engine, 0).await, 0);
    assert_eq!(cached(&engine, 0).await, 32);
    let started = start_time(&engine).await;
    let stream = streaming(&engine).await;
    engine.handle.restart(SHORT);
    let _ = end(stream).await;
    assert!(TcpStream::connect(engine.address).await.is_err(), "it is down for a while");
    back(&engine).await;
    let stats = engine.handle.stats();
    assert_eq!((stats.requests, stats.in_flight, stats.load.running), (0, 0, 0));
    assert_eq!(cached(&engine, 0).await, 0, "the new process knows nothing");
    assert_eq!(cached(&engine, 0).await, 32);
    assert!(start_time(&engine).await > started);
}

async fn start_time(engine: &Running) -> f64 {
    let page = engine.get("/metrics").await.body;
    let line = page.lines().find_map(|line| line.strip_prefix("process_start_time_seconds "));
    line.unwrap().parse().unwrap()
}

#[tokio::test]
async fn an_engine_without_network_keeps_its_cache_and_drops_its_clients() {
    let engine = start(slow()).await;
    assert_eq!(cached(&engine, 0).await, 0);
    let stream = streaming(&engine).await;
    engine.handle.cut_off(SHORT);
    let error = end(stream).await.expect_err("a reset");
    assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset);
    assert!(TcpStream::connect(engine.address).await.is_err());
    // It is alive meanwhile, and notices that its client is gone.
    engine.until("idle", |stats| stats.load.running == 0 && stats.in_flight == 0).await;
    back(&engine).await;
    assert_eq!(cached(&engine, 0).await, 32);
    assert_eq!(engine.handle.stats().requests, 3, "its counters went on");
}

#[tokio::test]
async fn outages_can_be_commanded_over_http_and_end_on_shutdown() {
    let mut engine = start(slow()).await;
    let mut stream = engine.connect().await;
    stream.write_all(&post("/fault", r#"{"kind":"cut_off","seconds":0.2}"#)).await.unwrap();
    // The answer may be lost with the connection.
    let _ = end(stream).await;
    back(&engine).await;
    assert_eq!(engine.get("/health").await.status, 200);
    engine.handle.restart(Duration::from_secs(80_000));
    let refused = async { while TcpStream::connect(engine.address).await.is_ok() {} };
    timeout(LIMIT, refused).await.unwrap();
    engine.stop();
    assert_eq!(engine.exit().await, Exit::Shutdown);
}

#[tokio::test]
async fn a_crash_by_hand_ends_it() {
    let engine = start(options()).await;
    engine.handle.crash();
    assert_eq!(engine.exit().await, Exit::Crashed);
}

#[tokio::test]
async fn kv_events_begin_anew_after_a_restart_and_go_on_after_a_cut() {
    let free = Some(SocketAddr::from(([127, 0, 0, 1], 0)));
    let engine = start(EngineOptions { kv_events: free, kv_replay: free, ..options() }).await;
    for n in 0..3 {
        cached(&engine, n * 100).await;
    }
    let told = replay(&engine, 0).await;
    assert_eq!(told.len(), 3);
    engine.handle.cut_off(SHORT);
    engine.until_refused().await;
    back(&engine).await;
    assert_eq!(replay(&engine, 0).await, told, "what was told can still be asked for");
    cached(&engine, 900).await;
    assert_eq!(replay(&engine, 3).await[0].number, 3);

    engine.handle.restart(SHORT);
    engine.until_refused().await;
    back(&engine).await;
    assert_eq!(replay(&engine, 0).await, []);
    let mut socket = subscribe(engine.kv.0.unwrap()).await;
    let heard = tokio::select! {
        batch = next(&mut socket) => batch,
        () = async {
            for n in 0.. {
                cached(&engine, n * 100).await;
            }
        } => unreachable!("it goes on until the other ends"),
    };
    let told = replay(&engine, 0).await;
    assert_eq!((told[0].number, &told[heard.number as usize]), (0, &heard));
}

#[tokio::test]
async fn a_reset_empties_the_cache_and_is_told_with_the_next_step() {
    let free = Some(SocketAddr::from(([127, 0, 0, 1], 0)));
    let engine = start(EngineOptions { kv_events: free, kv_replay: free, ..options() }).await;
    cached(&engine, 0).await;
    let answer = engine.post("/reset_prefix_cache", "").await;
    assert_eq!((answer.status, answer.body.as_str()), (200, ""));
    assert_eq!(
        of_type(&replay(&engine, 0).await, "AllBlocksCleared").len(),
        0,
        "an idle engine says nothing"
    );
    assert_eq!(cached(&engine, 0).await, 0);
    let last = replay(&engine, 1).await;
    let kinds: Vec<Value> = last[0].events().iter().map(|event| event["type"].clone()).collect();
    assert_eq!(kinds, ["AllBlocksCleared", "BlockStored"]);
    assert!(engine.handle.reset_prefix_cache());
    let engine = start(EngineOptions { faults: false, ..options() }).await;
    assert_eq!(engine.post("/reset_prefix_cache", "").await.status, 404);
}

#[tokio::test]
async fn speed_stretches_steps_and_outlives_faults() {
    let engine = start(options()).await;
    let inter_token = async || {
        let sum = async || {
            let page = engine.get("/metrics").await.body;
            let name = "vllm:inter_token_latency_seconds_sum";
            let line = page.lines().find(|line| line.starts_with(name)).unwrap();
            line.rsplit_once(' ').unwrap().1.parse::<f64>().unwrap()
        };
        let before = sum().await;
        engine.post("/v1/completions", &prompt(0, 20, false)).await;
        sum().await - before
    };
    let normal = inter_token().await;
    for (speed, ratio) in [(0.5, 2.0), (0.8, 1.25), (1.0, 1.0)] {
        engine.handle.set_speed(speed);
        let slow = inter_token().await;
        assert!((slow / normal - ratio).abs() < 0.01, "{speed}: {slow} {normal}");
    }
    engine.handle.set_speed(0.5);
    engine.post("/fault", r#"{"kind":"slow","factor":3}"#).await;
    assert!((inter_token().await / normal - 6.0).abs() < 0.05);
    engine.post("/fault", r#"{"kind":"none"}"#).await;
    assert!((inter_token().await / normal - 2.0).abs() < 0.02);
}
