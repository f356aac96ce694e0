//! KV events as a subscriber sees them.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test that panics has failed")]

mod common;

use std::net::SocketAddr;

use common::kv::{next, of_type, replay, subscribe};
use common::{Running, options, start};
use forebay_engine::{Engine, EngineOptions};
use serde_json::{Value, json};

fn publishing() -> EngineOptions {
    let free = Some(SocketAddr::from(([127, 0, 0, 1], 0)));
    EngineOptions { kv_events: free, kv_replay: free, kv_topic: "kv@e@tiny".into(), ..options() }
}

/// Sends a completion of these token ids and more fields; gives its usage.
async fn complete(engine: &Running, ids: std::ops::Range<u32>, more: Value) -> Value {
    let mut body =
        json!({"model": "tiny", "prompt": ids.collect::<Vec<_>>(), "max_tokens": 1, "ignore_eos": true});
    body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    let answer = engine.post("/v1/completions", &body.to_string()).await;
    assert_eq!(answer.status, 200, "{}", answer.body);
    answer.json()["usage"].clone()
}

fn numbers(value: &Value) -> Vec<u64> {
    value.as_array().unwrap().iter().map(|n| n.as_u64().unwrap()).collect()
}

#[tokio::test]
async fn the_blocks_of_a_prompt_and_its_answer_are_announced_once() {
    let engine = start(publishing()).await;
    // 6 full blocks of 16, and with the answer's 29 computed tokens 2 more.
    complete(&engine, 500..600, json!({"max_tokens": 30})).await;
    let told = replay(&engine, 0).await;
    assert_eq!(told.iter().map(|b| b.number).collect::<Vec<_>>(), (0..told.len() as u64).collect::<Vec<_>>());
    assert!(told.iter().all(|b| b.topic == "kv@e@tiny"));
    let stored = of_type(&told, "BlockStored");
    assert_eq!(stored.len(), 3, "the prompt at once, the answer's blocks as they fill: {stored:?}");
    let mut tokens = Vec::new();
    let mut parent = Value::Null;
    for event in &stored {
        assert_eq!(event["parent_block_hash"], parent);
        let hashes = numbers(&event["block_hashes"]);
        let ids = numbers(&event["token_ids"]);
        assert_eq!((ids.len(), &event["block_size"]), (hashes.len() * 16, &json!(16)));
        assert_eq!((&event["medium"], &event["lora_name"]), (&json!("GPU"), &Value::Null));
        assert_eq!(event["extra_keys"], json!(vec![Value::Null; hashes.len()]));
        parent = json!(hashes.last());
        tokens.extend(ids);
    }
    assert_eq!(tokens.len(), 128);
    assert_eq!(tokens[..100], (500..600).collect::<Vec<u64>>());

    let usage = complete(&engine, 500..600, json!({"max_tokens": 30})).await;
    assert_eq!(usage["prompt_tokens_details"]["cached_tokens"], 96);
    assert_eq!(replay(&engine, 0).await, told, "a hit is no news");
    // A longer prompt announces only what is new, on top of what was there.
    complete(&engine, 500..640, json!({})).await;
    let more = of_type(&replay(&engine, told.len() as u64).await, "BlockStored");
    assert_eq!(numbers(&more[0]["token_ids"]), (596..628).collect::<Vec<u64>>());
    let sixth = &numbers(&stored[0]["block_hashes"])[5];
    assert_eq!(more[0]["parent_block_hash"], json!(sixth));
}

#[tokio::test]
async fn who_subscribes_hears_what_who_asks_is_told() {
    let engine = start(publishing()).await;
    let mut socket = subscribe(engine.kv.0.unwrap()).await;
    // What is sent before the subscription has arrived is lost; ask until one comes.
    let heard = async {
        tokio::select! {
            batch = next(&mut socket) => batch,
            () = async {
                for n in 0.. {
                    complete(&engine, n * 100..n * 100 + 40, json!({})).await;
                }
            } => unreachable!("it goes on until the other ends"),
        }
    }
    .await;
    let told = replay(&engine, heard.number).await;
    assert_eq!(told[0], heard);
    let after = replay(&engine, u64::MAX - 1).await;
    assert_eq!(after, [], "beyond the end there is only the end mark");
    complete(&engine, 90_000..90_040, json!({})).await;
    let mut last = heard;
    while last.number < told.len() as u64 {
        let batch = next(&mut socket).await;
        assert_eq!(batch.number, last.number + 1);
        last = batch;
    }
}

#[tokio::test]
async fn adapters_and_salts_have_blocks_of_their_own() {
    let engine = start(EngineOptions { adapters: vec!["a".into(), "b".into()], ..publishing() }).await;
    complete(&engine, 0..40, json!({})).await;
    complete(&engine, 0..40, json!({"model": "b"})).await;
    complete(&engine, 0..40, json!({"cache_salt": "tenant"})).await;
    complete(&engine, 0..40, json!({"model": "b", "cache_salt": "tenant"})).await;
    let stored = of_type(&replay(&engine, 0).await, "BlockStored");
    assert_eq!(stored.len(), 4);
    let keys: Vec<&Value> = stored.iter().map(|event| &event["extra_keys"]).collect();
    assert_eq!(
        keys,
        [
            &json!([null, null]),
            &json!([["b"], ["b"]]),
            &json!([["tenant"], null]),
            &json!([["b", "tenant"], ["b"]]),
        ]
    );
    assert_eq!((&stored[1]["lora_id"], &stored[1]["lora_name"]), (&json!(2), &json!("b")));
    let mut hashes: Vec<u64> = stored.iter().flat_map(|event| numbers(&event["block_hashes"])).collect();
    hashes.sort_unstable();
    hashes.dedup();
    assert_eq!(hashes.len(), 8, "no two share a hash");
}

#[tokio::test]
async fn evictions_are_told_and_the_buffer_is_bounded() {
    let engine = start(EngineOptions { kv_tokens: Some(160), kv_buffer: 3, ..publishing() }).await;
    for n in 0..6 {
        complete(&engine, n * 1_000..n * 1_000 + 64, json!({})).await;
    }
    let told = replay(&engine, 0).await;
    assert_eq!(told.iter().map(|b| b.number).collect::<Vec<_>>(), [3, 4, 5], "only the last three are left");
    let removed = of_type(&told, "BlockRemoved");
    assert!(!removed.is_empty());
    assert!(
        removed.iter().all(|event| numbers(&event["block_hashes"]).len() == 1 && event["medium"] == "GPU")
    );
}

#[tokio::test]
async fn where_events_come_from_is_told() {
    let engine = start(publishing()).await;
    let (events, again) = (engine.kv.0.unwrap(), engine.kv.1.unwrap());
    let sources = engine.get("/kv_event_sources").await.json();
    assert_eq!(
        sources,
        json!({"0": {"enable_kv_cache_events": true, "publisher": "zmq", "endpoint": format!("tcp://*:{}", events.port()),
            "replay_endpoint": format!("tcp://*:{}", again.port()), "buffer_steps": 10_000, "hwm": 100_000,
            "max_queue_size": 100_000, "topic": "kv@e@tiny"}})
    );
    assert_eq!(start(options()).await.get("/kv_event_sources").await.body, "{}");
}

#[tokio::test]
async fn impossible_addresses_are_refused() {
    let free = Some(SocketAddr::from(([127, 0, 0, 1], 0)));
    let error = Engine::bind(EngineOptions { kv_replay: free, ..options() }).await.err().unwrap();
    assert!(error.to_string().contains("none for the events"), "{error}");
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let kv_events = Some(taken.local_addr().unwrap());
    let error = Engine::bind(EngineOptions { kv_events, ..options() }).await.err().unwrap();
    assert!(error.to_string().starts_with("KV events on 127.0.0.1:"), "{error}");
}
