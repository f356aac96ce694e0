//! Closer looks at the load that the best policies carry.
//!
//! Goodput falls in a curve: a straight line between two rates far apart says
//! too much or too little. So the middle of the two is played, and again.

use super::capacity::{self, CLOSE};
use super::execute::{Player, Task};
use super::rows::Row;
use crate::cli::Failure;

/// So many of the best policies are looked at.
const BEST: usize = 4;
/// So often is the gap of each halved.
const HALVINGS: usize = 2;

/// Rows at rates between those asked for. Who is among the best is asked anew
/// after each step, so that the first of the table have all been looked at.
pub(super) fn rows(player: &Player<'_>, asked: &[Row]) -> Result<Vec<Row>, Failure> {
    let plan = player.plan;
    let mut refined: Vec<Row> = Vec::new();
    let mut done = vec![0; plan.policies.len()];
    let mut step = 0;
    loop {
        let found = capacity::of(&plan.policies, asked, &refined);
        let gaps = found.iter().filter_map(|capacity| Some((&capacity.policy, capacity.between?)));
        let tasks: Vec<Task> = gaps
            .take(BEST)
            .filter_map(|(name, [from, to])| {
                let policy = plan.policies.iter().position(|policy| policy.name == *name)?;
                let wanted = done[policy] < HALVINGS && to - from > CLOSE * to;
                wanted.then(|| Task { stage: plan.stage_at((from + to) / 2.0), policy })
            })
            .collect();
        if tasks.is_empty() {
            return Ok(refined);
        }
        step += 1;
        let results = player.play(&format!("closer look {step} "), &tasks)?;
        for (task, by_seed) in tasks.iter().zip(&results) {
            done[task.policy] += 1;
            let policy = &plan.policies[task.policy];
            let rate = task.stage.load.rate();
            refined.push(Row::new(&policy.name, policy.is_rival(), rate, plan.slo, by_seed));
        }
    }
}
