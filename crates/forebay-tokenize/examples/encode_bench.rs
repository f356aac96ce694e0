//! Prints what turning a chat into tokens costs:
//! `cargo run --release -p forebay-tokenize --example encode_bench [TOKENIZER.JSON]`.
//!
//! A chat of alternating messages of 1 KB is tokenised from nothing, again with
//! everything remembered, and with a new message of 300 bytes at its end, alone
//! and through the pool.

#![allow(clippy::unwrap_used, reason = "a benchmark says what is wrong by panicking")]

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use forebay_tokenize::*;
use forebay_wire::body::Api;

#[expect(clippy::disallowed_methods, reason = "a benchmark measures time")]
fn now() -> Instant {
    Instant::now()
}

/// Microseconds that `run` takes, the median of several.
fn median(mut run: impl FnMut() -> Duration) -> f64 {
    let mut times: Vec<Duration> = (0..31).map(|_| run()).collect();
    times.sort_unstable();
    times[15].as_secs_f64() * 1e6
}

fn timed<T>(run: impl FnOnce() -> T) -> Duration {
    let start = now();
    std::hint::black_box(run());
    start.elapsed()
}

/// A chat whose messages are `bytes` of this repository's prose, and then `more`.
fn chat(source: &str, bytes: usize, more: &str) -> Bytes {
    let text: String = source.chars().cycle().take(bytes).collect();
    let chars: Vec<char> = text.chars().collect();
    let mut messages: Vec<serde_json::Value> = chars
        .chunks(1_000)
        .enumerate()
        .map(|(at, part)| {
            let role = if at % 2 == 0 { "user" } else { "assistant" };
            serde_json::json!({"role": role, "content": part.iter().collect::<String>()})
        })
        .collect();
    if !more.is_empty() {
        messages.push(serde_json::json!({"role": "user", "content": more}));
    }
    Bytes::from(serde_json::json!({"messages": messages}).to_string())
}

fn main() {
    let folder = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data"));
    let file = std::env::args().nth(1).map_or(folder.join("bpe.json"), PathBuf::from);
    let jinja = std::fs::read_to_string(folder.join("chatml.jinja")).unwrap();
    let template = || ChatTemplate::new(None, Some(&jinja), TemplateOptions::default()).unwrap();
    let source = std::fs::read_to_string(folder.join("../../../../docs/ARCHITECTURE.md")).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let limits = PoolLimits { timeout: Duration::from_secs(10), ..PoolLimits::default() };
    let pool = Pool::start(limits).unwrap();
    println!("{}", file.display());
    println!("prompt | tokens | render | from nothing | all known | new turn | new turn, pool   (µs)");
    for bytes in [4 << 10, 64 << 10, 256 << 10] {
        let body = chat(&source, bytes, "");
        let chat_template = template();
        let render = median(|| timed(|| chat_template.render(&body).unwrap()));
        // A new tokenizer each time: it remembers words of its own.
        let cold = median(|| {
            let model = Model::new(Tokenizer::load(&file).unwrap(), Some(template()), ModelLimits::default());
            timed(|| model.tokens(&body, Api::Chat).unwrap())
        });
        let model =
            Arc::new(Model::new(Tokenizer::load(&file).unwrap(), Some(template()), ModelLimits::default()));
        let tokens = model.tokens(&body, Api::Chat).unwrap().len();
        let known = median(|| timed(|| model.tokens(&body, Api::Chat).unwrap()));
        let mut turn = 0;
        let mut next = || {
            turn += 1;
            chat(
                &source,
                bytes,
                &format!("{turn} {}", source.chars().skip(turn * 7).take(300).collect::<String>()),
            )
        };
        let grown = median(|| {
            let body = next();
            timed(|| model.tokens(&body, Api::Chat).unwrap())
        });
        let pooled = median(|| {
            let body = next();
            timed(|| runtime.block_on(pool.tokens(&model, body, Api::Chat)).unwrap())
        });
        println!(
            "{bytes:>6} | {tokens:>6} | {render:>6.0} | {cold:>12.0} | {known:>9.0} | {grown:>8.0} | {pooled:>8.0}"
        );
    }
}
