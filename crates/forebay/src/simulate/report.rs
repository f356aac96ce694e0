//! The whole report.

use forebay_sim::fleet::SimResult;
use serde::Serialize;

use super::capacity::{self, Capacity};
use super::execute::Results;
use super::plan::{Plan, Stage};
use super::rows::{Limits, Row, mark_level};
use super::table::trimmed;
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

/// Warnings of events that are shown one by one.
const MOST_WARNINGS: usize = 5;

/// A change of the fleet.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Event {
    pub(super) at_s: f64,
    pub(super) what: String,
    /// Why it did not happen, at some loads at least.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) not_reached: Option<String>,
}

/// A load's rate, and when its longest run ended, in seconds.
fn end((stage, by_policy): (&Stage, &Vec<Vec<SimResult>>)) -> (Option<f64>, f64) {
    let ends = by_policy.iter().flatten().map(|result| result.sim_seconds);
    (stage.load.rate(), ends.fold(0.0, f64::max))
}

fn not_reached(at_s: f64, ends: &[(Option<f64>, f64)]) -> Option<String> {
    let missed: Vec<&(Option<f64>, f64)> = ends.iter().filter(|(_, end)| *end < at_s).collect();
    let last = missed.iter().map(|(_, end)| *end).fold(0.0, f64::max);
    let rates: Vec<String> = missed.iter().filter_map(|(rate, _)| rate.map(trimmed)).collect();
    if missed.is_empty() {
        None
    } else if missed.len() == ends.len() {
        Some(format!("the run ends at {last:.0} s"))
    } else {
        Some(format!("at {} requests per second the run ends before", rates.join(", ")))
    }
}

impl Event {
    /// With what kept it from happening.
    pub(super) fn show(&self) -> String {
        let missed =
            self.not_reached.as_ref().map_or_else(String::new, |why| format!(" (not reached: {why})"));
        format!("{} s: {}{missed}", trimmed(self.at_s), self.what)
    }
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
            let first = rows.len() - plan.policies.len();
            mark_level(&mut rows[first..]);
        }
        let ends: Vec<(Option<f64>, f64)> = plan.stages.iter().zip(results).map(end).collect();
        let events = plan.fleet.events.iter().map(|(at_s, what)| Event {
            at_s: *at_s,
            what: what.clone(),
            not_reached: not_reached(*at_s, &ends),
        });
        Report {
            fleet: plan.fleet.title.clone(),
            fleet_facts: plan.fleet.facts.clone(),
            fleet_events: events.collect(),
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

    /// A warning for each event that did not happen, and no more than a screen holds.
    pub(super) fn unreached(&self) -> Vec<String> {
        let missed: Vec<&Event> =
            self.fleet_events.iter().filter(|event| event.not_reached.is_some()).collect();
        let mut all: Vec<String> = missed
            .iter()
            .take(MOST_WARNINGS)
            .map(|event| format!("warning: event at {}", event.show()))
            .collect();
        if missed.len() > MOST_WARNINGS {
            all.push(format!("warning: {} more events are not reached", missed.len() - MOST_WARNINGS));
        }
        all
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

    /// The rows at one of the rates: first those that are level with the best, the
    /// fastest to the first token first; then by goodput, and of equal ones the faster.
    pub(super) fn ranked(&self, rate: Option<f64>) -> Vec<&Row> {
        let mut rows: Vec<&Row> = self.rows.iter().filter(|row| row.rate == rate).collect();
        rows.sort_by(|a, b| {
            let time = |ms: Option<f64>| ms.unwrap_or(f64::INFINITY);
            let goodput = b.goodput.total_cmp(&a.goodput);
            let end = time(a.e2e_ms.mean).total_cmp(&time(b.e2e_ms.mean));
            let usual = goodput.then(end);
            if a.level_with_best && b.level_with_best {
                return time(a.ttft_ms.mean).total_cmp(&time(b.ttft_ms.mean)).then(usual);
            }
            b.level_with_best.cmp(&a.level_with_best).then(usual)
        });
        rows
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_after_the_end_are_told_by_load() {
        let ends = [(Some(4.0), 100.0), (Some(8.0), 50.4), (Some(12.5), 30.0)];
        assert_eq!(not_reached(30.0, &ends), None);
        let some = "at 8, 12.5 requests per second the run ends before";
        assert_eq!(not_reached(60.0, &ends).as_deref(), Some(some));
        assert_eq!(not_reached(101.0, &ends).as_deref(), Some("the run ends at 100 s"));
        assert_eq!(not_reached(9.0, &[(None, 8.0)]).as_deref(), Some("the run ends at 8 s"));
    }
}
