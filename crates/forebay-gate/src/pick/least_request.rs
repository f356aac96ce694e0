//! The fewest requests in flight per weight.

use rand_pcg::Pcg64Mcg;
use serde::{Deserialize, Serialize};

use super::{Pick, Policy, View, argmin};
use crate::policy_kind::PolicyKind;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct LeastRequest;

/// Requests there, whoever sent them, once this one is, per unit of capacity. Counting
/// this one sends the first request of an idle fleet to the heaviest endpoint.
pub(super) fn requests_per_weight(view: &View<'_>, slot: u32) -> f64 {
    (view.requests(slot) + 1.0) / view.weight(slot)
}

impl Policy for LeastRequest {
    fn kind(&self) -> PolicyKind {
        PolicyKind::LeastRequest
    }

    fn pick(&mut self, view: &View<'_>, rng: &mut Pcg64Mcg) -> Option<Pick> {
        argmin(view.candidates, rng, |slot| requests_per_weight(view, slot))
    }
}
