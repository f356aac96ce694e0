//! What every section of the evaluation is given.

use std::collections::BTreeMap;

use forebay_gate::{Profile, Weights};
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
    pub(crate) tuned: Tuned,
}

/// What tuning found.
#[derive(Clone, Debug)]
pub(crate) struct Tuned {
    pub(crate) rivals: BTreeMap<BaselineKind, Knobs>,
    /// Of `predictive`.
    pub(crate) prices: Weights,
}

impl Default for Tuned {
    fn default() -> Tuned {
        Tuned { rivals: BTreeMap::new(), prices: Profile::Balanced.weights() }
    }
}

/// Outcomes by contender, load and seed.
pub(crate) struct Grid {
    /// `[contender][rate][seed]`.
    pub(crate) outcomes: Vec<Vec<Vec<Outcome>>>,
}

impl Context<'_> {
    /// A rival as tuned, or at its defaults where it was not.
    pub(crate) fn best(&self, kind: BaselineKind) -> Contender {
        match self.tuned.rivals.get(&kind) {
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
