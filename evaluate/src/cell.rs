//! One run and what is kept of it.

use forebay_sim::fleet::{PolicySpec, RunOptions, SimResult, Times, run};
use serde::{Deserialize, Serialize};

use crate::scenario::Scenario;

/// A policy with the name that tables give it.
#[derive(Clone, Debug)]
pub(crate) struct Contender {
    pub(crate) name: String,
    pub(crate) policy: PolicySpec,
}

/// One run: everything that its outcome depends on.
#[derive(Clone, Debug)]
pub(crate) struct Cell {
    pub(crate) scenario: Scenario,
    pub(crate) rate: f64,
    pub(crate) policy: PolicySpec,
    pub(crate) seed: u64,
    /// Also find out what a decision takes. Cells that do run alone.
    pub(crate) timed: bool,
}

/// What is kept of a run; [`SimResult`] says what each is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Outcome {
    pub(crate) requests: u64,
    pub(crate) failed: u64,
    pub(crate) rejected: u64,
    pub(crate) goodput: f64,
    pub(crate) ttft_ms: [f64; 4],
    pub(crate) tpot_ms: [f64; 4],
    pub(crate) e2e_ms: [f64; 4],
    pub(crate) tokens_per_second: f64,
    pub(crate) prefix_hit: f64,
    pub(crate) busiest: f64,
    pub(crate) busiest_tokens: f64,
    /// Mean over endpoints, 0 to 1.
    pub(crate) utilization: f64,
    pub(crate) seconds: f64,
    /// By priority: its number, requests, goodput, and TTFT and e2e as above.
    pub(crate) classes: Vec<ClassOutcome>,
    /// By endpoint, where there are at most 64: share of the requests and utilisation.
    pub(crate) endpoints: Vec<(f64, f64)>,
    /// Microseconds for one decision (look-up and pick), where that was asked for.
    pub(crate) decision_us: Option<f64>,
}

/// Requests of one priority.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct ClassOutcome {
    pub(crate) priority: i32,
    pub(crate) requests: u64,
    pub(crate) goodput: f64,
    pub(crate) ttft_ms: [f64; 4],
    pub(crate) e2e_ms: [f64; 4],
}

/// In the arrays of an [`Outcome`].
pub(crate) const MEAN: usize = 0;
pub(crate) const P95: usize = 2;
pub(crate) const P99: usize = 3;

impl Cell {
    /// What it is known by: its inputs, written out. A name changes nothing.
    pub(crate) fn inputs(&self) -> String {
        let Cell { scenario, rate, policy, seed, timed } = self;
        let Scenario { name: _, fleet, traffic, warmup, build_up_s, counted } = scenario;
        let played = (fleet, traffic, warmup, build_up_s, counted);
        format!("{:?}", (played, rate, policy, seed, timed))
    }

    pub(crate) fn run(&self) -> Result<Outcome, String> {
        let scenario = &self.scenario;
        let warmup = scenario.warmup + (scenario.build_up_s * self.rate) as u64;
        // More than count, so that the load stays until the last of those has ended.
        let requests = warmup + scenario.counted + (scenario.build_up_s.max(60.0) * self.rate) as u64;
        let mut traffic = scenario.traffic.play(self.rate, requests, self.seed)?;
        let clock: Option<&dyn Fn() -> u64> = if self.timed { Some(&real_nanos) } else { None };
        let options = RunOptions {
            seed: self.seed,
            warmup,
            counted: Some(scenario.counted),
            clock,
            ..RunOptions::default()
        };
        let result = run(&scenario.fleet, traffic.as_mut(), &self.policy, &options)
            .map_err(|e| format!("{}: {e}", scenario.name))?;
        Ok(outcome(&result, self.timed))
    }
}

fn outcome(result: &SimResult, timed: bool) -> Outcome {
    let few = |t: &Times| [t.mean, t.p50, t.p95, t.p99];
    let n = result.endpoints.len().max(1) as f64;
    let decisions = result.simulated.max(1) as f64;
    let decision_us = (result.parts.look_up + result.parts.pick) as f64 * 1e-3 / decisions;
    Outcome {
        requests: result.requests,
        failed: result.failed + result.cancelled,
        rejected: result.rejected,
        goodput: result.goodput,
        ttft_ms: few(&result.ttft_ms),
        tpot_ms: few(&result.tpot_ms),
        e2e_ms: few(&result.e2e_ms),
        tokens_per_second: result.tokens_per_second,
        prefix_hit: result.prefix_hit,
        busiest: result.busiest,
        busiest_tokens: result.busiest_tokens,
        utilization: result.endpoints.iter().map(|e| e.utilization).sum::<f64>() / n,
        seconds: result.sim_seconds,
        classes: result
            .classes
            .iter()
            .map(|class| ClassOutcome {
                priority: class.priority,
                requests: class.requests,
                goodput: class.goodput,
                ttft_ms: few(&class.ttft_ms),
                e2e_ms: few(&class.e2e_ms),
            })
            .collect(),
        endpoints: match result.endpoints.len() {
            0..=64 => result.endpoints.iter().map(|e| (e.share, e.utilization)).collect(),
            _ => Vec::new(),
        },
        decision_us: timed.then_some(decision_us),
    }
}

/// Nanoseconds of real time.
#[expect(clippy::disallowed_methods, reason = "it measures real time")]
fn real_nanos() -> u64 {
    use std::sync::OnceLock;
    use std::time::Instant;
    static START: OnceLock<Instant> = OnceLock::new();
    START.get_or_init(Instant::now).elapsed().as_nanos() as u64
}
