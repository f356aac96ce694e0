//! What every section of the evaluation is given.

use std::collections::BTreeMap;

use forebay_sim::baselines::{BaselineKind, Knobs};

use crate::cell::{Cell, Contender, Outcome};
use crate::runner::Runner;
use crate::scenario::Scenario;

/// See the module's text.
pub(crate) struct Context<'a> {
    pub(crate) runner: &'a Runner,
    /// Only enough to see that everything works.
    pub(crate) quick: bool,
    /// Of every cell.
    pub(crate) seeds: Vec<u64>,
    /// What tuning found for each rival.
    pub(crate) tuned: BTreeMap<BaselineKind, Knobs>,
}

/// Outcomes by contender, load and seed.
pub(crate) struct Grid {
    /// `[contender][rate][seed]`.
    pub(crate) outcomes: Vec<Vec<Vec<Outcome>>>,
}

impl Context<'_> {
    /// A rival as tuned, or at its defaults where it was not.
    pub(crate) fn best(&self, kind: BaselineKind) -> Contender {
        match self.tuned.get(&kind) {
            Some(knobs) => crate::contenders::tuned(kind, knobs),
            None => crate::contenders::rival(kind),
        }
    }

    /// Every contender at every load with every seed; the same seed is the
    /// same traffic for all.
    pub(crate) fn grid(
        &self,
        what: &str,
        scenario: &Scenario,
        rates: &[f64],
        contenders: &[Contender],
    ) -> Result<Grid, String> {
        let mut cells = Vec::new();
        for contender in contenders {
            for &rate in rates {
                cells.extend(self.seeds.iter().map(|&seed| Cell {
                    scenario: scenario.clone(),
                    rate,
                    policy: contender.policy.clone(),
                    seed,
                    timed: false,
                }));
            }
        }
        let mut outcomes = self.runner.run(what, &cells)?.into_iter();
        let mut take = |n: usize| outcomes.by_ref().take(n).collect::<Vec<_>>();
        let seeds = self.seeds.len();
        let outcomes = contenders.iter().map(|_| rates.iter().map(|_| take(seeds)).collect()).collect();
        Ok(Grid { outcomes })
    }
}
