//! Many cold groups of prompts, on equal engines and on engines of which two are slow.

use std::time::Duration;

use crate::fleet::{ENGINES, Fleet};
use crate::table::{Table, holds};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "measures time: cargo test --release -p forebay-tests --test routing -- --ignored --nocapture"]
async fn prefixes_are_found_and_nobody_has_too_many() {
    holds(async || {
        let play = async |policy| Fleet::start(policy, "").await.groups(None).await;
        let ours = play("predictive").await;
        let mut table = Table::new("64 groups, 640 conversations, 8 equal engines: predictive");
        let (hit, ideal) = (ours.prefix_hit.unwrap(), ours.ideal_prefix_hit.unwrap());
        table.least("prefix hit", hit, 0.90);
        table.least(format!("prefix hit / the ideal {ideal:.3}"), hit / ideal, 0.96);
        table.most("tokens of the busiest / mean", ours.busiest_share.unwrap(), 1.35);
        let mean = ours.ttft_ms.mean.unwrap();
        for policy in ["prefix_affinity", "consistent_hash"] {
            let its = play(policy).await.ttft_ms.mean.unwrap();
            table.most(format!("mean TTFT: {mean:.0} / {its:.0} ms, {policy}"), mean / its, 0.9);
        }
        table
    })
    .await;
}

/// How long two engines are slow.
const SLOW: Duration = Duration::from_secs(60);
/// From when on the slower share of the one at 80 % must show, in seconds.
const LATE: f64 = 30.0;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "measures time: cargo test --release -p forebay-tests --test routing -- --ignored --nocapture"]
async fn slow_engines_get_less_without_weights() {
    holds(async || {
        let fleet = Fleet::start("predictive", "").await;
        let (slower, half) = (&fleet.engines[2], &fleet.engines[5]);
        slower.engine.set_speed(0.8);
        half.engine.set_speed(0.5);
        let summary = fleet.groups(Some(SLOW)).await;
        // Shares of the mean share, over all windows that begin in this time.
        let share = |url: &str, from: f64, to: f64| {
            let windows = summary.windows.iter().filter(|w| (from..to).contains(&w.from_s));
            let (mut its, mut all) = (0, 0);
            for end in windows.flat_map(|window| &window.endpoints) {
                all += end.tokens;
                its += if end.name == url { end.tokens } else { 0 };
            }
            its as f64 * ENGINES as f64 / all as f64
        };
        for window in &summary.windows {
            let of = |url| share(url, window.from_s, window.to_s);
            println!(
                "{:>2.0} to {:.0} s: {:.2} of the mean at 80 %, {:.2} at half speed",
                window.from_s,
                window.to_s,
                of(&slower.url),
                of(&half.url)
            );
        }
        let mut table = Table::new("one engine at 80 % and one at half: tokens / mean of all");
        table.most("half speed, first 10 s", share(&half.url, 0.0, 10.0), 0.7);
        table.most("half speed, 30 to 60 s", share(&half.url, LATE, f64::INFINITY), 0.7);
        table.most("80 %, 30 to 60 s", share(&slower.url, LATE, f64::INFINITY), 0.95);
        table
    })
    .await;
}
