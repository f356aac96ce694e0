//! One row of the report: a policy at a load. The JSON keys are a contract.

use std::collections::BTreeSet;

use forebay_core::{Priority, Slo};
use forebay_sim::fleet::{ClassResult, SimResult, Times};
use serde::Serialize;

use super::stats::Mean;

/// Mean and percentiles in milliseconds; none when nothing was measured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub(super) struct Quantiles {
    pub(super) mean: Option<f64>,
    pub(super) p50: Option<f64>,
    pub(super) p95: Option<f64>,
    pub(super) p99: Option<f64>,
}

/// When a request counts as good, in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(super) struct Limits {
    pub(super) ttft_ms: Option<f32>,
    pub(super) tpot_ms: Option<f32>,
}

impl From<Slo> for Limits {
    fn from(slo: Slo) -> Limits {
        Limits { ttft_ms: slo.ttft_ms, tpot_ms: slo.tpot_ms }
    }
}

/// One endpoint's part; counts over all seeds, shares their means.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Endpoint {
    pub(super) name: String,
    pub(super) requests: u64,
    pub(super) share: f64,
    pub(super) prefix_hit: f64,
    pub(super) token_share: f64,
    pub(super) utilization: f64,
    pub(super) preemptions: u64,
}

/// The requests of one priority; counts over all seeds, the rest means.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Class {
    /// critical, standard or sheddable, or another number.
    pub(super) priority: String,
    pub(super) requests: u64,
    pub(super) goodput: f64,
    pub(super) ttft_ms: Quantiles,
    pub(super) e2e_ms: Quantiles,
    pub(super) ci95: ClassIntervals,
}

/// As [`Intervals`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub(super) struct ClassIntervals {
    pub(super) goodput: Option<f64>,
    pub(super) ttft_ms: Quantiles,
    pub(super) e2e_ms: Quantiles,
}

/// Half the width of the 95 % confidence interval of each figure, over seeds;
/// none with one seed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub(super) struct Intervals {
    pub(super) ttft_ms: Quantiles,
    pub(super) tpot_ms: Quantiles,
    pub(super) e2e_ms: Quantiles,
    pub(super) tokens_per_second: Option<f64>,
    pub(super) goodput: Option<f64>,
    pub(super) prefix_hit: Option<f64>,
    pub(super) utilization: Option<f64>,
    pub(super) busiest: Option<f64>,
    pub(super) busiest_tokens: Option<f64>,
    pub(super) failed: Option<f64>,
    pub(super) rejected: Option<f64>,
    pub(super) cancelled: Option<f64>,
}

/// What one policy did at one load. Counts are sums over seeds; their
/// intervals are of the mean of one seed. Everything else is a mean over seeds.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Row {
    pub(super) policy: String,
    /// A rival's rule, and not one of Forebay's policies.
    pub(super) rival: bool,
    /// Requests per second; none in a closed loop.
    pub(super) rate: Option<f64>,
    pub(super) seeds: usize,
    pub(super) requests: u64,
    pub(super) failed: u64,
    pub(super) rejected: u64,
    pub(super) cancelled: u64,
    pub(super) ttft_ms: Quantiles,
    pub(super) tpot_ms: Quantiles,
    pub(super) e2e_ms: Quantiles,
    pub(super) tokens_per_second: f64,
    pub(super) goodput: f64,
    /// Its interval reaches that of the best at this load; of the best itself: another's does.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(super) level_with_best: bool,
    pub(super) slo: Limits,
    pub(super) prefix_hit: f64,
    /// Requests at the busiest endpoint over the mean of all.
    pub(super) busiest: f64,
    /// Prompt and output tokens at the endpoint with the most over the mean of all.
    pub(super) busiest_tokens: f64,
    /// Of the endpoints' time, the share that they computed.
    pub(super) utilization: f64,
    /// Requests at a time on an endpoint, of those that were served.
    pub(super) in_flight: f64,
    pub(super) repicked: u64,
    /// By priority, the highest first, where there is more than one.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) priorities: Vec<Class>,
    pub(super) endpoints: Vec<Endpoint>,
    pub(super) time_scale: f64,
    /// Half the width of each figure's 95 % confidence interval.
    pub(super) ci95: Intervals,
}

type Figure<'a> = &'a dyn Fn(&SimResult) -> f64;

impl Row {
    /// Before its name, where others are as good.
    pub(super) fn mark(&self) -> &'static str {
        if self.level_with_best { "= " } else { "" }
    }

    /// From one result for each seed.
    pub(super) fn new(name: &str, rival: bool, rate: Option<f64>, slo: Slo, results: &[SimResult]) -> Row {
        let of = |figure: Figure<'_>| Mean::of(results.iter().map(|result| Some(figure(result))));
        let sum = |count: &dyn Fn(&SimResult) -> u64| results.iter().map(count).sum::<u64>();
        let times =
            |which: &dyn Fn(&SimResult) -> Times| quantiles(&results.iter().map(which).collect::<Vec<_>>());
        let (ttft_ms, ttft_half) = times(&|result| result.ttft_ms);
        let (tpot_ms, tpot_half) = times(&|result| result.tpot_ms);
        let (e2e_ms, e2e_half) = times(&|result| result.e2e_ms);
        let tokens = of(&|result| result.tokens_per_second);
        let goodput = of(&|result| result.goodput);
        let hit = of(&|result| result.prefix_hit);
        let busiest = of(&|result| result.busiest);
        let busiest_tokens = of(&|result| result.busiest_tokens);
        let utilization = of(&mean_utilization);
        let known = |mean: Mean| mean.mean.unwrap_or(0.0);
        Row {
            policy: name.to_owned(),
            rival,
            rate,
            seeds: results.len(),
            requests: sum(&|result| result.requests),
            failed: sum(&|result| result.failed),
            rejected: sum(&|result| result.rejected),
            cancelled: sum(&|result| result.cancelled),
            ttft_ms,
            tpot_ms,
            e2e_ms,
            tokens_per_second: known(tokens),
            goodput: known(goodput),
            level_with_best: false,
            slo: slo.into(),
            prefix_hit: known(hit),
            busiest: known(busiest),
            busiest_tokens: known(busiest_tokens),
            utilization: known(utilization),
            in_flight: known(of(&in_flight)),
            repicked: sum(&|result| result.repicked),
            priorities: classes(results),
            endpoints: endpoints(results),
            time_scale: 1.0,
            ci95: Intervals {
                ttft_ms: ttft_half,
                tpot_ms: tpot_half,
                e2e_ms: e2e_half,
                tokens_per_second: tokens.half,
                goodput: goodput.half,
                prefix_hit: hit.half,
                utilization: utilization.half,
                busiest: busiest.half,
                busiest_tokens: busiest_tokens.half,
                failed: of(&|result| result.failed as f64).half,
                rejected: of(&|result| result.rejected as f64).half,
                cancelled: of(&|result| result.cancelled as f64).half,
            },
        }
    }
}

/// Less than what is shown is no difference.
const INVISIBLE: f64 = 0.0005;

/// Marks those of one load whose interval reaches that of the best.
pub(super) fn mark_level(rows: &mut [Row]) {
    let Some(best) = rows.iter().max_by(|a, b| a.goodput.total_cmp(&b.goodput)) else { return };
    let half = |row: &Row| row.ci95.goodput.unwrap_or(0.0);
    let (most, sure) = (best.goodput, half(best));
    let is_level = |row: &Row| most - row.goodput <= (sure + half(row)).max(INVISIBLE);
    let level: Vec<bool> = rows.iter().map(is_level).collect();
    // One alone is simply the best.
    let several = level.iter().filter(|level| **level).count() > 1;
    for (row, level) in rows.iter_mut().zip(level) {
        row.level_with_best = level && several;
    }
}

/// Means over runs and half the widths of their intervals.
fn quantiles(runs: &[Times]) -> (Quantiles, Quantiles) {
    // Nothing was measured where it is 0: nothing served, or nothing after first tokens.
    let at = |pick: &dyn Fn(&Times) -> f64| {
        Mean::of(runs.iter().map(|times| Some(pick(times)).filter(|ms| *ms > 0.0)))
    };
    let all = [at(&|t| t.mean), at(&|t| t.p50), at(&|t| t.p95), at(&|t| t.p99)];
    let of = |[mean, p50, p95, p99]: [Option<f64>; 4]| Quantiles { mean, p50, p95, p99 };
    (of(all.map(|mean| mean.mean)), of(all.map(|mean| mean.half)))
}

fn priority_name(priority: i32) -> String {
    match Priority(priority) {
        Priority::CRITICAL => "critical".to_owned(),
        Priority::STANDARD => "standard".to_owned(),
        Priority::SHEDDABLE => "sheddable".to_owned(),
        Priority(other) => format!("priority {other}"),
    }
}

fn classes(results: &[SimResult]) -> Vec<Class> {
    // By whatever any seed had.
    let all: BTreeSet<i32> =
        results.iter().flat_map(|result| result.classes.iter().map(|class| class.priority)).collect();
    let class = |priority: i32| {
        let runs: Vec<&ClassResult> = results
            .iter()
            .filter_map(|result| result.classes.iter().find(|class| class.priority == priority))
            .collect();
        let times = |which: &dyn Fn(&ClassResult) -> Times| {
            quantiles(&runs.iter().map(|class| which(class)).collect::<Vec<_>>())
        };
        let goodput = Mean::of(runs.iter().map(|class| Some(class.goodput)));
        let (ttft_ms, ttft_half) = times(&|class| class.ttft_ms);
        let (e2e_ms, e2e_half) = times(&|class| class.e2e_ms);
        Class {
            priority: priority_name(priority),
            requests: runs.iter().map(|class| class.requests).sum(),
            goodput: goodput.mean.unwrap_or(0.0),
            ttft_ms,
            e2e_ms,
            ci95: ClassIntervals { goodput: goodput.half, ttft_ms: ttft_half, e2e_ms: e2e_half },
        }
    };
    all.into_iter().rev().map(class).collect()
}

/// By Little's law, over the part of the run that counts.
fn in_flight(result: &SimResult) -> f64 {
    let served = result.endpoints.iter().map(|endpoint| endpoint.requests).sum::<u64>() as f64;
    let seconds = result.sim_seconds * result.requests as f64 / result.simulated.max(1) as f64;
    if seconds <= 0.0 {
        return 0.0;
    }
    served * result.e2e_ms.mean * 1e-3 / seconds / result.endpoints.len().max(1) as f64
}

fn mean_utilization(result: &SimResult) -> f64 {
    let sum: f64 = result.endpoints.iter().map(|endpoint| endpoint.utilization).sum();
    sum / result.endpoints.len().max(1) as f64
}

fn endpoints(results: &[SimResult]) -> Vec<Endpoint> {
    let Some(first) = results.first() else { return Vec::new() };
    let n = results.len() as f64;
    first
        .endpoints
        .iter()
        .enumerate()
        .map(|(at, endpoint)| {
            let all = || results.iter().filter_map(move |result| result.endpoints.get(at));
            Endpoint {
                name: endpoint.name.clone(),
                requests: all().map(|endpoint| endpoint.requests).sum(),
                share: all().map(|endpoint| endpoint.share).sum::<f64>() / n,
                prefix_hit: all().map(|endpoint| endpoint.prefix_hit).sum::<f64>() / n,
                token_share: all().map(|endpoint| endpoint.token_share).sum::<f64>() / n,
                utilization: all().map(|endpoint| endpoint.utilization).sum::<f64>() / n,
                preemptions: all().map(|endpoint| endpoint.preemptions).sum(),
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn level(policies: &[&[f64]]) -> Vec<bool> {
        let row = |goodputs: &&[f64]| {
            let result = |goodput: &f64| SimResult { goodput: *goodput, ..SimResult::default() };
            let results: Vec<SimResult> = goodputs.iter().map(result).collect();
            Row::new("", false, None, Slo { ttft_ms: None, tpot_ms: None }, &results)
        };
        let mut rows: Vec<Row> = policies.iter().map(row).collect();
        mark_level(&mut rows);
        rows.iter().map(|row| row.level_with_best).collect()
    }

    #[test]
    fn policies_are_level_where_intervals_meet() {
        // Intervals of ± 0.025, 0.15 apart and 0.02 apart.
        let goodput = [0.89, 0.9, 0.91];
        assert_eq!(level(&[&goodput, &goodput.map(|all| all - 0.15)]), [false, false]);
        assert_eq!(level(&[&goodput.map(|all| all - 0.02), &goodput, &[0.1; 3]]), [true, true, false]);
        assert_eq!(level(&[&[0.9], &[0.9], &[0.8]]), [true, true, false]);
        assert_eq!(level(&[]), [false; 0]);
    }
}
