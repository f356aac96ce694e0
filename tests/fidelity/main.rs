//! How far the simulator can be trusted: the same requests at the same times,
//! once on live simulated engines behind the real gateway and once in the
//! simulator, under policies of every kind.
//!
//! It takes four minutes and measures time, so it is not among the quick tests:
//!
//! ```sh
//! cargo test --release -p forebay-tests --test fidelity -- --ignored --nocapture
//! ```
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    unreachable_pub,
    reason = "test helpers fail by panicking"
)]

mod agree;
mod live;
mod requests;
mod simulated;

use std::path::Path;
use std::time::Duration;

use forebay_core::Slo;
use forebay_gate::PolicyKind;
use forebay_load::ReplayOptions;
use forebay_tests::tempdir::TempDir;

use agree::{kendall_tau, told_apart};
use live::Fleet;
use requests::Traffic;
use simulated::{Simulated, faster, simulate};

const PROFILE: &str = "h100-8b";
const ENGINES: usize = 8;
/// So little that caches must forget, under policies that spread prefixes.
const KV_TOKENS: u32 = 120_000;
/// What a good answer is, in engine time: a configuration's default.
const SLO_TTFT_MS: f64 = 2_000.0;
const SLO_TPOT_MS: f64 = 50.0;
/// Requests per second of engine time, and the part of the capacity that this
/// is at most: at `RATE / LOAD` every policy still serves nine of ten within limits.
const TRAFFIC: Traffic = Traffic { requests: 1_200, rate: 26.0, seed: 1 };
const LOAD: f64 = 0.6;

const POLICIES: [PolicyKind; 10] = [
    PolicyKind::RoundRobin,
    PolicyKind::Random,
    PolicyKind::PowerOfTwo,
    PolicyKind::LeastRequest,
    PolicyKind::LeastWork,
    PolicyKind::LeastQueue,
    PolicyKind::LeastLatency,
    PolicyKind::ConsistentHash,
    PolicyKind::PrefixAffinity,
    PolicyKind::Predictive,
];

/// How far mean times to the first token may lie apart.
const TTFT_BOUND: f64 = 0.15;
/// The same for the share of prompt tokens found in caches.
const HIT_BOUND: f64 = 0.05;
const TAU_BOUND: f64 = 0.8;

/// How much faster than life engines and requests are, from 1 to 4.
fn time_scale() -> f64 {
    let set = std::env::var("FOREBAY_TIME_SCALE").ok().map(|text| text.parse::<f64>());
    set.map_or(2.0, |scale| scale.ok().filter(|scale| (1.0..=4.0).contains(scale)).expect("from 1 to 4"))
}

fn replay_options(trace: &Path, time_scale: f64) -> ReplayOptions {
    ReplayOptions { trace: trace.to_owned(), time_scale, progress: false, ..ReplayOptions::default() }
}

/// The limits in wall time, which is all that a gateway knows.
fn slo(time_scale: f64) -> Slo {
    let wall = |ms: f64| Some((ms / time_scale) as f32);
    Slo { ttft_ms: wall(SLO_TTFT_MS), tpot_ms: wall(SLO_TPOT_MS) }
}

/// What gateway, network and client take for one request on top of the engine:
/// lone prompts on an idle engine, and how much later than simulated they begin
/// to be answered. In wall time.
async fn overhead(dir: &TempDir, time_scale: f64) -> Duration {
    let trace = dir.write("lone.jsonl", &requests::lone_lines(40));
    let options = replay_options(&trace, time_scale);
    let fleet = Fleet::start(1, PolicyKind::RoundRobin, time_scale).await;
    let live = fleet.play(&options).await.ttft_ms.mean.unwrap();
    let requests = requests::simulated(&options, slo(time_scale));
    let pure = simulate(&requests, &fleet.names(), PolicyKind::RoundRobin, Duration::ZERO, time_scale);
    let overhead = (live - pure.ttft_ms) / time_scale;
    println!("a lone prompt: live {live:.1} ms, simulated {:.1}: overhead {overhead:.2} ms", pure.ttft_ms);
    Duration::from_secs_f64(overhead.max(0.0) * 1e-3)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "takes four minutes: cargo test --release -p forebay-tests --test fidelity -- --ignored --nocapture"]
async fn live_and_simulated_fleets_agree() {
    let scale = time_scale();
    let dir = TempDir::new();
    let trace = dir.write("trace.jsonl", &requests::trace_lines(&TRAFFIC));
    let options = replay_options(&trace, scale);
    let requests = requests::simulated(&options, slo(scale));
    let overhead = overhead(&dir, scale).await;

    let play = async |policy| {
        let fleet = Fleet::start(ENGINES, policy, scale).await;
        let simulated = simulate(&requests, &fleet.names(), policy, overhead, scale);
        let hard = simulate(&faster(&requests, 1.0 / LOAD), &fleet.names(), policy, overhead, scale);
        let summary = fleet.play(&options).await;
        let (ttft, hit) = (summary.ttft_ms.mean.unwrap(), summary.prefix_hit.unwrap());
        (ttft, hit, simulated, hard.goodput)
    };
    let off = |ttft: f64, simulated: &Simulated| ttft / simulated.ttft_ms - 1.0;
    println!(
        "| policy | live TTFT | simulated | live is | live hit | simulated |\n|---|---|---|---|---|---|"
    );
    let (mut ttfts, mut simulated_ttfts, mut failures) = (Vec::new(), Vec::new(), Vec::new());
    for policy in POLICIES {
        let name = policy.as_str();
        let (mut ttft, mut hit, mut simulated, mut goodput) = play(policy).await;
        if off(ttft, &simulated).abs() > TTFT_BOUND {
            // Something else on this machine may have been in the way; once.
            println!("{name}: live {ttft:.1} ms, simulated {:.1} ms: played again", simulated.ttft_ms);
            (ttft, hit, simulated, goodput) = play(policy).await;
        }
        let off = off(ttft, &simulated);
        println!(
            "| `{name}` | {ttft:.1} ms | {:.1} ms | {:+.1} % | {:.1} % | {:.1} % |",
            simulated.ttft_ms,
            off * 100.0,
            hit * 100.0,
            simulated.prefix_hit * 100.0
        );
        if off.abs() > TTFT_BOUND {
            failures.push(format!("{name}: live TTFT is {:+.1} % off, twice", off * 100.0));
        }
        if (hit - simulated.prefix_hit).abs() > HIT_BOUND {
            failures.push(format!("{name}: {hit:.3} of the prompts cached, simulated {simulated:?}"));
        }
        if goodput < 0.9 {
            failures.push(format!("{name}: this is more than {LOAD} of its capacity, goodput {goodput:.3}"));
        }
        ttfts.push(ttft);
        simulated_ttfts.push(simulated.ttft_ms);
    }
    let (tau, apart) = (kendall_tau(&ttfts, &simulated_ttfts), told_apart(&simulated_ttfts));
    println!("Kendall tau {tau:.3}; {:.0} % of the pairs are told apart", apart * 100.0);
    if tau < TAU_BOUND {
        failures.push(format!("ranks: Kendall tau is {tau:.3}"));
    }
    // Otherwise ranks would mean nothing.
    assert!(apart >= 0.8, "only {apart:.2} of the pairs of policies differ");
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}
