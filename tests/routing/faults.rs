//! An engine that crashes and comes back empty, and one that was cut off and
//! has all it had.

use std::sync::Arc;
use std::time::Duration;

use forebay_tests::gateway::Gateway;
use forebay_tests::tempdir::TempDir;
use forebay_tests::wait;
use tokio::time::Instant;

use crate::fleet::{ENGINES, Fleet};
use crate::sim::{decisions, gateway_seconds, held_tokens};
use crate::table::{Table, holds};
use crate::traffic::{Answer, Traffic, chat, hit, text};

const CLIENTS: usize = 32;
/// How long the share of an endpoint that came back is below its fair one.
const RAMP: Duration = Duration::from_secs(10);

/// Few long beginnings, each asked about again and again.
fn known() -> impl Fn(usize) -> Vec<u8> + Send + Sync + Clone {
    let systems: Arc<[String]> = (0..24).map(|g| text(g, 12 << 10)).collect();
    move |n| {
        // An order that does not repeat with the fleet's size.
        let group = (n.wrapping_mul(2_654_435_761) >> 7) % systems.len();
        chat(&systems[group], &text(1_000_000 + n as u64, 200), 48)
    }
}

/// The same, and one request in three has a beginning that nobody has seen,
/// which some after it share.
fn with_new() -> impl Fn(usize) -> Vec<u8> + Send + Sync + Clone {
    let old = known();
    move |n| match n % 3 {
        0 => chat(&text(500_000 + n as u64 / 12, 12 << 10), &text(1_000_000 + n as u64, 200), 48),
        _ => old(n),
    }
}

/// In flight at one endpoint and at all, and whether that one is ready.
async fn look(gateway: &Gateway, url: &str) -> (f64, f64, bool) {
    let list = gateway.admin_json("/api/v1/endpoints").await;
    let (mut its, mut all, mut ready) = (0.0, 0.0, false);
    for endpoint in list["endpoints"].as_array().unwrap() {
        let count = endpoint["in_flight"].as_f64().unwrap();
        all += count;
        if endpoint["url"] == url {
            (its, ready) = (count, endpoint["state"] == "ready");
        }
    }
    (its, all, ready)
}

async fn wait_ready(gateway: &Gateway, url: &str, wanted: bool) -> Instant {
    wait::until_async(&format!("{url} to be ready: {wanted}"), async || {
        (look(gateway, url).await.2 == wanted).then(Instant::now)
    })
    .await
}

async fn pass(time: Duration) {
    tokio::time::sleep(time).await;
}

/// Failures that began when the endpoint was known to be away.
fn late_failures(answers: &[Answer], gone: Instant) -> f64 {
    answers.iter().filter(|answer| !answer.is_good() && answer.started > gone).count() as f64
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "measures time: cargo test --release -p forebay-tests --test routing -- --ignored --nocapture"]
async fn an_engine_that_comes_back_empty_is_forgotten_and_ramps() {
    holds(async || {
        let dir = TempDir::new();
        let log = dir.path().join("decisions");
        let more = format!("decision_log: {{path: \"{}\"}}", log.display());
        let Fleet { engines, mut gateway } = Fleet::start("predictive", &more).await;
        let url = engines[3].url.clone();
        let traffic = Traffic::start(gateway.addr(), CLIENTS, with_new());
        pass(Duration::from_secs(10)).await;
        let (crash, crash_s) = (Instant::now(), gateway_seconds(&gateway).await);
        engines[3].engine.restart(Duration::from_secs(4));
        let gone = wait_ready(&gateway, &url, false).await;
        let back = wait_ready(&gateway, &url, true).await;
        let back_s = gateway_seconds(&gateway).await;

        // In flight there, over the mean of all, in each second of the ramp.
        let mut seconds = [(0.0, 0.0); RAMP.as_secs() as usize];
        let mut highest: f64 = 0.0;
        while back.elapsed() < RAMP {
            let (its, all, _) = look(&gateway, &url).await;
            let mean = all / ENGINES as f64;
            highest = highest.max(its - mean);
            if let Some(second) = seconds.get_mut(back.elapsed().as_secs() as usize) {
                second.0 += its;
                second.1 += mean;
            }
            pass(Duration::from_millis(20)).await;
        }
        pass(Duration::from_secs(5)).await;
        let answers = traffic.stop().await;
        gateway.stop().await;

        let shares: Vec<f64> = seconds.iter().map(|(its, mean)| its / mean).collect();
        println!("in flight at the newcomer / mean, second by second: {shares:.2?}");
        let part = |of: std::ops::Range<usize>| {
            let (its, mean) = seconds[of].iter().fold((0.0, 0.0), |sum, s| (sum.0 + s.0, sum.1 + s.1));
            its / mean
        };
        let (replayed, same) = decisions(&log, usize::MAX >> 1);
        assert!(same, "{}", replayed["report"]);
        let held = |from: f64, to: f64| {
            let all = replayed["decisions"].as_array().unwrap().iter();
            let during = all.filter(|d| (from..to).contains(&d["at_seconds"].as_f64().unwrap()));
            during.filter_map(|d| held_tokens(d, &url)).fold(0.0, f64::max)
        };
        // What it was sent since it came back it may hold again, a first token later.
        let first = answers.iter().filter(|a| a.endpoint == url && a.started > back).map(|a| a.started).min();
        let first_s = back_s + first.map_or(0.0, |first| (first - back).as_secs_f64());
        let before =
            hit(answers.iter().filter(|a| a.started > crash - Duration::from_secs(5) && a.ended < crash));
        let after = hit(answers.iter().filter(|a| a.started > back + RAMP));
        let mut table = Table::new("one of 8 engines crashes and comes back empty");
        table.least("held there at most, in tokens, before the crash", held(0.0, crash_s), 2_000.0);
        table.most("and after, before anything was sent there", held(back_s, first_s), 0.0);
        table.most("requests that failed after it was known to be gone", late_failures(&answers, gone), 0.0);
        table.least(format!("prefix hit, after / before ({before:.3})"), after / before, 0.95);
        table.most("in flight there less the mean, at most", highest, 1.0);
        let busiest = shares.iter().copied().fold(0.0, f64::max);
        table.most("in flight there / mean, the busiest second of its ramp", busiest, 1.0);
        table.most("in flight there / mean, first 3 s", part(0..3), 0.5);
        table.least("last 3 s / first 3 s of the ramp", part(7..10) / part(0..3), 1.5);
        table
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "measures time: cargo test --release -p forebay-tests --test routing -- --ignored --nocapture"]
async fn an_engine_that_was_cut_off_for_long_has_what_it_had() {
    const AWAY: Duration = Duration::from_secs(10);
    holds(async || {
        let Fleet { engines, gateway } = Fleet::start("predictive", "").await;
        let url = engines[3].url.clone();
        let traffic = Traffic::start(gateway.addr(), CLIENTS, known());
        pass(Duration::from_secs(8)).await;
        let cut = Instant::now();
        engines[3].engine.cut_off(AWAY);
        let gone = wait_ready(&gateway, &url, false).await;
        let back = wait_ready(&gateway, &url, true).await;
        pass(RAMP).await;
        let answers = traffic.stop().await;
        let its = |from: Instant, to: Instant| {
            answers.iter().filter(move |a| a.started > from && a.started < to && a.is_good())
        };
        let here = |from, to| hit(its(from, to).filter(|a| a.endpoint == url));
        let before = here(cut - Duration::from_secs(4), cut);
        let after = here(back, Instant::now());
        let count = its(back, Instant::now()).filter(|a| a.endpoint == url).count();
        let forgotten = gateway.logs().contains("what it held is forgotten");
        let mut table = Table::new("one of 8 engines is cut off for 10 s and keeps its cache");
        table.least("seconds that it was away", (back - cut).as_secs_f64(), AWAY.as_secs_f64() - 0.1);
        table.most("it was taken for a new engine (1 is yes)", f64::from(u8::from(forgotten)), 0.0);
        table.most("requests that failed after it was known to be gone", late_failures(&answers, gone), 0.0);
        table.least("requests there in the 10 s after", count as f64, 20.0);
        table.least(format!("prefix hit there, after / before ({before:.3})"), after / before, 0.95);
        table
    })
    .await;
}
