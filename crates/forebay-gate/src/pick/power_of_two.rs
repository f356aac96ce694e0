//! The better of two endpoints drawn at random.

use rand::RngExt;
use rand_pcg::Pcg64Mcg;
use serde::{Deserialize, Serialize};

use super::least_request::requests_per_weight;
use super::{Pick, Policy, View, argmin};
use crate::policy_kind::PolicyKind;

/// Needs no fresh view of the whole fleet: two choices keep the longest queue
/// near `log log n`, and several gateways with stale views do not herd
/// (Mitzenmacher, The Power of Two Choices in Randomized Load Balancing).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct PowerOfTwo;

impl Policy for PowerOfTwo {
    fn kind(&self) -> PolicyKind {
        PolicyKind::PowerOfTwo
    }

    fn pick(&mut self, view: &View<'_>, rng: &mut Pcg64Mcg) -> Option<Pick> {
        let n = view.candidates.len();
        if n < 2 {
            return view
                .candidates
                .first()
                .map(|&slot| Pick { slot, score: requests_per_weight(view, slot) });
        }
        let first = rng.random_range(0..n);
        // One of the others, each with the same chance.
        let second = (first + rng.random_range(1..n)) % n;
        argmin(&[view.candidates[first], view.candidates[second]], rng, |slot| {
            requests_per_weight(view, slot)
        })
    }
}
