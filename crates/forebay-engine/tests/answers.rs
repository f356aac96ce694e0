//! What is in the answers: counts, lengths, cached tokens, texts.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test that panics has failed")]

mod common;

use common::{Answer, options, start};
use forebay_engine::EngineOptions;
use serde_json::{Value, json};

fn roomy() -> EngineOptions {
    EngineOptions { max_model_len: 20_000, time_scale: 200.0, ..options() }
}

fn usage(answer: &Answer) -> (u64, u64, u64) {
    let json = answer.json();
    let n = |v: &Value| v.as_u64().unwrap();
    let usage = &json["usage"];
    (
        n(&usage["prompt_tokens"]),
        n(&usage["completion_tokens"]),
        n(&usage["prompt_tokens_details"]["cached_tokens"]),
    )
}

#[tokio::test]
async fn a_prompt_has_the_tokens_that_the_rule_says() {
    let engine = start(roomy()).await;
    let text = "x".repeat(4001);
    let ids: Vec<u32> = (0..777).collect();
    for (prompt, tokens) in [
        (json!(text), 1001),
        (json!("abcd"), 1),
        (json!(ids), 777),
        (json!([[1, 2, 3], [4]]), 4),
        (json!(["abcde", "f"]), 3),
    ] {
        let body = json!({"model": "tiny", "prompt": prompt, "max_tokens": 1}).to_string();
        assert_eq!(usage(&engine.post("/v1/completions", &body).await).0, tokens);
    }
}

#[tokio::test]
async fn lengths_are_exact_when_asked_for() {
    let engine = start(roomy()).await;
    let ask = |extra: Value| {
        let mut body = json!({"model": "tiny", "messages": [{"role": "user", "content": "hi"}]});
        body.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
        body.to_string()
    };
    for extra in [
        json!({"max_tokens": 777, "ignore_eos": true}),
        json!({"max_completion_tokens": 777, "ignore_eos": true}),
        json!({"max_tokens": 777, "min_tokens": 777}),
    ] {
        let answer = engine.post("/v1/chat/completions", &ask(extra)).await;
        assert_eq!(usage(&answer).1, 777);
        assert_eq!(answer.json()["choices"][0]["finish_reason"], "length");
    }
    let free = engine.post("/v1/chat/completions", &ask(json!({}))).await;
    let (_, natural, _) = usage(&free);
    assert_eq!(free.json()["choices"][0]["finish_reason"], "stop");
    let capped = engine.post("/v1/chat/completions", &ask(json!({"max_tokens": 2}))).await;
    assert!(natural > 2 && usage(&capped).1 == 2);
    let text =
        |answer: &Answer| answer.json()["choices"][0]["message"]["content"].as_str().unwrap().to_string();
    assert_eq!(text(&free).len() as u64, natural * 4);
    assert!(text(&free).starts_with(&text(&capped)), "the text does not depend on the limit");
}

#[tokio::test]
async fn the_text_follows_from_prompt_and_seed() {
    let (one, other) = (start(roomy()).await, start(EngineOptions { seed: 9, ..roomy() }).await);
    let body = |content: &str, seed: u32| {
        json!({
            "model": "tiny", "messages": [{"role": "user", "content": content}], "max_tokens": 8, "n": 2,
            "ignore_eos": true, "seed": seed, "stream": false,
        })
        .to_string()
    };
    let text = async |engine: &common::Running, body: String, choice: usize| {
        engine.post("/v1/chat/completions", &body).await.json()["choices"][choice]["message"]["content"]
            .clone()
    };
    let base = text(&one, body("hi", 0), 0).await;
    assert_eq!(base, text(&one, body("hi", 0), 0).await);
    assert_ne!(base, text(&one, body("hi", 0), 1).await);
    assert_ne!(base, text(&one, body("ho", 0), 0).await);
    assert_ne!(base, text(&one, body("hi", 1), 0).await);
    assert_ne!(base, text(&other, body("hi", 0), 0).await);

    let streamed = body("hi", 0).replace("\"stream\":false", "\"stream\":true").replace("\"n\":2", "\"n\":1");
    assert_eq!(base, json!(one.post("/v1/chat/completions", &streamed).await.chat_text()));
}

#[tokio::test]
async fn a_second_turn_finds_the_first_and_its_answer_in_the_cache() {
    let engine = start(roomy()).await;
    let system = json!({"role": "system", "content": "You are terse. ".repeat(40)});
    let ask = json!({"role": "user", "content": "What is a forebay?"});
    let chat = async |model: &str, messages: Value| {
        let body = json!({"model": model, "messages": messages, "max_tokens": 50, "ignore_eos": true});
        engine.post("/v1/chat/completions", &body.to_string()).await
    };
    let first = chat("tiny", json!([system, ask])).await;
    let (prompt, output, cached) = usage(&first);
    assert_eq!((output, cached), (50, 0));
    let said = first.json()["choices"][0]["message"].clone();
    let second = json!([system, ask, said, {"role": "user", "content": "And then?"}]);
    let (_, _, cached) = usage(&chat("tiny", second.clone()).await);
    // Whole blocks of the prompt and of all but the last token of the answer.
    assert_eq!(cached, (prompt + output - 1) / 16 * 16);

    // An adapter has a cache of its own.
    assert_eq!(
        engine.post("/v1/load_lora_adapter", r#"{"lora_name":"l","lora_path":"l"}"#).await.status,
        200
    );
    assert_eq!(usage(&chat("l", second).await).2, 0);

    let page = engine.get("/metrics").await.body;
    let value = |name: &str| {
        let line = page.lines().find(|l| l.starts_with(name)).unwrap();
        line.rsplit_once(' ').unwrap().1.parse::<f64>().unwrap()
    };
    assert_eq!(value("vllm:prefix_cache_hits_total") as u64, cached);
    assert!(value("vllm:prefix_cache_queries_total") as u64 > 2 * prompt);
}

#[tokio::test]
async fn streams_state_the_cached_tokens_exactly_when_asked() {
    let engine = start(roomy()).await;
    let ids: Vec<u32> = (0..200).collect();
    for (path, prompt) in [
        ("/v1/completions", json!({"prompt": ids})),
        ("/v1/chat/completions", json!({"messages": [{"role": "user", "content": "x".repeat(800)}]})),
    ] {
        let mut body = json!({"model": "tiny", "max_tokens": 3, "stream": true, "ignore_eos": true});
        body.as_object_mut().unwrap().extend(prompt.as_object().unwrap().clone());
        for round in [0, 1] {
            assert!(!engine.post(path, &body.to_string()).await.body.contains("\"usage\""), "nobody asked");
            let mut asking = body.clone();
            asking["stream_options"] = json!({"include_usage": true});
            // Another salt is another cache: the first request of a round is cold.
            asking["cache_salt"] = json!(format!("round {round}"));
            for warm in [false, true] {
                let answer = engine.post(path, &asking.to_string()).await;
                let last = answer.events().pop().unwrap();
                let prompt = last["usage"]["prompt_tokens"].as_u64().unwrap();
                let cached = if warm { (prompt - 1) / 16 * 16 } else { 0 };
                assert_eq!(last["usage"]["prompt_tokens_details"]["cached_tokens"], cached, "{last}");
                assert_eq!(last["usage"]["completion_tokens"], 3);
            }
        }
    }
}

#[tokio::test]
async fn embeddings_scores_and_ranks() {
    let engine = start(roomy()).await;
    let body = json!({"model": "tiny", "input": ["one", "two", "one"], "dimensions": 8}).to_string();
    let answer = engine.post("/v1/embeddings", &body).await.json();
    let data = answer["data"].as_array().unwrap();
    assert_eq!(data.len(), 3);
    assert_eq!(data[0]["embedding"].as_array().unwrap().len(), 8);
    assert_eq!(data[0]["embedding"], data[2]["embedding"]);
    assert_ne!(data[0]["embedding"], data[1]["embedding"]);
    assert_eq!(answer["usage"]["prompt_tokens"], 3);

    let body =
        json!({"model": "tiny", "input": "one", "encoding_format": "base64", "dimensions": 3}).to_string();
    let coded = engine.post("/v1/embeddings", &body).await.json()["data"][0]["embedding"].clone();
    assert_eq!(coded.as_str().unwrap().len(), 16);

    let body =
        json!({"model": "tiny", "query": "abcd", "documents": ["xxxx", "abcd"], "top_n": 1}).to_string();
    let ranked = engine.post("/v1/rerank", &body).await.json();
    assert_eq!(ranked["results"].as_array().unwrap().len(), 1);
    assert_eq!(ranked["results"][0]["index"], 1);

    let body = json!({"model": "tiny", "text_1": "abcd", "text_2": ["abcd", "zzzz"]}).to_string();
    let scored = engine.post("/v1/score", &body).await.json();
    assert_eq!((&scored["data"][0]["score"], &scored["data"][1]["score"]), (&json!(1.0), &json!(0.0)));
    engine.until("idle", |s| s.load.running == 0 && s.load.blocks_used == 0 && s.in_flight == 0).await;
}

#[tokio::test]
async fn odd_bodies_get_clear_errors() {
    let engine = start(options()).await;
    for (path, body, param) in [
        ("/v1/completions", r#"{"prompt":[]}"#, "body.prompt"),
        ("/v1/completions", r#"{"prompt":[1,"a"]}"#, "body.prompt"),
        ("/v1/completions", r#"{"prompt":[-1]}"#, "body.prompt"),
        ("/v1/completions", r#"{"prompt":{}}"#, "body.prompt"),
        ("/v1/completions", r#"{}"#, "body.prompt"),
        ("/v1/completions", r#"{"prompt":"a","n":0}"#, "body.n"),
        ("/v1/completions", r#"{"prompt":"a","max_tokens":-5}"#, "body.max_tokens"),
        ("/v1/completions", r#"{"prompt":"a","stream":"yes"}"#, "body.stream"),
        ("/v1/completions", r#"{"prompt":"a","stream_options":3}"#, "body.stream_options"),
        ("/v1/completions", r#"{"prompt":""}"#, "prompt"),
        ("/v1/completions", r#"{"prompt":"a","max_tokens":1024}"#, "input_tokens"),
        ("/v1/completions", r#"{"prompt":"a","n":1000}"#, "n"),
        ("/v1/chat/completions", r#"{"messages":["x"]}"#, "body.messages"),
        ("/v1/chat/completions", r#"[1]"#, "body"),
        ("/v1/responses", r#"{}"#, "body.input"),
        ("/v1/embeddings", r#"{"input":3}"#, "body.input"),
        ("/v1/rerank", r#"{"documents":[]}"#, "body.query"),
        ("/tokenize", r#"{}"#, "body.prompt"),
        ("/detokenize", r#"{"tokens":["a"]}"#, "body.tokens"),
        ("/fault", r#"{"kind":"explode"}"#, "body.kind"),
    ] {
        let answer = engine.post(path, body).await;
        assert_eq!(answer.status, 400, "{body}");
        assert_eq!(answer.json()["error"]["param"], param, "{body}: {}", answer.body);
    }
    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    assert_eq!(engine.post("/v1/completions", &deep).await.status, 400);
    engine.until("idle", |s| s.in_flight == 0).await;
}
