//! The recorded requests, sent to the simulated engine: its answers must have
//! the recorded shape.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test that panics has failed")]

mod common;

use common::{Answer, options, recorded, start};

/// Values that are part of the shape, by the key they belong to.
const FIXED: &[&str] = &[
    "object",
    "role",
    "type",
    "finish_reason",
    "stop_reason",
    "status",
    "reason",
    "model",
    "owned_by",
    "parent",
    "version",
    "param",
];

/// A JSON text (or several, in SSE lines) with every value replaced that may
/// differ: numbers by 0, strings by "…". Keys, their order, null, booleans and
/// the fixed values stay.
fn shape(text: &str) -> String {
    let bytes = text.as_bytes();
    let (mut out, mut i, mut key) = (String::new(), 0, String::new());
    let mut in_value = false;
    while i < bytes.len() {
        match bytes[i] {
            b'"' => {
                let start = i + 1;
                i = start;
                while bytes[i] != b'"' {
                    i += if bytes[i] == b'\\' { 2 } else { 1 };
                }
                let string = &text[start..i];
                i += 1;
                if bytes.get(i) == Some(&b':') {
                    key = string.into();
                    out.push_str(&format!("{string:?}"));
                } else if FIXED.contains(&key.as_str()) {
                    out.push_str(&format!("{string:?}"));
                } else {
                    out.push_str("\"…\"");
                }
            }
            b'0'..=b'9' | b'-' if in_value => {
                while matches!(bytes.get(i), Some(b'0'..=b'9' | b'-' | b'.' | b'e' | b'+')) {
                    i += 1;
                }
                out.push('0');
            }
            other => {
                in_value = matches!(other, b':' | b'[' | b',');
                out.push(char::from(other));
                i += 1;
            }
        }
    }
    out
}

/// The shapes of a body's chunks; equal ones in a row count as one, because how
/// many tokens come in one event is not fixed everywhere.
fn shapes(answer: &Answer) -> Vec<String> {
    let parts = if answer.chunks.is_empty() { vec![answer.body.clone()] } else { answer.chunks.clone() };
    let mut shapes: Vec<String> = parts.iter().map(|part| shape(part)).collect();
    shapes.dedup();
    shapes
}

async fn same_shape(names: &[&str]) {
    let engine = start(options()).await;
    for name in names {
        let theirs = Answer::parse(&recorded(&format!("{name}.response.http")));
        let ours = engine.exchange(&recorded(&format!("{name}.request.http"))).await;
        assert_eq!(ours.status, theirs.status, "{name}: {ours:?}");
        assert_eq!(ours.header("content-type"), theirs.header("content-type"), "{name}");
        assert_eq!(ours.header("allow"), theirs.header("allow"), "{name}");
        assert!(ours.complete, "{name}");
        assert_eq!(shapes(&ours), shapes(&theirs), "{name}");
    }
}

/// Errors must be equal to the letter.
async fn same_bytes(names: &[&str]) {
    let engine = start(options()).await;
    for name in names {
        let theirs = Answer::parse(&recorded(&format!("{name}.response.http")));
        let ours = engine.exchange(&recorded(&format!("{name}.request.http"))).await;
        assert_eq!((ours.status, &ours.body), (theirs.status, &theirs.body), "{name}");
        assert_eq!(ours.header("content-type"), theirs.header("content-type"), "{name}");
        assert_eq!(ours.header("allow"), theirs.header("allow"), "{name}");
    }
}

#[tokio::test]
async fn chat_answers() {
    same_shape(&[
        "chat_nonstream",
        "chat_request_id_header",
        "chat_stream",
        "chat_stream_usage",
        "chat_stream_usage_continuous",
    ])
    .await;
}

#[tokio::test]
async fn completion_answers() {
    same_shape(&[
        "completions_nonstream",
        "completions_stream",
        "completions_stream_usage",
        "completions_two_prompts",
        "err_unknown_field_ignored",
    ])
    .await;
}

/// Choices interleave differently, so their events are compared as sets.
#[tokio::test]
async fn streams_of_several_choices() {
    let engine = start(options()).await;
    for name in ["chat_stream_n2", "completions_two_prompts_stream"] {
        let sorted = |answer: Answer| {
            let mut shapes: Vec<String> = answer.chunks.iter().map(|c| shape(c)).collect();
            shapes.sort();
            shapes
        };
        let theirs = Answer::parse(&recorded(&format!("{name}.response.http")));
        let ours = engine.exchange(&recorded(&format!("{name}.request.http"))).await;
        assert_eq!(sorted(ours), sorted(theirs), "{name}");
    }
}

#[tokio::test]
async fn messages_and_responses() {
    same_shape(&[
        "messages_nonstream",
        "messages_stream",
        "messages_count_tokens",
        "responses_nonstream",
        "responses_stream",
    ])
    .await;
}

#[tokio::test]
async fn information() {
    same_shape(&["load_idle"]).await;
    same_bytes(&["health", "version"]).await;
    let engine = start(forebay_engine::EngineOptions { adapters: vec!["lora1".into()], ..options() }).await;
    for name in ["models", "tokenize", "detokenize"] {
        let theirs = Answer::parse(&recorded(&format!("{name}.response.http")));
        let ours = engine.exchange(&recorded(&format!("{name}.request.http"))).await;
        // A short prompt has another number of tokens here.
        let one = |answer: &Answer| shape(&answer.body).replace("0,0,0", "0").replace("0,0", "0");
        assert_eq!(one(&ours), one(&theirs), "{name}");
    }
}

#[tokio::test]
async fn errors() {
    same_bytes(&[
        "err_404",
        "err_405",
        "err_bad_temperature",
        "err_bad_type",
        "err_content_type",
        "err_empty_body",
        "err_empty_messages",
        "err_max_tokens_too_large",
        "err_missing_messages",
        "err_no_content_type",
        "err_stream_options_without_stream",
        "err_too_long",
        "err_too_long_stream",
        "err_unknown_model",
        "err_unknown_model_stream",
    ])
    .await;
    // The parser's own words differ.
    same_shape(&["err_malformed_json"]).await;
}

#[tokio::test]
async fn a_full_queue_is_refused() {
    let engine = start(forebay_engine::EngineOptions { max_queued: Some(0), ..options() }).await;
    for name in ["i3_queue_full_nonstream", "i3_queue_full_messages"] {
        let theirs = Answer::parse(&recorded(&format!("{name}.response.http")));
        let ours = engine.exchange(&recorded(&format!("{name}.request.http"))).await;
        assert_eq!((ours.status, &ours.body), (503, &theirs.body), "{name}");
        assert_eq!(ours.header("retry-after"), None);
    }
    assert!(engine.get("/metrics").await.body.contains("reason=\"max_num_queued_reqs\"} 2.0"));
}

#[tokio::test]
async fn the_load_comes_in_a_header_when_asked_for() {
    let engine = start(options()).await;
    for name in ["orca_text_chat", "orca_json_chat", "orca_bin_chat", "orca_text_stream"] {
        let theirs = Answer::parse(&recorded(&format!("{name}.response.http")));
        let ours = engine.exchange(&recorded(&format!("{name}.request.http"))).await;
        let header = "endpoint-load-metrics";
        assert_eq!(ours.header(header), theirs.header(header), "{name}");
    }
}

#[tokio::test]
async fn adapters_come_and_go() {
    same_bytes(&["lora2_load", "lora2_load_again", "lora3_unload_again"]).await;
}

#[tokio::test]
async fn metrics_have_the_recorded_names_types_and_labels() {
    let engine = start(forebay_engine::EngineOptions { adapters: vec!["lora1".into()], ..options() }).await;
    engine.exchange(&recorded("chat_stream_usage.request.http")).await;
    let ours = engine.get("/metrics").await;
    assert_eq!(ours.header("content-type"), Some("text/plain; version=1.0.0; charset=utf-8"));
    let theirs = String::from_utf8(recorded("metrics.prom")).unwrap();
    for line in ours.body.lines().filter(|line| line.starts_with("# TYPE")) {
        assert!(theirs.contains(line), "{line}");
    }
    // Series without their values, adapters and cache layout.
    let series = |line: &str| line.rsplit_once(' ').map(|(series, _)| series.to_string());
    let theirs: Vec<String> = theirs.lines().filter_map(series).collect();
    for line in ours.body.lines().filter(|l| !l.starts_with('#') && !l.contains("_info{")) {
        let name = series(line).unwrap();
        // Our largest prompts are longer than the recorded server allowed.
        if !name.contains("_tokens_bucket") {
            assert!(theirs.contains(&name), "{name}");
        }
        let value = line.rsplit_once(' ').unwrap().1;
        assert!(value.parse::<f64>().is_ok(), "{line}");
    }
    for expected in [
        "vllm:generation_tokens_total{engine=\"0\",model_name=\"tiny\"} 8.0",
        "vllm:request_success_total{engine=\"0\",finished_reason=\"length\",model_name=\"tiny\"} 1.0",
        "vllm:num_requests_running{engine=\"0\",model_name=\"tiny\"} 0.0",
        "vllm:time_to_first_token_seconds_count{engine=\"0\",model_name=\"tiny\"} 1.0",
        "vllm:inter_token_latency_seconds_count{engine=\"0\",model_name=\"tiny\"} 7.0",
        "process_start_time_seconds ",
        "block_size=\"16\"",
        "num_gpu_blocks=\"26687\"",
        "vllm:lora_requests_info{max_lora=\"1\",running_lora_adapters=\"\"",
    ] {
        assert!(ours.body.contains(expected), "{expected}\n{}", ours.body);
    }
}
