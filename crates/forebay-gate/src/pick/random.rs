//! Any endpoint, with a chance in proportion to its weight.

use forebay_core::RequestFacts;
use rand::RngExt;
use rand_pcg::Pcg64Mcg;

use super::{Pick, Policy};
use crate::endpoints::Endpoints;
use crate::policy_kind::PolicyKind;

#[derive(Debug)]
pub(crate) struct Random;

impl Policy for Random {
    fn kind(&self) -> PolicyKind {
        PolicyKind::Random
    }

    fn pick(
        &mut self,
        candidates: &[u32],
        endpoints: &Endpoints,
        _: &RequestFacts,
        rng: &mut Pcg64Mcg,
    ) -> Option<Pick> {
        let sum: f64 = candidates.iter().map(|&s| endpoints.weight(s)).sum();
        let mut left = rng.random::<f64>() * sum;
        let mut slot = *candidates.last()?;
        for &candidate in candidates {
            left -= endpoints.weight(candidate);
            if left < 0.0 {
                slot = candidate;
                break;
            }
        }
        Some(Pick { slot, score: 0.0 })
    }
}
