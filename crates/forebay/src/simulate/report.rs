//! The whole report.

use serde::Serialize;

use super::capacity::{self, Capacity};
use super::execute::Results;
use super::plan::{Plan, Stage};
use super::rows::{Limits, Row};
use super::timeline::Timeline;

/// What was run and what came of it. The same plan gives the same report, byte for byte.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Report {
    /// The fleet in words, such as `16 × h100-8b`.
    pub(super) fleet: String,
    pub(super) fleet_facts: Vec<String>,
    pub(super) fleet_events: Vec<Event>,
    pub(super) endpoints: usize,
    /// The trace's file or the workload's name, and what it is.
    pub(super) workload: String,
    pub(super) workload_is: String,
    /// A closed loop: no rate can be set.
    pub(super) closed_loop: bool,
    pub(super) seeds: Vec<u64>,
    pub(super) slo: Limits,
    /// What was run, least load first.
    pub(super) loads: Vec<Load>,
    /// The highest load at which goodput is still 90 %, for each policy, best
    /// first; empty unless several loads were run.
    pub(super) capacity: Vec<Capacity>,
    /// By rate, then by policy in the order asked for.
    pub(super) rows: Vec<Row>,
    /// Of the best policies, at rates between those asked for: where their goodput
    /// crosses 90 %.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) refined: Vec<Row>,
    /// How shares went over time, of some policies; only for the written report.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) timelines: Vec<Timeline>,
}

/// A change of the fleet.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Event {
    pub(super) at_s: f64,
    pub(super) what: String,
}

/// One load.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(super) struct Load {
    /// Requests per second; none in a closed loop.
    pub(super) rate: Option<f64>,
    /// In each run, those of the warm-up among them.
    pub(super) requests: u64,
    pub(super) warmup: u64,
}

impl Load {
    fn of(stage: &Stage) -> Load {
        Load { rate: stage.load.rate(), requests: stage.requests, warmup: stage.warmup }
    }
}

impl Report {
    pub(super) fn new(plan: &Plan, results: &Results) -> Report {
        let mut rows = Vec::new();
        for (stage, by_policy) in plan.stages.iter().zip(results) {
            for (policy, by_seed) in plan.policies.iter().zip(by_policy) {
                let rate = stage.load.rate();
                rows.push(Row::new(&policy.name, policy.is_rival(), rate, plan.slo, by_seed));
            }
        }
        let events = plan.fleet.events.iter();
        Report {
            fleet: plan.fleet.title.clone(),
            fleet_facts: plan.fleet.facts.clone(),
            fleet_events: events.map(|(at_s, what)| Event { at_s: *at_s, what: what.clone() }).collect(),
            endpoints: plan.fleet.fleet.endpoints.len(),
            workload: plan.workload.clone(),
            workload_is: plan.described.clone(),
            closed_loop: plan.is_closed(),
            seeds: plan.seeds.clone(),
            slo: plan.slo.into(),
            loads: plan.stages.iter().map(Load::of).collect(),
            capacity: capacity::of(&plan.policies, &rows, &[]),
            rows,
            refined: Vec::new(),
            timelines: Vec::new(),
        }
    }

    /// Takes in rows at further rates.
    pub(super) fn refine(&mut self, plan: &Plan, refined: Vec<Row>) {
        self.capacity = capacity::of(&plan.policies, &self.rows, &refined);
        self.refined = refined;
    }

    /// The load at which policies differ most.
    pub(super) fn telling(&self) -> usize {
        let spread = |load: &Load| {
            let rows = self.rows.iter().filter(|row| row.rate == load.rate);
            let (sum, squares, n) = rows.fold((0.0, 0.0, 0.0f64), |(sum, squares, n), row| {
                (sum + row.goodput, squares + row.goodput * row.goodput, n + 1.0)
            });
            squares / n.max(1.0) - (sum / n.max(1.0)).powi(2)
        };
        let spreads: Vec<f64> = self.loads.iter().map(spread).collect();
        (0..spreads.len()).max_by(|a, b| spreads[*a].total_cmp(&spreads[*b])).unwrap_or(0)
    }

    /// The rows at one of the rates, best goodput first; of equal ones, the faster.
    pub(super) fn ranked(&self, rate: Option<f64>) -> Vec<&Row> {
        let mut rows: Vec<&Row> = self.rows.iter().filter(|row| row.rate == rate).collect();
        rows.sort_by(|a, b| {
            let speed = |row: &Row| row.e2e_ms.mean.unwrap_or(f64::INFINITY);
            b.goodput.total_cmp(&a.goodput).then(speed(a).total_cmp(&speed(b)))
        });
        rows
    }
}
