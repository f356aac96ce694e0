//! Any endpoint, with a chance in proportion to its weight.

use rand::RngExt;
use rand_pcg::Pcg64Mcg;
use serde::{Deserialize, Serialize};

use super::{Pick, Policy, View};
use crate::policy_kind::PolicyKind;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Random;

impl Policy for Random {
    fn kind(&self) -> PolicyKind {
        PolicyKind::Random
    }

    fn pick(&mut self, view: &View<'_>, rng: &mut Pcg64Mcg) -> Option<Pick> {
        let sum: f64 = view.candidates.iter().map(|&s| view.weight(s)).sum();
        let mut left = rng.random::<f64>() * sum;
        let mut slot = *view.candidates.last()?;
        for &candidate in view.candidates {
            left -= view.weight(candidate);
            if left < 0.0 {
                slot = candidate;
                break;
            }
        }
        Some(Pick { slot, score: 0.0 })
    }
}
