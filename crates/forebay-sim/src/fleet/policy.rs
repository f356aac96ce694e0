//! Who decides in a run, and what is the same for all who are compared.

use std::time::Duration;

use forebay_gate::{PolicyKind, PoolConfig};

use crate::baselines::{BaselineKind, Knobs};

/// Who decides.
#[derive(Clone, Debug, PartialEq)]
pub enum PolicySpec {
    /// One of Forebay's own policies.
    Ours(PoolConfig),
    /// A rival's rule, with its knobs.
    Baseline(BaselineKind, Knobs),
}

impl PolicySpec {
    /// The name in tables.
    pub fn name(&self) -> String {
        match self {
            PolicySpec::Ours(config) => config.policy.as_str().to_owned(),
            PolicySpec::Baseline(kind, _) => kind.as_str().to_owned(),
        }
    }

    /// Whether it goes by what answers say of their endpoints.
    pub(super) fn reads_orca(&self) -> bool {
        match self {
            PolicySpec::Ours(config) => config.policy == PolicyKind::OrcaWeightedRoundRobin,
            PolicySpec::Baseline(kind, _) => *kind == BaselineKind::OrcaWrr,
        }
    }
}

/// What is the same for every policy that is compared.
#[derive(Clone, Copy, Default)]
pub struct RunOptions<'a> {
    /// Decides every tie and every choice of a gateway.
    pub seed: u64,
    /// The first so many requests to arrive do not count.
    pub warmup: u64,
    /// So many after them count, and the run ends when they have ended; none: all.
    pub counted: Option<u64>,
    /// How often the state of the fleet is written down for
    /// [`SimResult::timeline`](super::SimResult::timeline); none: never.
    pub sample_every: Option<Duration>,
    /// Told now and then how many requests have arrived, for a progress bar.
    pub progress: Option<&'a dyn Fn(u64)>,
    /// Nanoseconds of any origin, to measure where the simulator's own time
    /// goes; it changes nothing else.
    pub clock: Option<&'a dyn Fn() -> u64>,
}
