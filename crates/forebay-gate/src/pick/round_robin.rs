//! Each endpoint in turn.

use rand_pcg::Pcg64Mcg;
use serde::{Deserialize, Serialize};

use super::{Pick, Policy, View};
use crate::policy_kind::PolicyKind;

/// Remembers the slot that went last rather than a position, so that an
/// endpoint that comes or goes does not shift everyone's turn.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct RoundRobin {
    last: Option<u32>,
}

impl Policy for RoundRobin {
    fn kind(&self) -> PolicyKind {
        PolicyKind::RoundRobin
    }

    fn pick(&mut self, view: &View<'_>, _: &mut Pcg64Mcg) -> Option<Pick> {
        let next = match self.last {
            Some(last) => view.candidates.partition_point(|&slot| slot <= last),
            None => 0,
        };
        let slot = *view.candidates.get(next).or_else(|| view.candidates.first())?;
        self.last = Some(slot);
        Some(Pick { slot, score: 0.0 })
    }
}
