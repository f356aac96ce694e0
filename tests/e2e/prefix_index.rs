//! The prefix index under prompts that never repeat, its keys, and its snapshot.

use std::collections::BTreeMap;
use std::time::Duration;

use forebay_tests::backend::{Backend, Step};
use forebay_tests::bodies::{CHAT, polite, response};
use forebay_tests::client;
use forebay_tests::config::Config;
use forebay_tests::gateway::Gateway;
use forebay_tests::tempdir::TempDir;
use forebay_tests::{http1, wait};
use serde_json::{Value, json};

use crate::common::wait_endpoints;
use crate::sim::{sims, urls};
use crate::traffic::{Answer, ask, chat, hit, send, text};

const MIB: u64 = 1 << 20;
const SCRAPE: &str = "scrape: {interval_min: 50ms, interval_max: 200ms}\nhealth: {interval: 100ms}";

fn asked(prompt: &str, more: &str) -> Vec<u8> {
    format!(
        r#"{{"model":"tide-7b","messages":[{{"role":"user","content":"{prompt}"}}],"stream":true,"max_tokens":2{more}}}"#
    )
    .into_bytes()
}

/// What the last decision took its candidates to hold, the largest of them.
async fn predicted(gateway: &Gateway) -> f64 {
    let list = gateway.admin_json("/api/v1/decisions?last=1").await;
    let candidates = list["decisions"][0]["candidates_priced"].as_array().unwrap();
    candidates.iter().map(|c| c["held_tokens"].as_f64().unwrap()).fold(0.0, f64::max)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b55_prompts_that_never_repeat_stay_within_the_budget() {
    const PROMPT: usize = 60 << 10;
    let backends = [Backend::start(polite).await, Backend::start(polite).await];
    for backend in &backends {
        backend.keep_no_bytes();
        // Engines that could hold them all: only the budget is left to bound it.
        let page = "vllm:cache_config_info{block_size=\"16\",num_gpu_blocks=\"10000000\"} 1.0\n\
                    vllm:num_requests_running{model_name=\"tide-7b\"} 0.0\n";
        backend.set_page("/metrics", vec![Step::send(response("200 OK", &[], page.as_bytes()))]);
    }
    let addresses = backends.each_ref().map(Backend::url);
    let config = Config::new()
        .pool("chat", "tide-7b", addresses.iter().map(String::as_str), SCRAPE)
        .with("workers: 2\nprefix_index: {max_bytes: 4MiB}\nresponse_headers: {endpoint: true}");
    let gateway = Gateway::start(&config).await;
    wait_endpoints(&gateway, 2).await;

    // Fills the index and warms every buffer; a fifth of what follows would not fit.
    let flood = |from: usize| move |n: usize| (CHAT, asked(&text((from + n) as u64, PROMPT), ""));
    let answers = send(gateway.addr(), 600, 32, flood(0)).await;
    assert!(answers.iter().all(Answer::is_good));
    let before = gateway.resident_bytes();
    let answers = send(gateway.addr(), 2_400, 32, flood(600)).await;
    assert!(answers.iter().all(Answer::is_good));
    let grown = gateway.resident_bytes().saturating_sub(before);
    let status = gateway.admin_json("/api/v1/status").await;
    let index = &status["pools"][0]["prefix_index"];
    println!("grown by {} KiB; {index}", grown / 1024);
    // All of them in the index would be 140 MB of prompts, or 560,000 blocks.
    assert!(grown <= 12 * MIB, "resident memory grew by {grown} bytes");
    assert!(index["bytes"].as_u64().unwrap() <= 4 * MIB * 12 / 10, "{index}");
    assert!(index["blocks"].as_u64().unwrap() > 1000, "nothing is remembered: {index}");

    // What is shared is still found: all go where the first went.
    let system = text(77_777_777, 4 << 10);
    let shared = move |n: usize| (CHAT, chat(&system, &text(n as u64, 100), 2));
    let answers = send(gateway.addr(), 300, 1, shared).await;
    assert!(answers.iter().all(Answer::is_good));
    let most =
        addresses.iter().map(|url| answers.iter().filter(|a| a.endpoint == *url).count()).max().unwrap();
    assert!(most >= 270, "{most} of 300 with a common beginning went to one endpoint");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b55_a_group_is_learned_anew_when_its_engine_has_restarted() {
    let engines = sims(2, 4.0).await;
    let config = Config::new()
        .pool("chat", "tide-7b", urls(&engines), SCRAPE)
        .with("response_headers: {endpoint: true}");
    let gateway = Gateway::start(&config).await;
    wait_endpoints(&gateway, 2).await;
    let system = text(5, 8 << 10);
    let request = |n: usize| chat(&system, &text(1000 + n as u64, 100), 2);
    let mut home = String::new();
    for n in 0..10 {
        home = ask(gateway.addr(), CHAT, &request(n)).await.endpoint;
    }
    let engine = engines.iter().find(|e| e.url == home).unwrap();
    // An engine that nobody saw at work cannot be seen to begin anew.
    let scrapes = async || {
        let list = gateway.admin_json("/api/v1/endpoints").await;
        let its =
            list["endpoints"].as_array().unwrap().iter().find(|e| e["url"] == home.as_str()).unwrap().clone();
        its["scrapes"]["ok"].as_u64().unwrap()
    };
    let seen = scrapes().await;
    wait::until_async("it to be looked at", async || (scrapes().await >= seen + 2).then_some(())).await;
    engine.engine.restart(Duration::from_millis(200));
    wait::until("the gateway to notice", || {
        gateway.logs().contains("what it held is forgotten").then_some(())
    })
    .await;
    wait_endpoints(&gateway, 2).await;
    let mut answers = Vec::new();
    for n in 10..40 {
        answers.push(ask(gateway.addr(), CHAT, &request(n)).await);
    }
    assert!(answers.iter().all(Answer::is_good));
    assert!(answers[0].cached < 64, "{:?}", answers[0]);
    // Learned after the first, wherever that went.
    assert!(hit(&answers[1..]) > 0.9, "hit {}", hit(&answers[1..]));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b55_salts_and_adapters_keep_prompts_apart() {
    let backend = Backend::start(polite).await;
    backend.set_page(
        "/v1/models",
        forebay_tests::bodies::models(&[("tide-7b", None), ("sql-tuned", Some("tide-7b"))]),
    );
    let config = Config::new().pool(
        "chat",
        "tide-7b",
        [backend.url().as_str()],
        &format!("adapters: [sql-tuned]\n{SCRAPE}"),
    );
    let gateway = Gateway::start(&config).await;
    let prompt = text(9, 8 << 10);
    let adapter = String::from_utf8(asked(&prompt, "")).unwrap().replace("tide-7b", "sql-tuned").into_bytes();
    let requests = [
        ("plain", asked(&prompt, "")),
        ("salted", asked(&prompt, r#","cache_salt":"tenant-a""#)),
        ("salted otherwise", asked(&prompt, r#","cache_salt":"tenant-b""#)),
        ("an adapter", adapter),
    ];
    for (name, request) in &requests {
        assert_eq!(gateway.post(CHAT, request).await.status(), 200, "{name}");
        assert_eq!(predicted(&gateway).await, 0.0, "{name}: found before it was ever sent");
    }
    for (name, request) in &requests {
        assert_eq!(gateway.post(CHAT, request).await.status(), 200, "{name}");
        assert!(predicted(&gateway).await > 1000.0, "{name}: not found the second time");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b55_prompts_of_every_length_are_taken() {
    let backend = Backend::start(polite).await;
    let config = Config::new().pool("chat", "tide-7b", [backend.url().as_str()], SCRAPE);
    let gateway = Gateway::start(&config).await;
    for prompt in ["", "a", "abc", "模", "\\u0000", "\\ud83d\\ude00"] {
        for _ in 0..2 {
            let response = gateway.post(CHAT, &asked(prompt, "")).await;
            assert_eq!((response.status(), response.is_complete()), (200, true), "{prompt:?}");
        }
        let completions = format!(r#"{{"model":"tide-7b","prompt":"{prompt}"}}"#);
        assert_eq!(gateway.post("/v1/completions", completions.as_bytes()).await.status(), 200, "{prompt:?}");
    }
    for body in [r#"{"model":"tide-7b","prompt":[]}"#, r#"{"model":"tide-7b","prompt":[1]}"#] {
        let status = gateway.post("/v1/completions", body.as_bytes()).await.status();
        assert!(status == 200 || status == 400, "{body}: {status}");
    }
    let huge = asked(&text(1, 8 << 20), "");
    for _ in 0..2 {
        let response = client::exchange(gateway.addr(), &http1::post(CHAT, &huge)).await;
        assert_eq!((response.status(), response.is_complete()), (200, true));
    }
    // More than any engine holds: what is remembered of it is at most what an engine could have.
    assert!((0.0..=4e6).contains(&predicted(&gateway).await));
    assert_eq!(gateway.post(CHAT, &asked("hi", "")).await.status(), 200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_gateway_that_restarts_begins_with_what_it_knew() {
    let dir = TempDir::new();
    let file = dir.path().join("prefixes");
    let engines = sims(4, 4.0).await;
    let config = Config::new().pool("chat", "tide-7b", urls(&engines), SCRAPE).with(&format!(
        "prefix_index: {{snapshot: \"{}\", snapshot_interval: 1s}}\ndrain: {{delay: 0s}}\nresponse_headers: {{endpoint: true}}",
        file.display()
    ));
    let systems: Vec<String> = (0..16).map(|g| text(g, 8 << 10)).collect();
    let request = move |from: usize| {
        let systems = systems.clone();
        move |n: usize| (CHAT, chat(&systems[n % 16], &text((from + n) as u64, 100), 2))
    };
    let mut gateway = Gateway::start(&config).await;
    wait_endpoints(&gateway, 4).await;
    let answers = send(gateway.addr(), 64, 4, request(1000)).await;
    assert!(answers.iter().all(Answer::is_good));
    let home: BTreeMap<usize, String> =
        answers.iter().filter(|a| a.cached > 1000).map(|a| (a.number % 16, a.endpoint.clone())).collect();
    assert_eq!(home.len(), 16, "not every group was found again: no proof");
    gateway.stop().await;
    assert!(file.exists(), "no snapshot was written");

    let mut gateway = Gateway::start(&config).await;
    wait_endpoints(&gateway, 4).await;
    assert!(gateway.logs().contains("the prefix index was read back"), "{}", gateway.logs());
    let mut answers = Vec::new();
    for n in 0..16 {
        answers.push(ask(gateway.addr(), CHAT, &request(2000)(n).1).await);
        let list = gateway.admin_json("/api/v1/decisions?last=1").await;
        let candidates = list["decisions"][0]["candidates_priced"].as_array().unwrap();
        let held = candidates.iter().find(|c| c["endpoint"] == home[&n].as_str()).unwrap();
        // Until answers confirm it, only part of it is believed.
        assert!(held["held_tokens"].as_f64().unwrap() >= 500.0, "group {n}: {list}");
    }
    assert!(answers.iter().all(Answer::is_good));
    let hits = hit(&answers);
    println!("hit {hits} in the first 16 requests after the restart");
    assert!(hits > 0.6, "hit {hits}: by chance it would be a quarter");
    gateway.stop().await;

    // A snapshot that is damaged is passed over, with a word.
    let mut bytes = std::fs::read(&file).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 0x55;
    std::fs::write(&file, bytes).unwrap();
    let gateway = Gateway::start(&config).await;
    wait_endpoints(&gateway, 4).await;
    assert!(gateway.logs().contains("the prefix index cannot be read back"), "{}", gateway.logs());
    let status: Value = gateway.admin_json("/api/v1/status").await;
    assert_eq!(status["pools"][0]["prefix_index"]["blocks"], json!(0));
    assert!(ask(gateway.addr(), CHAT, &request(3000)(0).1).await.is_good());
}
