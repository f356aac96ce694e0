//! Each endpoint in turn.

use forebay_core::RequestFacts;
use rand_pcg::Pcg64Mcg;

use super::{Pick, Policy};
use crate::endpoints::Endpoints;
use crate::policy_kind::PolicyKind;

/// Remembers the slot that went last rather than a position, so that an
/// endpoint that comes or goes does not shift everyone's turn.
#[derive(Debug, Default)]
pub(crate) struct RoundRobin {
    last: Option<u32>,
}

impl Policy for RoundRobin {
    fn kind(&self) -> PolicyKind {
        PolicyKind::RoundRobin
    }

    fn pick(
        &mut self,
        candidates: &[u32],
        _: &Endpoints,
        _: &RequestFacts,
        _: &mut Pcg64Mcg,
    ) -> Option<Pick> {
        let next = match self.last {
            Some(last) => candidates.partition_point(|&slot| slot <= last),
            None => 0,
        };
        let slot = *candidates.get(next).or_else(|| candidates.first())?;
        self.last = Some(slot);
        Some(Pick { slot, score: 0.0 })
    }
}
