//! How a run went over time, for the plots.

use std::time::Duration;

use forebay_sim::fleet::{RunOptions, TimelinePoint};
use serde::Serialize;

use super::execute::{self, Results, in_parallel};
use super::plan::Plan;
use super::pools;
use super::report::Report;
use crate::cli::Failure;

/// One policy's run with the first seed, in stretches of equal length.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Timeline {
    pub(super) policy: String,
    /// Requests per second; none in a closed loop.
    pub(super) rate: Option<f64>,
    /// By stretch, warm-up included: what arrived, was served and met its limits,
    /// and by endpoint how much it computed, and what runs and waits at the end.
    pub(super) points: Vec<TimelinePoint>,
}

/// Stretches of a run.
const POINTS: f64 = 32.0;
/// Policies that are shown.
const MOST: usize = 8;

/// Timelines at the load where policies differ most.
pub(super) fn all(plan: &Plan, report: &Report, results: &Results) -> Result<Vec<Timeline>, Failure> {
    let at = report.telling();
    let (Some(stage), Some(&seed)) = (plan.stages.get(at), plan.seeds.first()) else {
        return Ok(Vec::new());
    };
    let (chosen, pools) = (chosen(plan, report, at), plan.fleet.pools);
    let parts = in_parallel(plan.jobs, chosen.len() * pools, |number| {
        let policy = chosen[number / pools];
        let lasted = results[at][policy].first().map_or(0.0, |result| result.sim_seconds);
        let every = Duration::try_from_secs_f64(lasted / POINTS).unwrap_or(Duration::from_secs(10));
        let sample_every = Some(every.max(Duration::from_millis(1)));
        let options = RunOptions { sample_every, ..RunOptions::default() };
        execute::one(plan, *stage, &plan.policies[policy], seed, number % pools, options)
    })?;
    let mut parts = parts.into_iter();
    let timeline = |policy: usize| Timeline {
        policy: plan.policies[policy].name.clone(),
        rate: stage.load.rate(),
        points: pools::merged(parts.by_ref().take(pools).collect()).timeline,
    };
    Ok(chosen.into_iter().map(timeline).collect())
}

/// The best of ours and of the rivals, and those that everybody knows; best first.
fn chosen(plan: &Plan, report: &Report, at: usize) -> Vec<usize> {
    let ranked = report.ranked(report.loads[at].rate);
    let mut chosen: Vec<usize> = Vec::new();
    let place = |name: &str| plan.policies.iter().position(|policy| policy.name == name);
    let best = |rival: bool| ranked.iter().filter(move |row| row.rival == rival).take(2);
    let names = best(false).chain(best(true)).map(|row| row.policy.as_str());
    let known = ["predictive", "least_request", "round_robin"];
    let worst = ranked.last().map(|row| row.policy.as_str());
    for place in names.chain(known).chain(worst).filter_map(place) {
        if !chosen.contains(&place) && chosen.len() < MOST {
            chosen.push(place);
        }
    }
    chosen.sort_by_key(|at| ranked.iter().position(|row| row.policy == plan.policies[*at].name));
    chosen
}
