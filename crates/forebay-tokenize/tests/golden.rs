//! Texts and token ids as vLLM makes them: `data/golden.json`, written by
//! `data/make_golden.py`.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test says what is wrong by panicking")]
use std::path::{Path, PathBuf};

use forebay_tokenize::{
    ChatTemplate, ContentFormat, Model, ModelLimits, RenderError, TemplateOptions, Tokenizer, utc_strftime,
};
use forebay_wire::body::Api;
use serde_json::Value;

const CONFIG: &str = r#"{"bos_token": "<|begin|>", "eos_token": {"content": "<|end_of_text|>"}, "pad_token": "<|pad|>", "unk_token": null}"#;
/// 2026-11-29 21:05:09, the time at which the file was made.
const NOW: u64 = 1_795_986_309;

fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(name)
}

fn text(name: &str) -> String {
    std::fs::read_to_string(data(name)).unwrap()
}

fn template(name: &str) -> ChatTemplate {
    let options = TemplateOptions::default().clock(|format| utc_strftime(format, NOW));
    ChatTemplate::new(Some(CONFIG), Some(&text(&format!("{name}.jinja"))), options).unwrap()
}

fn tokenizer(name: &str) -> Tokenizer {
    Tokenizer::load(&data(&format!("{name}.json"))).unwrap()
}

fn cases() -> Vec<Value> {
    serde_json::from_str(&text("golden.json")).unwrap()
}

fn ids(case: &Value) -> Vec<u32> {
    case["ids"].as_array().unwrap().iter().map(|id| u32::try_from(id.as_u64().unwrap()).unwrap()).collect()
}

#[test]
fn chats_are_rendered_and_tokenised_as_vllm_does_it() {
    let mut compared = 0;
    for style in ["llama3", "chatml", "inst", "parts"] {
        let template = template(style);
        let model = |name| Model::new(tokenizer(name), Some(self::template(style)), ModelLimits::default());
        let models = [("bpe", model("bpe")), ("unigram", model("unigram"))];
        for case in cases().iter().filter(|case| case["template"] == style) {
            let what = format!("{style}: {}", case["name"]);
            let body = case["body"].as_str().unwrap();
            let rendered = template.render(body.as_bytes());
            if case["error"].is_string() {
                assert!(matches!(rendered, Err(RenderError::Refused(_))), "{what}: {rendered:?}");
                continue;
            }
            let prompt = rendered.unwrap_or_else(|error| panic!("{what}: {error}"));
            assert_eq!(prompt.text, case["text"].as_str().unwrap(), "{what}");
            let (_, model) = models.iter().find(|(name, _)| case["tokenizer"] == *name).unwrap();
            // Once from nothing, once from what is remembered.
            for _ in 0..2 {
                let tokens = model.tokens(body.as_bytes(), Api::Chat).unwrap();
                assert_eq!(*tokens, ids(case), "{what}");
            }
            compared += 1;
        }
    }
    assert!(compared > 140, "{compared}");
}

#[test]
fn completions_are_tokenised_with_special_tokens() {
    for name in ["bpe", "unigram"] {
        let model = Model::new(tokenizer(name), None, ModelLimits::default());
        for case in cases().iter().filter(|case| case["prompt"].is_string() && case["tokenizer"] == name) {
            for prompt in [case["prompt"].clone(), Value::from(vec![case["prompt"].clone()])] {
                let body = serde_json::json!({"model": "m", "prompt": prompt}).to_string();
                let tokens = model.tokens(body.as_bytes(), Api::Completions).unwrap();
                assert_eq!(*tokens, ids(case), "{body}");
            }
        }
    }
}

#[test]
fn the_content_format_is_found_as_vllm_finds_it() {
    for case in cases().iter().filter(|case| case["format"].is_string()) {
        let body = r#"{"messages":[{"role":"user","content":[{"type":"text","text":"x"},{"type":"text","text":"y"}]}]}"#;
        let style = case["template"].as_str().unwrap();
        let own = template(style).render(body.as_bytes());
        let format = if case["format"] == "openai" { ContentFormat::Parts } else { ContentFormat::String };
        let options =
            TemplateOptions::default().clock(|format| utc_strftime(format, NOW)).content_format(format);
        let told = ChatTemplate::new(Some(CONFIG), Some(&text(&format!("{style}.jinja"))), options).unwrap();
        assert_eq!(own, told.render(body.as_bytes()), "{style}");
    }
}
