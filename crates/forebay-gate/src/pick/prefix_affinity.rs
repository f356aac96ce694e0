//! The longest held prefix, within a bound on load.

use rand_pcg::Pcg64Mcg;
use serde::{Deserialize, Serialize};

use super::bounded::{Bound, least_work};
use super::{Pick, Policy, View};
use crate::policy_kind::PolicyKind;

/// The candidate that holds the most tokens of the prompt, among those below
/// `factor` times their fair share of the requests in flight; equal ones by
/// least outstanding work. When nobody with room holds anything, the least
/// outstanding work decides alone. O(candidates), no state.
///
/// It cannot weigh a long prefix against a long queue; `predictive` does.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct PrefixAffinity;

impl Policy for PrefixAffinity {
    fn kind(&self) -> PolicyKind {
        PolicyKind::PrefixAffinity
    }

    fn pick(&mut self, view: &View<'_>, rng: &mut Pcg64Mcg) -> Option<Pick> {
        if view.most_held() == 0 {
            return least_work(view, rng, |_| true);
        }
        let bound = Bound::new(view);
        let with_room = view.candidates.iter().filter(|&&slot| bound.has_room(view, slot));
        let most = with_room.map(|&slot| view.held(slot)).max().unwrap_or(0);
        let holder = least_work(view, rng, |slot| view.held(slot) == most && bound.has_room(view, slot));
        holder.or_else(|| least_work(view, rng, |_| true))
    }
}

#[cfg(test)]
#[path = "prefix_affinity_tests.rs"]
mod tests;
