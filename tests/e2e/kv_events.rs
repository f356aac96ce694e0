//! What engines say of their caches decides where prompts of token ids go.

use std::time::Duration;

use forebay_tests::config::Config;
use forebay_tests::gateway::Gateway;
use forebay_tests::wait;
use serde_json::Value;

use crate::common::wait_endpoints;
use crate::sim::{Sim, sim};
use crate::traffic::{Answer, ask, send};

const COMPLETIONS: &str = "/v1/completions";

async fn telling(change: impl FnOnce(&mut forebay_engine::EngineOptions)) -> Sim {
    sim(|options| {
        options.time_scale = 4.0;
        options.kv_events = Some("127.0.0.1:0".parse().unwrap());
        options.kv_replay = Some("127.0.0.1:0".parse().unwrap());
        change(options);
    })
    .await
}

async fn before(sims: &[Sim]) -> Gateway {
    let own: Vec<String> = sims
        .iter()
        .map(|s| format!("kv_events: \"{}\", kv_replay: \"{}\"", s.kv_events, s.kv_replay))
        .collect();
    let endpoints = sims.iter().zip(&own).map(|(sim, own)| (sim.url.as_str(), own.as_str()));
    let config = Config::new()
        .pool_of(
            "chat",
            "tide-7b",
            endpoints,
            "scrape: {interval_min: 50ms, interval_max: 200ms}\nhealth: {interval: 200ms}",
        )
        .with("response_headers: {endpoint: true}\ndrain: {delay: 0s}");
    let gateway = Gateway::start(&config).await;
    wait_endpoints(&gateway, u32::try_from(sims.len()).unwrap()).await;
    // Events that are sent before the subscription are for nobody.
    wait::until_async("the subscriptions", async || {
        let list = gateway.admin_json("/api/v1/endpoints").await;
        let connected =
            |e: &Value| e["kv_events"].as_array().is_some_and(|k| k.iter().any(|k| k["connected"] == true));
        list["endpoints"].as_array().unwrap().iter().all(connected).then_some(())
    })
    .await;
    gateway
}

/// A prompt of so many token ids that shares nothing with that of another group.
fn prompt(group: usize, tokens: usize) -> Vec<u8> {
    let ids: Vec<String> = (0..tokens).map(|i| (1 + (group * 7919 + i * 31) % 30_000).to_string()).collect();
    format!(
        r#"{{"model":"tide-7b","prompt":[{}],"max_tokens":2,"ignore_eos":true,"stream":true,"stream_options":{{"include_usage":true}}}}"#,
        ids.join(",")
    )
    .into_bytes()
}

async fn ask_ids(gateway: &Gateway, group: usize, tokens: usize) -> Answer {
    let answer = ask(gateway.addr(), COMPLETIONS, &prompt(group, tokens)).await;
    assert!(answer.is_good(), "{answer:?}");
    answer
}

/// What the engine found, in whole blocks of the index.
fn blocks(answer: &Answer) -> f64 {
    (answer.cached / 64 * 64) as f64
}

/// What the last decision took this endpoint to hold.
async fn predicted(gateway: &Gateway, url: &str) -> f64 {
    let list = gateway.admin_json("/api/v1/decisions?last=1").await;
    let candidates = list["decisions"][0]["candidates_priced"].as_array().unwrap();
    let its = candidates.iter().find(|c| c["endpoint"] == url);
    its.unwrap_or_else(|| panic!("{url} is not among {candidates:?}"))["held_tokens"].as_f64().unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_an_engine_evicts_is_predicted_no_more() {
    // Room for about eight of the prompts.
    let sims = [telling(|options| options.kv_tokens = Some(8 * 1024)).await];
    let gateway = before(&sims).await;
    let url = &sims[0].url;

    // The size of the engine's blocks shows with its first events.
    ask_ids(&gateway, 99, 1000).await;
    wait::until_async("an exact prediction", async || {
        let answer = ask_ids(&gateway, 0, 1000).await;
        (answer.cached > 900 && predicted(&gateway, url).await == blocks(&answer)).then_some(())
    })
    .await;
    for group in 1..30 {
        ask_ids(&gateway, group, 1000).await;
    }
    let answer = ask_ids(&gateway, 0, 1000).await;
    assert_eq!(answer.cached, 0, "the engine still has it: no proof");
    assert_eq!(predicted(&gateway, url).await, 0.0, "evicted blocks are still predicted");
    // The latest is there, and is known to be.
    let answer = ask_ids(&gateway, 29, 1000).await;
    assert!(answer.cached >= 960, "{answer:?}");
    assert_eq!(predicted(&gateway, url).await, blocks(&answer));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cache_that_is_reset_is_forgotten() {
    let sims = [telling(|_| {}).await, telling(|_| {}).await];
    let gateway = before(&sims).await;
    ask_ids(&gateway, 50, 2000).await;
    for group in 0..6 {
        ask_ids(&gateway, group, 2000).await;
    }
    let mut home = Vec::new();
    for group in 0..6 {
        // What an engine said before anybody listened to it is not known yet:
        // then the group is computed, and told, once more.
        let mut answer = ask_ids(&gateway, group, 2000).await;
        for _ in 0..5 {
            if answer.cached >= 1900 && predicted(&gateway, &answer.endpoint).await >= 1900.0 {
                break;
            }
            gateway.wait_idle().await;
            answer = ask_ids(&gateway, group, 2000).await;
        }
        assert!(answer.cached >= 1900, "group {group} went where it is not held: {answer:?}");
        assert!(predicted(&gateway, &answer.endpoint).await >= 1900.0);
        home.push(answer.endpoint);
    }
    gateway.wait_idle().await;
    for sim in &sims {
        wait::until("an engine without requests", || sim.engine.reset_prefix_cache().then_some(())).await;
    }
    // The reset is told with the engine's next step: any prompt makes one.
    let mut stepped = std::collections::BTreeSet::new();
    for n in 0.. {
        let answers = send(gateway.addr(), 8, 8, move |m| (COMPLETIONS, prompt(100 + 8 * n + m, 1500))).await;
        stepped.extend(answers.into_iter().map(|answer| answer.endpoint));
        if stepped.len() == sims.len() {
            break;
        }
        assert!(n < 20, "only {stepped:?} were used");
    }
    gateway.wait_idle().await;
    // Events come some milliseconds after the answers that they belong to, and
    // asking whether they have come would change what is held.
    tokio::time::sleep(Duration::from_millis(300)).await;
    for (group, home) in home.iter().enumerate() {
        let answer = ask_ids(&gateway, group, 2000).await;
        if answer.endpoint == *home {
            assert!(answer.cached < 64, "{answer:?}");
        }
        assert!(predicted(&gateway, home).await < 64.0, "group {group} is still predicted at {home}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn predictions_of_token_prompts_are_what_engines_hold() {
    let sims =
        [telling(|o| o.kv_tokens = Some(24 << 10)).await, telling(|o| o.kv_tokens = Some(24 << 10)).await];
    let gateway = before(&sims).await;
    ask_ids(&gateway, 999, 500).await;
    let mut right = 0;
    let mut dice = crate::common::Dice(3);
    for _ in 0..200 {
        let (group, tokens) = (dice.below(24), 300 + 500 * dice.below(4));
        let answer = ask_ids(&gateway, group, tokens).await;
        let predicted = predicted(&gateway, &answer.endpoint).await;
        right += usize::from(predicted == blocks(&answer));
        // Events are a few milliseconds late; who asks at once may be ahead of them.
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    println!("{right} of 200 predictions were right to the block");
    assert!(right >= 190, "only {right} of 200 predictions were right");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_engine_that_begins_anew_tells_anew() {
    let sims = [telling(|_| {}).await, telling(|_| {}).await];
    let gateway = before(&sims).await;
    let request = |n: usize| (COMPLETIONS, prompt(n % 8, 1000));
    let answers = send(gateway.addr(), 40, 2, request).await;
    assert!(answers.iter().all(Answer::is_good));
    let url = sims[0].url.clone();
    sims[0].engine.restart(Duration::from_millis(300));
    wait::until("the gateway to notice", || {
        gateway.logs().contains("what it held is forgotten").then_some(())
    })
    .await;
    wait_endpoints(&gateway, 2).await;
    for group in 0..8 {
        let answer = ask_ids(&gateway, group, 1000).await;
        let held = predicted(&gateway, &url).await;
        // Nothing at first, and then what was really sent there since.
        assert!(held < 64.0, "group {group}: {held} tokens predicted at the new engine; {answer:?}");
    }
    // It is followed again: what is sent there is found there.
    wait::until_async("a hit at the engine that began anew", async || {
        let answers = send(gateway.addr(), 16, 8, |n| (COMPLETIONS, prompt(300 + n % 8, 1500))).await;
        answers.iter().any(|a| a.endpoint == url && a.cached > 1400).then_some(())
    })
    .await;
}

/// A port in front of a publisher's, which can be closed and opened again.
struct Relay {
    to: String,
    address: std::net::SocketAddr,
    task: tokio::task::JoinHandle<()>,
}

impl Relay {
    async fn before(publisher: &str) -> Relay {
        let to = publisher.trim_start_matches("tcp://").to_owned();
        let mut relay = Relay { to, address: "127.0.0.1:0".parse().unwrap(), task: tokio::spawn(async {}) };
        relay.open().await;
        relay
    }

    fn url(&self) -> String {
        format!("tcp://{}", self.address)
    }

    async fn open(&mut self) {
        let listener = tokio::net::TcpListener::bind(self.address).await.unwrap();
        (self.address, self.task) =
            (listener.local_addr().unwrap(), tokio::spawn(carry(listener, self.to.clone())));
    }

    /// Ends its connections, too.
    async fn close(&mut self) {
        self.task.abort();
        let _ = (&mut self.task).await;
    }
}

async fn carry(listener: tokio::net::TcpListener, to: String) {
    let mut connections = tokio::task::JoinSet::new();
    loop {
        let (mut from, _) = listener.accept().await.unwrap();
        let mut there = tokio::net::TcpStream::connect(&to).await.unwrap();
        connections.spawn(async move {
            let _ = tokio::io::copy_bidirectional(&mut from, &mut there).await;
        });
    }
}

async fn wait_feed(gateway: &Gateway, up: f64, word: &str) {
    wait::until_async("the feed", async || {
        let is = gateway.metric("forebay_kv_feed_up", &[("pool", "chat")]).await == up;
        (is && gateway.logs().contains(word)).then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_engine_that_nobody_hears_is_judged_by_its_answers() {
    let mut sim = telling(|options| options.kv_tokens = Some(8 * 1024)).await;
    let (mut events, mut replay) = (Relay::before(&sim.kv_events).await, Relay::before(&sim.kv_replay).await);
    (sim.kv_events, sim.kv_replay) = (events.url(), replay.url());
    let sims = [sim];
    let gateway = before(&sims).await;
    let url = &sims[0].url;
    ask_ids(&gateway, 99, 1000).await;
    wait::until_async("an exact prediction", async || {
        let answer = ask_ids(&gateway, 0, 1000).await;
        (answer.cached > 900 && predicted(&gateway, url).await == blocks(&answer)).then_some(())
    })
    .await;

    events.close().await;
    replay.close().await;
    wait_feed(&gateway, 0.0, "no connection for KV events").await;
    for group in 1..30 {
        ask_ids(&gateway, group, 1000).await;
    }
    let answer = ask_ids(&gateway, 29, 1000).await;
    assert!(answer.cached >= 960, "{answer:?}");
    assert!(predicted(&gateway, url).await >= 700.0, "what was served is not thought to be there");
    // What was evicted unheard is taken back with the first answer at the latest.
    ask_ids(&gateway, 0, 1000).await;
    for group in 31..45 {
        ask_ids(&gateway, group, 1000).await;
    }
    let answer = ask_ids(&gateway, 0, 1000).await;
    assert_eq!(answer.cached, 0, "the engine still has it: no proof");
    assert!(predicted(&gateway, url).await < 64.0, "evicted blocks are predicted for ever");

    events.open().await;
    replay.open().await;
    wait_feed(&gateway, 1.0, "tell again what it holds").await;
    for group in 50..80 {
        ask_ids(&gateway, group, 1000).await;
    }
    let answer = ask_ids(&gateway, 0, 1000).await;
    assert_eq!((answer.cached, predicted(&gateway, url).await), (0, 0.0));
    wait::until_async("an exact prediction", async || {
        let answer = ask_ids(&gateway, 79, 1000).await;
        (answer.cached > 900 && predicted(&gateway, url).await == blocks(&answer)).then_some(())
    })
    .await;
}
