//! Prints what reading costs: `cargo run --release -p forebay-wire --example scan_bench`;
//! a name behind `--` leaves out all but the scans of that name.
//!
//! Bodies are chat requests with one message of prose (no escapes), of prose in
//! lines (an escape about every 90 bytes) or of code (an escape every 40 bytes),
//! then conversations with and without tools; events are those of a real chat stream.

use std::{hint::black_box, time::Duration};

use bytes::Bytes;
use forebay_wire::{
    body::{Api, scan_json},
    signals::Reader,
    sse::{Dialect, ModelEditor, Watcher},
    usage::usage_from_json,
};

#[expect(clippy::disallowed_methods, reason = "a benchmark measures time")]
fn now() -> std::time::Instant {
    std::time::Instant::now()
}

/// Median nanoseconds of one call, of 31 batches of about 5 ms.
fn measure(mut call: impl FnMut()) -> f64 {
    let mut batch = 1u32;
    loop {
        let start = now();
        (0..batch).for_each(|_| call());
        if start.elapsed() > Duration::from_millis(5) || batch > 1 << 24 {
            break;
        }
        batch *= 2;
    }
    let mut times: Vec<f64> = (0..31)
        .map(|_| {
            let start = now();
            (0..batch).for_each(|_| call());
            start.elapsed().as_nanos() as f64 / f64::from(batch)
        })
        .collect();
    times.sort_by(f64::total_cmp);
    times[15]
}

fn body(text: &str) -> Vec<u8> {
    format!(r#"{{"model":"tide-7b","stream":true,"messages":[{{"role":"user","content":"{text}"}}]}}"#)
        .into_bytes()
}

/// Prose with an escape after every 60 to 120 bytes, each `seed` a text of its
/// own; with `marks` also dashes and escaped letters, as people write.
fn lines(sentence: &str, size: usize, mut seed: u64, marks: bool) -> String {
    let letters = sentence.as_bytes();
    let ends: &[&str] =
        if marks { &["\\n\\n", "\\\"", "caf\\u00e9 — "] } else { &["\\n", "\\n\\n", "\\\"", "\\t"] };
    let mut text = String::with_capacity(size + 128);
    while text.len() < size {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let len = 60 + (seed >> 33) as usize % 59;
        text.extend((0..len).map(|i| char::from(letters[(i + len) % letters.len()])));
        text.push_str(ends[(seed >> 50) as usize % ends.len()]);
    }
    text
}

/// A conversation in messages of about 700 bytes.
fn messages(sentence: &str, size: usize, seed: u64) -> String {
    let turn = |nth: usize| {
        let role = if nth.is_multiple_of(2) { "user" } else { "assistant" };
        format!(r#"{{"role":"{role}","content":"{}"}}"#, lines(sentence, 600, seed + nth as u64, false))
    };
    let turns: Vec<String> = (0..size / 700).map(turn).collect();
    format!("[{}]", turns.join(","))
}

/// Sixteen tools of about 500 bytes.
fn tools(sentence: &str) -> String {
    let parameters = r#"{"type":"object","properties":{"gate":{"type":"string","description":"Its name."},"level":{"type":"number","minimum":0}},"required":["gate","level"]}"#;
    let tool = |nth: usize| {
        format!(
            r#"{{"type":"function","function":{{"name":"set_{nth}","description":"{}","parameters":{parameters}}}}}"#,
            sentence.repeat(3)
        )
    };
    let tools: Vec<String> = (0..16).map(tool).collect();
    format!("[{}]", tools.join(","))
}

/// Writes a text of about so many bytes, from a seed.
type Writer<'a> = dyn Fn(usize, u64) -> String + 'a;

/// Scans bodies in turn, so that no branch predictor can know one by heart.
fn scan(name: &str, bodies: &[Vec<u8>]) {
    if std::env::args().nth(1).is_some_and(|only| only != name) {
        return;
    }
    let mut turn = bodies.iter().cycle();
    let ns = measure(|| {
        if let Some(body) = turn.next() {
            black_box(scan_json(Api::Chat, black_box(body)).is_ok());
        }
    });
    report(&format!("scan {name}"), bodies[0].len(), ns);
}

fn report(what: &str, bytes: usize, ns: f64) {
    println!("{what:<34} {bytes:>8} bytes {ns:>12.1} ns {:>8.2} GB/s", bytes as f64 / ns);
}

fn main() {
    let sentence = "The water stands in the forebay, and the gates divide it among the turbines. ";
    let code = "    let level = gates.iter().sum(); //\\n";
    let accents = "Größe, Höhe und Fläche — gemäß Anhang; ";
    let han = "潮位在前池中升降，闸门把水分给各台水轮机。";
    let escaped: String = han.encode_utf16().map(|unit| format!("\\u{unit:04x}")).collect();
    let texts: [(&str, &Writer); 7] = [
        ("prose", &|size, _| sentence.repeat(size / sentence.len())),
        ("lines", &|size, seed| lines(sentence, size, seed, false)),
        ("lines and marks", &|size, seed| lines(sentence, size, seed, true)),
        ("code", &|size, _| code.repeat(size / code.len())),
        ("accented", &|size, _| accents.repeat(size / accents.len())),
        ("han", &|size, _| han.repeat(size / han.len())),
        ("han, escaped", &|size, _| escaped.repeat(size / escaped.len())),
    ];
    for (name, text) in texts {
        for size in [1 << 10, 4 << 10, 32 << 10, 256 << 10] {
            let bodies: Vec<Vec<u8>> = (0..16).map(|seed| body(&text(size, seed))).collect();
            scan(name, &bodies);
        }
    }
    for size in [4 << 10, 32 << 10, 256 << 10] {
        let many = |keys: fn(&str, &str) -> String| -> Vec<Vec<u8>> {
            (0..16).map(|seed| keys(&messages(sentence, size, seed), &tools(sentence)).into_bytes()).collect()
        };
        scan("messages", &many(|messages, _| format!(r#"{{"messages":{messages},"model":"tide-7b"}}"#)));
        scan(
            "tools and messages",
            &many(|messages, tools| {
                format!(r#"{{"model":"tide-7b","tools":{tools},"messages":{messages}}}"#)
            }),
        );
        scan(
            "messages and tools",
            &many(|messages, tools| {
                format!(r#"{{"messages":{messages},"model":"tide-7b","tools":{tools}}}"#)
            }),
        );
    }
    let picture = format!(
        r#"{{"model":"tide-7b","messages":[{{"role":"user","content":[{{"type":"image_url","image_url":{{"url":"data:image/png;base64,{}"}}}}]}}]}}"#,
        "iVBORw0K".repeat(32 << 10)
    );
    scan("picture", &[picture.into_bytes()]);
    let names = br#"{"model":"tide-7b","stream":true,"temperature":0.7,"top_p":1,"user":"u-17","stop":["\n"],"messages":[{"role":"system","content":"Be brief."},{"role":"user","content":"Hi"},{"role":"assistant","content":"Hello!"},{"role":"user","content":"How deep is the forebay?"}]}"#;
    scan("short strings", &[names.to_vec()]);
    if std::env::args().len() > 1 {
        return;
    }
    let ids: Vec<String> = (0..32_000).map(|i| (i * 7919 % 128_000).to_string()).collect();
    let body = format!(r#"{{"model":"m","prompt":[{}]}}"#, ids.join(",")).into_bytes();
    report(
        "scan 32,000 token ids",
        body.len(),
        measure(|| {
            black_box(scan_json(Api::Completions, black_box(&body)).is_ok());
        }),
    );

    let event = |text: &str| {
        format!(
            "data: {{\"id\":\"chatcmpl-9dfd9171ef422905\",\"object\":\"chat.completion.chunk\",\"created\":1795970136,\"model\":\"tiny\",\"choices\":[{{\"index\":0,\"delta\":{{\"content\":\"{text}\"}},\"logprobs\":null,\"finish_reason\":null,\"token_ids\":null}}]}}\n\n"
        )
    };
    let usage = event(" a").replace(
        "]}\n\n",
        "],\"usage\":{\"prompt_tokens\":16,\"total_tokens\":17,\"completion_tokens\":1}}\n\n",
    );
    for (name, text) in [
        ("watch token event", event(" also")),
        ("watch token with escape", event("\\n")),
        ("watch with the same usage", usage),
    ] {
        let mut watcher = Watcher::new(Dialect::OpenAi);
        report(name, text.len(), measure(|| watcher.feed(black_box(text.as_bytes()))));
    }
    let mut watcher = Watcher::new(Dialect::OpenAi);
    let pair = event(" a").replace("\"index\":0", "\"index\":1") + &event(" b");
    report("watch two alternating choices", pair.len(), measure(|| watcher.feed(black_box(pair.as_bytes()))));
    let chunk = Bytes::from(event(" also"));
    let mut out = Vec::new();
    let mut editor = ModelEditor::new("tide-latest");
    report(
        "edit token event",
        chunk.len(),
        measure(|| {
            out.clear();
            editor.feed(black_box(chunk.clone()), &mut out);
        }),
    );

    let floats: Vec<String> = (0..100_000).map(|i| format!("-0.0{}", i * 7919 % 1_000_003)).collect();
    let answer = format!(
        r#"{{"object":"list","data":[{{"embedding":[{}]}}],"usage":{{"prompt_tokens":7,"total_tokens":7}}}}"#,
        floats.join(",")
    );
    report(
        "usage of embeddings",
        answer.len(),
        measure(|| {
            black_box(usage_from_json(black_box(answer.as_bytes())));
        }),
    );
    let mut page = String::new();
    for i in 0..700 {
        page += &format!(
            "vllm:request_prompt_tokens_bucket{{engine=\"0\",le=\"{i}.0\",model_name=\"tiny\"}} {i}.0\n"
        );
    }
    page += "vllm:num_requests_running{engine=\"0\",model_name=\"tiny\"} 8.0\n";
    let reader = Reader::new(forebay_wire::signals::Dialect::Vllm, None, &[]);
    report(
        "vLLM metrics page",
        page.len(),
        measure(|| {
            black_box(reader.read(black_box(page.as_bytes())));
        }),
    );
}
