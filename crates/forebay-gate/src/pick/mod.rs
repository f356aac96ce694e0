//! The policies: one file each, one trait.
//!
//! A policy only chooses. Load is added and removed by the Gate, in one place,
//! so that no policy can forget it.

mod consistent_hash;
mod least_request;
mod least_work;
mod power_of_two;
mod random;
mod round_robin;
mod weighted_round_robin;

use forebay_core::RequestFacts;
use rand_pcg::Pcg64Mcg;

use crate::endpoints::Endpoints;
use crate::policy_kind::PolicyKind;
use crate::pool::PoolConfig;

pub use least_work::WORK_PER_OUTPUT_TOKEN;
pub(crate) use least_work::{prefill_work, total_work};

/// A policy's choice.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Pick {
    /// The chosen slot.
    pub(crate) slot: u32,
    /// What was minimised, in the policy's own unit; 0 when nothing was compared.
    pub(crate) score: f64,
}

/// Chooses among eligible endpoints.
pub(crate) trait Policy: Send + std::fmt::Debug {
    fn kind(&self) -> PolicyKind;

    /// Picks one of `candidates`, which are slots in ascending order; none
    /// only when there are no candidates.
    fn pick(
        &mut self,
        candidates: &[u32],
        endpoints: &Endpoints,
        facts: &RequestFacts,
        rng: &mut Pcg64Mcg,
    ) -> Option<Pick>;
}

/// The policy that a configuration names.
pub(crate) fn make(config: &PoolConfig) -> Box<dyn Policy> {
    match config.policy {
        PolicyKind::RoundRobin => Box::new(round_robin::RoundRobin::default()),
        PolicyKind::WeightedRoundRobin => Box::new(weighted_round_robin::WeightedRoundRobin::default()),
        PolicyKind::Random => Box::new(random::Random),
        PolicyKind::LeastRequest => Box::new(least_request::LeastRequest),
        PolicyKind::PowerOfTwo => Box::new(power_of_two::PowerOfTwo),
        PolicyKind::LeastWork => Box::new(least_work::LeastWork),
        PolicyKind::ConsistentHash => {
            Box::new(consistent_hash::ConsistentHash::new(config.hash_balance_factor))
        }
    }
}

/// The candidate with the least score; exact ties are broken at random, or the
/// first endpoint would get everything while the fleet is idle.
fn argmin(candidates: &[u32], rng: &mut Pcg64Mcg, mut score: impl FnMut(u32) -> f64) -> Option<Pick> {
    use rand::RngExt;
    let mut best: Option<Pick> = None;
    let mut ties = 1u32;
    for &slot in candidates {
        let s = score(slot);
        match best {
            Some(b) if s > b.score => {}
            Some(b) if s == b.score => {
                // Reservoir sampling: the k-th tie replaces with chance 1/k.
                ties += 1;
                if rng.random_range(0..ties) == 0 {
                    best = Some(Pick { slot, score: s });
                }
            }
            _ => {
                ties = 1;
                best = Some(Pick { slot, score: s });
            }
        }
    }
    best
}

#[cfg(test)]
mod tests;
