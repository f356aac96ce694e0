//! `forebay demo`: half the engines are fast, half are not, and nobody says which.

use forebay_load::Summary;
use forebay_tests::gateway::binary;
use tokio::process::Command;

use crate::table::{Table, holds};

const SECONDS: &str = "30";
const SEED: &str = "1";

async fn demo(policy: &str) -> Summary {
    let output = Command::new(binary())
        .args(["demo", "--seconds", SECONDS, "--seed", SEED, "--policy", policy, "--json"])
        .kill_on_drop(true)
        .output()
        .await
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    let summary: Summary = serde_json::from_slice(&output.stdout).unwrap_or_else(|e| panic!("{e}: {said}"));
    assert_eq!((summary.failed, summary.rejected), (0, 0));
    summary
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "measures time: cargo test --release -p forebay-tests --test routing -- --ignored --nocapture"]
async fn the_demo_is_twice_as_fast_as_without_prediction() {
    holds(async || {
        let ours = demo("predictive").await;
        let mut table = Table::new("the demo: predictive over others, time to the first token");
        for policy in ["least_work", "round_robin"] {
            let other = demo(policy).await;
            let (mean, p99) = (ours.ttft_ms.mean.unwrap(), ours.ttft_ms.p99.unwrap());
            let (its_mean, its_p99) = (other.ttft_ms.mean.unwrap(), other.ttft_ms.p99.unwrap());
            table.most(format!("mean: {mean:.0} / {its_mean:.0} ms, {policy}"), mean / its_mean, 0.5);
            table.most(format!("p99: {p99:.0} / {its_p99:.0} ms, {policy}"), p99 / its_p99, 1.0);
        }
        table
    })
    .await;
}
