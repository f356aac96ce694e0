//! LoRA adapters: their slots, and what loading them costs.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test that panics has failed")]

mod common;

use std::time::Duration;

use common::{Running, options, post, read_to_end, read_until, start};
use forebay_engine::EngineOptions;
use serde_json::json;
use tokio::io::AsyncWriteExt as _;

fn with_slots(slots: u32, load: Duration) -> EngineOptions {
    let adapters = ["a", "b", "c"].map(String::from).to_vec();
    EngineOptions { adapters, max_loras: Some(slots), adapter_load: load, ..options() }
}

fn request(model: &str, tokens: u32, stream: bool) -> String {
    json!({"model": model, "prompt": "hello", "max_tokens": tokens, "ignore_eos": true, "stream": stream})
        .to_string()
}

async fn complete(engine: &Running, model: &str) {
    let answer = engine.post("/v1/completions", &request(model, 3, false)).await;
    assert_eq!((answer.status, &answer.json()["model"]), (200, &json!(model)));
}

/// The value of a line of the metrics page.
async fn metric(engine: &Running, name: &str) -> f64 {
    let page = engine.get("/metrics").await.body;
    let line = page.lines().find(|line| line.starts_with(name)).unwrap_or_else(|| panic!("{name}\n{page}"));
    line.rsplit_once(' ').unwrap().1.parse().unwrap()
}

#[tokio::test]
async fn the_list_of_models_names_adapters_and_their_parent() {
    let engine = start(with_slots(2, Duration::ZERO)).await;
    let models = engine.get("/v1/models").await.json();
    let list: Vec<_> = models["data"].as_array().unwrap().iter().map(|m| (&m["id"], &m["parent"])).collect();
    let (tiny, none) = (json!("tiny"), json!(null));
    let (a, b, c) = (json!("a"), json!("b"), json!("c"));
    assert_eq!(list, [(&tiny, &none), (&a, &tiny), (&b, &tiny), (&c, &tiny)]);
}

#[tokio::test]
async fn a_first_use_waits_for_the_load_and_the_base_model_does_not() {
    // Engine time, of which 20 s pass in a second.
    let engine = start(with_slots(2, Duration::from_secs(5))).await;
    complete(&engine, "a").await;
    let waited = metric(&engine, "vllm:request_queue_time_seconds_sum").await;
    assert!(waited >= 5.0, "{waited}");
    assert_eq!(engine.handle.resident_adapters(), ["a"]);

    let engine = start(with_slots(2, Duration::from_secs(1_000_000))).await;
    let mut waiting = engine.connect().await;
    waiting.write_all(&post("/v1/completions", &request("a", 3, true))).await.unwrap();
    engine.until("one deferred", |stats| stats.deferred == 1).await;
    complete(&engine, "tiny").await;
    assert_eq!(engine.handle.stats().deferred, 1);
    assert!(engine.handle.resident_adapters().is_empty());
}

#[tokio::test]
async fn the_adapter_unused_longest_makes_room_when_it_is_idle() {
    let engine = start(with_slots(2, Duration::from_millis(1))).await;
    for model in ["a", "b", "a", "c"] {
        complete(&engine, model).await;
    }
    assert_eq!(engine.handle.resident_adapters(), ["a", "c"]);
    complete(&engine, "b").await;
    assert_eq!(engine.handle.resident_adapters(), ["b", "c"]);
}

#[tokio::test]
async fn a_request_waits_while_every_slot_is_in_use() {
    let options = EngineOptions { max_model_len: 100_000, time_scale: 1.0, ..with_slots(1, Duration::ZERO) };
    let engine = start(options).await;
    let mut busy = engine.connect().await;
    busy.write_all(&post("/v1/completions", &request("a", 50_000, true))).await.unwrap();
    read_until(&mut busy, "data: ").await;
    let mut waiting = engine.connect().await;
    waiting.write_all(&post("/v1/completions", &request("b", 3, true))).await.unwrap();
    engine.until("one deferred", |stats| stats.deferred == 1 && stats.in_flight == 2).await;
    assert_eq!(metric(&engine, "vllm:num_requests_waiting{").await, 1.0);
    let page = engine.get("/metrics").await.body;
    assert!(page.contains("model_name=\"tiny\",reason=\"deferred\"} 1.0"), "{page}");
    // The base model goes on, and a client that leaves is noticed.
    complete(&engine, "tiny").await;
    let mut gone = engine.connect().await;
    gone.write_all(&post("/v1/completions", &request("c", 3, true))).await.unwrap();
    engine.until("two deferred", |stats| stats.deferred == 2).await;
    drop(gone);
    engine.until("one deferred", |stats| stats.deferred == 1).await;
    drop(busy);
    let answer = String::from_utf8(read_to_end(&mut waiting).await).unwrap();
    assert!(answer.contains("data: [DONE]"), "{answer}");
    assert_eq!(engine.handle.resident_adapters(), ["b"]);
    engine.until("idle", |stats| stats.in_flight == 0 && stats.load.running == 0).await;
}

#[tokio::test]
async fn the_metrics_page_keeps_every_combination_and_the_latest_is_the_largest() {
    let options = EngineOptions { max_model_len: 100_000, time_scale: 1.0, ..with_slots(2, Duration::ZERO) };
    let engine = start(options).await;
    let mut streams = Vec::new();
    for model in ["b", "a"] {
        let mut stream = engine.connect().await;
        stream.write_all(&post("/v1/completions", &request(model, 50_000, true))).await.unwrap();
        read_until(&mut stream, "data: ").await;
        streams.push(stream);
    }
    let page = engine.get("/metrics").await.body;
    let series = page.lines().filter_map(|line| line.strip_prefix("vllm:lora_requests_info"));
    let mut series: Vec<(&str, f64)> = series
        .map(|line| line.rsplit_once(' ').unwrap())
        .map(|(labels, value)| (labels, value.parse().unwrap()))
        .collect();
    series.sort_by(|one, other| one.1.total_cmp(&other.1));
    let labels: Vec<&str> = series.iter().map(|(labels, _)| *labels).collect();
    let of = |names: &str| {
        format!("{{max_lora=\"2\",running_lora_adapters=\"{names}\",waiting_lora_adapters=\"{names}\"}}")
    };
    assert_eq!(labels, [of("b"), of("a,b")]);
}

#[tokio::test]
async fn removing_an_adapter_frees_who_waits_for_it() {
    let options = EngineOptions { max_model_len: 100_000, time_scale: 1.0, ..with_slots(1, Duration::ZERO) };
    let engine = start(options).await;
    let mut busy = engine.connect().await;
    busy.write_all(&post("/v1/completions", &request("a", 50_000, true))).await.unwrap();
    read_until(&mut busy, "data: ").await;
    let mut waiting = engine.connect().await;
    waiting.write_all(&post("/v1/completions", &request("b", 3, true))).await.unwrap();
    engine.until("one deferred", |stats| stats.deferred == 1).await;
    assert_eq!(engine.post("/v1/unload_lora_adapter", r#"{"lora_name":"b"}"#).await.status, 200);
    let answer = String::from_utf8(read_to_end(&mut waiting).await).unwrap();
    assert!(answer.contains("data: [DONE]"), "{answer}");
    assert_eq!(engine.post("/v1/completions", &request("b", 3, false)).await.status, 404);
}
