//! Each endpoint in turn, in proportion to its weight.

use rand_pcg::Pcg64Mcg;
use serde::{Deserialize, Serialize};

use super::{Pick, Policy, View};
use crate::policy_kind::PolicyKind;

/// Smooth weighted round robin: every endpoint gains its weight, the richest
/// goes and pays the sum. Turns of a heavy endpoint are spread out instead of
/// bunched (the rule is the one nginx uses).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct WeightedRoundRobin {
    /// Credit by slot. A slot that changes hands starts with what is left,
    /// which is bounded by the sum of the weights.
    credit: Vec<f64>,
}

impl Policy for WeightedRoundRobin {
    fn kind(&self) -> PolicyKind {
        PolicyKind::WeightedRoundRobin
    }

    fn pick(&mut self, view: &View<'_>, _: &mut Pcg64Mcg) -> Option<Pick> {
        let last = *view.candidates.last()? as usize;
        if self.credit.len() <= last {
            self.credit.resize(last + 1, 0.0);
        }
        let mut sum = 0.0;
        let mut best: Option<u32> = None;
        for &slot in view.candidates {
            let weight = view.weight(slot);
            sum += weight;
            self.credit[slot as usize] += weight;
            if best.is_none_or(|b| self.credit[slot as usize] > self.credit[b as usize]) {
                best = Some(slot);
            }
        }
        let slot = best?;
        self.credit[slot as usize] -= sum;
        Some(Pick { slot, score: 0.0 })
    }
}
