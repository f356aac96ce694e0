//! Running everything, on as many threads as asked for.

use std::cell::Cell;
use std::io::IsTerminal;
use std::sync::atomic::{AtomicUsize, Ordering};

use forebay_sim::fleet::{RunOptions, SimResult, run};
use indicatif::{ProgressBar, ProgressStyle};
use parking_lot::Mutex;

use super::plan::{Plan, Stage};
use super::policies::Named;
use super::pools;
use crate::cli::Failure;

/// Results by load, policy and seed, each in the plan's order.
pub(super) type Results = Vec<Vec<Vec<SimResult>>>;

/// One policy at one load, with every seed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Task {
    pub(super) stage: Stage,
    /// By its place in the plan.
    pub(super) policy: usize,
}

/// Plays tasks and shows how far it is, until it is dropped.
pub(super) struct Player<'a> {
    pub(super) plan: &'a Plan,
    bar: ProgressBar,
}

impl<'a> Player<'a> {
    pub(super) fn new(plan: &'a Plan) -> Player<'a> {
        Player { plan, bar: bar() }
    }

    /// Plays so many tasks more as one step of that name; results by task and seed.
    pub(super) fn play(&self, step: &str, tasks: &[Task]) -> Result<Vec<Vec<SimResult>>, Failure> {
        let (plan, bar) = (self.plan, &self.bar);
        let (seeds, pools) = (plan.seeds.len(), plan.fleet.pools);
        bar.set_prefix(step.to_owned());
        bar.inc_length(tasks.iter().map(|task| task.stage.requests.saturating_mul(seeds as u64)).sum());
        let flat = in_parallel(plan.jobs, tasks.len() * seeds * pools, |number| {
            let (number, pool) = (number / pools, number % pools);
            let (task, seed) = (tasks[number / seeds], plan.seeds[number % seeds]);
            let policy = &plan.policies[task.policy];
            bar.set_message(policy.name.clone());
            let told = Cell::new(0);
            let progress = |arrived: u64| bar.inc(arrived.saturating_sub(told.replace(arrived)));
            let options = RunOptions { progress: Some(&progress), ..RunOptions::default() };
            let result = one(plan, task.stage, policy, seed, pool, options)?;
            progress(result.simulated);
            Ok(result)
        });
        let mut flat = flat?.into_iter();
        let mut seed = || pools::merged(flat.by_ref().take(pools).collect());
        Ok(tasks.iter().map(|_| (0..seeds).map(|_| seed()).collect()).collect())
    }
}

impl Drop for Player<'_> {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

/// Runs every policy at every load with every seed.
pub(super) fn all(player: &Player<'_>) -> Result<Results, Failure> {
    let plan = player.plan;
    let policies = plan.policies.len();
    let tasks =
        plan.stages.iter().flat_map(|stage| (0..policies).map(|policy| Task { stage: *stage, policy }));
    let mut flat = player.play("", &tasks.collect::<Vec<_>>())?.into_iter();
    Ok(plan.stages.iter().map(|_| flat.by_ref().take(policies).collect()).collect())
}

/// One run of one pool of the fleet.
pub(super) fn one(
    plan: &Plan,
    stage: Stage,
    policy: &Named,
    seed: u64,
    pool: usize,
    options: RunOptions<'_>,
) -> Result<SimResult, Failure> {
    let pools = plan.fleet.pools;
    let (stage, seed) = (pools::stage(stage, pool, pools), pools::seed(seed, pool));
    let fleet = pools::part(&plan.fleet.fleet, pool, pools);
    let mut traffic = plan.source.play(stage.load, stage.requests, plan.slo, seed);
    let options = RunOptions { seed, warmup: stage.warmup, ..options };
    run(&fleet, &mut traffic, &policy.spec, &options).map_err(|error| Failure::Usage(error.to_string()))
}

/// Calls `work` with every number below `count`, on `jobs` threads; answers in order.
pub(super) fn in_parallel<T: Send>(
    jobs: usize,
    count: usize,
    work: impl Fn(usize) -> Result<T, Failure> + Sync,
) -> Result<Vec<T>, Failure> {
    let next = AtomicUsize::new(0);
    let slots: Vec<Mutex<Option<Result<T, Failure>>>> = (0..count).map(|_| Mutex::new(None)).collect();
    std::thread::scope(|scope| {
        for _ in 0..jobs.clamp(1, count.max(1)) {
            scope.spawn(|| {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    let Some(slot) = slots.get(number) else { break };
                    *slot.lock() = Some(work(number));
                }
            });
        }
    });
    slots
        .into_iter()
        .map(|slot| {
            slot.into_inner().unwrap_or_else(|| Err(Failure::Failed("a run was not finished".to_owned())))
        })
        .collect()
}

/// A bar of requests on standard error, hidden unless that is a terminal.
fn bar() -> ProgressBar {
    if !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::new(0);
    // Its own style when the template were wrong.
    if let Ok(style) = ProgressStyle::with_template(
        "{prefix}{wide_bar} {human_pos}/{human_len} requests, {eta} left  {msg:26}",
    ) {
        bar.set_style(style);
    }
    bar
}
