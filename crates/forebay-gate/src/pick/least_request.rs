//! The fewest requests in flight per weight.

use forebay_core::RequestFacts;
use rand_pcg::Pcg64Mcg;

use super::{Pick, Policy, argmin};
use crate::endpoints::Endpoints;
use crate::policy_kind::PolicyKind;

#[derive(Debug)]
pub(crate) struct LeastRequest;

/// Requests in flight once this one is there, per unit of capacity. Counting
/// this one sends the first request of an idle fleet to the heaviest endpoint.
pub(super) fn requests_per_weight(endpoints: &Endpoints, slot: u32) -> f64 {
    (f64::from(endpoints.in_flight(slot)) + 1.0) / endpoints.weight(slot)
}

impl Policy for LeastRequest {
    fn kind(&self) -> PolicyKind {
        PolicyKind::LeastRequest
    }

    fn pick(
        &mut self,
        candidates: &[u32],
        endpoints: &Endpoints,
        _: &RequestFacts,
        rng: &mut Pcg64Mcg,
    ) -> Option<Pick> {
        argmin(candidates, rng, |slot| requests_per_weight(endpoints, slot))
    }
}
