//! A fleet of simulated engines behind the default policy: prefixes go where
//! they are held, an engine that lost its cache is forgotten, one that kept it
//! is not, and one that is slow gets less.

use std::sync::Arc;
use std::time::Duration;

use forebay_load::{GroupsOptions, GroupsTraffic, Live, run_groups_traffic};
use forebay_tests::bodies::CHAT;
use forebay_tests::config::Config;
use forebay_tests::gateway::Gateway;
use forebay_tests::tempdir::TempDir;
use forebay_tests::wait;
use tokio::sync::watch;
use tokio::time::Instant;

use crate::common::wait_endpoints;
use crate::sim::{decisions, gateway_seconds, held_tokens, sims, urls};
use crate::traffic::{Answer, Traffic, ask, chat, hit, send, text};

/// Reports often enough for a test; the policy and all it learns are the defaults.
const POOL: &str = "scrape: {interval_min: 50ms, interval_max: 500ms, models_interval: 500ms}\n\
                    health: {interval: 200ms, timeout: 2s}";

fn fleet<'a>(urls: impl IntoIterator<Item = &'a str>) -> Config {
    Config::new()
        .pool("chat", "tide-7b", urls, POOL)
        .with("workers: 2\nresponse_headers: {endpoint: true}\ndrain: {delay: 0s}")
}

/// How long this endpoint's share is below its fair one while it ramps up.
const SLOW_START: Duration = Duration::from_secs(10);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn prefixes_go_where_they_are_held() {
    const SCALE: f64 = 3.0;
    let engines = sims(4, SCALE).await;
    let gateway = Gateway::start(&fleet(urls(&engines))).await;
    wait_endpoints(&gateway, 4).await;
    let options = GroupsOptions {
        url: format!("http://{}", gateway.addr()),
        traffic: GroupsTraffic {
            groups: 16,
            conversations: 160,
            concurrency: 16,
            time_scale: SCALE,
            ..GroupsTraffic::default()
        },
        endpoints: Some(4),
        ..GroupsOptions::default()
    };
    let (_stop, stopped) = watch::channel(false);
    let finished = run_groups_traffic(options, Arc::new(Live::default()), stopped).await.unwrap();
    println!("{finished}");
    let summary = &finished.summary;
    assert_eq!((summary.requests, summary.failed, summary.rejected), (320, 0, 0));
    let (hit, ideal) = (summary.prefix_hit.unwrap(), summary.ideal_prefix_hit.unwrap());
    assert!(hit >= 0.96 * ideal, "hit {hit}, ideal {ideal}");
    let busiest = summary.busiest_share.unwrap();
    assert!(busiest <= 1.6, "the busiest has {busiest} of the mean");
    // Every kind of prediction was compared with what came; of 64 tokens at most the gateway knew.
    let page = gateway.metrics().await;
    let median = |of: &str| {
        let name = format!("forebay_{of}_prediction_error");
        forebay_tests::exposition::sum(&page, &name, &[("pool", "chat"), ("statistic", "p50")])
    };
    assert!(median("ttft").is_some() && median("tpot").is_some(), "{page}");
    assert!(median("output").is_some_and(|error| (1.0..1.2).contains(&error)), "{:?}", median("output"));
}

/// The questions of this test: few long beginnings, each asked about again and again.
fn of_groups(groups: usize) -> impl Fn(usize) -> Vec<u8> + Send + Sync + Clone {
    let systems: Arc<[String]> = (0..groups).map(|g| text(g as u64, 8 << 10)).collect();
    move |n| {
        // Every group again and again, in an order that does not repeat with the fleet's size.
        let group = (n.wrapping_mul(2_654_435_761) >> 7) % systems.len();
        chat(&systems[group], &text(1_000_000 + n as u64, 200), 24)
    }
}

/// The same, and one request in three has a beginning that nobody has seen,
/// which a few after it share.
fn with_new_groups(groups: usize) -> impl Fn(usize) -> Vec<u8> + Send + Sync + Clone {
    let old = of_groups(groups);
    move |n| match n % 3 {
        0 => chat(&text(500_000 + n as u64 / 12, 16 << 10), &text(1_000_000 + n as u64, 200), 24),
        _ => old(n),
    }
}

/// In flight at each endpoint now.
async fn in_flight(gateway: &Gateway) -> Vec<(String, f64, String)> {
    let list = gateway.admin_json("/api/v1/endpoints").await;
    let list = list["endpoints"].as_array().unwrap().clone();
    let text = |v: &serde_json::Value| v.as_str().unwrap().to_string();
    list.iter().map(|e| (text(&e["url"]), e["in_flight"].as_f64().unwrap(), text(&e["state"]))).collect()
}

async fn wait_state(gateway: &Gateway, url: &str, state: &str) {
    wait::until_async(&format!("{url} to be {state}"), async || {
        in_flight(gateway).await.iter().any(|(of, _, is)| of == url && is == state).then_some(())
    })
    .await;
}

async fn wait_count(traffic: &Traffic, n: usize) {
    wait::until(&format!("{n} answers"), || (traffic.count() >= n).then_some(())).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_engine_that_restarts_empty_is_forgotten() {
    // Enough that nobody can do without the one that comes back.
    const CLIENTS: usize = 24;
    let started = Instant::now();
    let engines = sims(4, 1.0).await;
    let gateway = Gateway::start(&fleet(urls(&engines))).await;
    wait_endpoints(&gateway, 4).await;
    let first = engines[0].url.clone();

    let traffic = Traffic::start(gateway.addr(), CLIENTS, with_new_groups(8));
    // An endpoint ramps up beside others that do not.
    wait::until("the first ramp to end", || (started.elapsed() > SLOW_START).then_some(())).await;
    wait_count(&traffic, 150).await;
    // What runs there now, and what may yet be sent before the refusals begin.
    let at_crash = Instant::now();
    engines[0].engine.restart(Duration::from_secs(1));
    wait_state(&gateway, &first, "unready").await;
    let gone = Instant::now();
    wait_state(&gateway, &first, "ready").await;
    let back = Instant::now();

    // No herd on the newcomer, which is the emptiest of all.
    let mut most = Vec::new();
    while back.elapsed() < Duration::from_secs(5) {
        let now = in_flight(&gateway).await;
        let mean = now.iter().map(|(_, n, _)| n).sum::<f64>() / now.len() as f64;
        let its = now.iter().find(|(url, ..)| *url == first).unwrap().1;
        assert!(its <= mean + 1.0, "{its} in flight at the newcomer, {mean} on average");
        most.push(its);
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    wait::until("requests at the newcomer", || {
        traffic.answers().iter().any(|a| a.endpoint == first && a.started > back).then_some(())
    })
    .await;
    let answers = traffic.stop().await;

    let failed: Vec<&Answer> = answers.iter().filter(|a| !a.is_good()).collect();
    for answer in &failed {
        assert!(answer.started <= gone, "a request failed that began after the engine was known to be gone");
        // It was there, or on its way, when the engine died.
        assert!(answer.ended >= at_crash, "{answer:?}");
        assert!(answer.started.saturating_duration_since(at_crash) < Duration::from_millis(50), "{answer:?}");
    }
    assert!(failed.len() < CLIENTS, "{} of {CLIENTS} requests in flight failed", failed.len());
    let before = hit(answers.iter().filter(|a| a.ended < at_crash).skip(60));
    let last = back + Duration::from_secs(3);
    let after = hit(answers.iter().filter(|a| a.started > last));
    println!("{} failed; hit {before:.3} before, {after:.3} after; newcomer at most {most:?}", failed.len());
    assert!(after >= 0.9 * before, "the hits do not recover: {before} before, {after} after");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_predicted_at_an_engine_that_began_anew() {
    let dir = TempDir::new();
    let log = dir.path().join("decisions");
    let engines = sims(2, 4.0).await;
    let config = fleet(urls(&engines)).with(&format!("decision_log: {{path: \"{}\"}}", log.display()));
    let mut gateway = Gateway::start(&config).await;
    wait_endpoints(&gateway, 2).await;
    let systems: Vec<String> = (0..6).map(|g| text(g, 8 << 10)).collect();
    let body = |g: usize, n: usize| chat(&systems[g], &format!("question {n}"), 4);

    // Each beginning is known to one engine or the other.
    for n in 0..18 {
        assert!(ask(gateway.addr(), CHAT, &body(n % 6, n)).await.is_good());
    }
    let (restarted, kept) = (&engines[0], &engines[1]);
    let before = gateway_seconds(&gateway).await;
    restarted.engine.restart(Duration::from_millis(300));
    wait::until("the gateway to notice", || {
        gateway.logs().contains("what it held is forgotten").then_some(())
    })
    .await;
    wait_endpoints(&gateway, 2).await;
    let noticed = gateway_seconds(&gateway).await;
    let mut first = Vec::new();
    for (g, system) in systems.iter().enumerate() {
        let answer = ask(gateway.addr(), CHAT, &chat(system, "and now?", 4)).await;
        assert!(answer.is_good());
        first.push((g, answer));
    }
    gateway.stop().await;

    let (log, same) = decisions(&log, 1000);
    assert!(same, "{}", log["report"]);
    let all = log["decisions"].as_array().unwrap();
    let at = |d: &serde_json::Value| d["at_seconds"].as_f64().unwrap();
    let held = |url: &str, from: f64, to: f64| -> f64 {
        let decisions = all.iter().filter(|d| (from..to).contains(&at(d)));
        decisions.filter_map(|d| held_tokens(d, url)).fold(0.0, f64::max)
    };
    assert!(held(&restarted.url, 0.0, before) > 1000.0, "nothing was predicted there before: no proof");
    assert_eq!(held(&restarted.url, noticed, f64::MAX), 0.0, "what it lost is still predicted there");
    assert!(held(&kept.url, noticed, f64::MAX) > 1000.0, "the other one was forgotten too");
    // Whatever went to the newcomer found nothing there, as predicted.
    for (g, answer) in first {
        assert!(answer.endpoint != restarted.url || answer.cached < 64, "group {g}: {answer:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_engine_that_was_cut_off_still_has_what_it_had() {
    let engines = sims(3, 2.0).await;
    let gateway = Gateway::start(&fleet(urls(&engines))).await;
    wait_endpoints(&gateway, 3).await;
    let first = engines[0].url.clone();
    let traffic = Traffic::start(gateway.addr(), 9, of_groups(6));
    wait_count(&traffic, 120).await;
    let cut = Instant::now();
    engines[0].engine.cut_off(Duration::from_secs(10));
    wait_state(&gateway, &first, "unready").await;
    let gone = Instant::now();
    wait_state(&gateway, &first, "ready").await;
    let back = Instant::now();
    assert!(back - cut >= Duration::from_millis(9900), "back after {:?}", back - cut);
    wait::until("answers of the one that is back", || {
        let its = |a: &&Answer| a.endpoint == first && a.started > back;
        (traffic.answers().iter().filter(its).count() >= 5).then_some(())
    })
    .await;
    let answers = traffic.stop().await;
    for answer in answers.iter().filter(|a| !a.is_good()) {
        assert!(answer.started <= gone, "{answer:?} failed long after the cut");
    }
    // What it answers it had before: no beginning is computed there anew.
    let here = hit(answers.iter().filter(|a| a.endpoint == first && a.started > back && a.is_good()));
    assert!(here > 0.85, "hit {here} at the engine that kept its cache");
    assert!(!gateway.logs().contains("what it held is forgotten"), "it was taken for a new engine");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slow_engine_gets_less() {
    let engines = sims(4, 2.0).await;
    let gateway = Gateway::start(&fleet(urls(&engines))).await;
    wait_endpoints(&gateway, 4).await;
    // As long as the newcomers' ramp: then all are equal in the gateway's eyes.
    let ramp = Instant::now();
    engines[3].engine.set_speed(0.5);
    let request = of_groups(24);
    let learning = Traffic::start(gateway.addr(), 24, request.clone());
    wait::until("the ramp to end", || (ramp.elapsed() > SLOW_START / 2).then_some(())).await;
    learning.stop().await;
    let answers = send(gateway.addr(), 400, 24, move |n| (CHAT, request(1_000 + n))).await;
    assert!(answers.iter().all(Answer::is_good));
    let tokens = |url: &str| -> f64 {
        answers.iter().filter(|a| a.endpoint == url).map(|a| (a.prompt + a.output) as f64).sum()
    };
    let all: Vec<f64> = engines.iter().map(|e| tokens(&e.url)).collect();
    let mean = all.iter().sum::<f64>() / 4.0;
    println!("tokens {all:?}");
    assert!(all[3] <= 0.7 * mean, "the engine at half speed got {} of the mean", all[3] / mean);
}
