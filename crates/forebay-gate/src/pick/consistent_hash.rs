//! The endpoint that the request's affinity key hashes to, within a bound.

use rand_pcg::Pcg64Mcg;
use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::bounded::Bound;
use super::{Pick, Policy, View};
use crate::endpoints::Endpoints;
use crate::policy_kind::PolicyKind;

/// Weighted rendezvous hashing with bounded loads.
///
/// Each endpoint gets a draw `-ln(u)/weight` from the hash of key and address;
/// the least draw wins, so that shares follow the weights and an endpoint that
/// comes or goes moves only its own keys (Thaler and Ravishankar 1998; Schindelhauer
/// and Schomaker 2005). An endpoint at its bound, `factor` times its fair share
/// of the requests in flight, is passed over for the next in the key's own
/// order (Mirrokni, Thorup and Zadimoghaddam 2016). O(n), no state.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct ConsistentHash {
    /// Hash of each slot's address with the weight; refilled when the
    /// candidates change hands.
    names: Vec<u64>,
    known: Vec<forebay_core::EndpointId>,
}

impl ConsistentHash {
    fn name_hash(&mut self, slot: u32, endpoints: &Endpoints) -> u64 {
        let i = slot as usize;
        let id = endpoints.id(slot);
        if i >= self.names.len() {
            let unknown = forebay_core::EndpointId { slot: u32::MAX, generation: u32::MAX };
            self.names.resize(i + 1, 0);
            self.known.resize(i + 1, unknown);
        }
        if self.known[i] != id {
            self.known[i] = id;
            self.names[i] = endpoints.name_hash(slot);
        }
        self.names[i]
    }
}

impl Policy for ConsistentHash {
    fn kind(&self) -> PolicyKind {
        PolicyKind::ConsistentHash
    }

    fn pick(&mut self, view: &View<'_>, _: &mut Pcg64Mcg) -> Option<Pick> {
        let bound = Bound::new(view);
        let mut best: Option<Pick> = None;
        for &slot in view.candidates {
            if !bound.has_room(view, slot) {
                continue;
            }
            let hash =
                xxh3_64_with_seed(&view.facts.affinity.to_le_bytes(), self.name_hash(slot, view.endpoints));
            // 53 bits make a number in (0, 1].
            let u = ((hash >> 11) + 1) as f64 / (1u64 << 53) as f64;
            let score = -u.ln() / view.weight(slot);
            if best.is_none_or(|b| score < b.score) {
                best = Some(Pick { slot, score });
            }
        }
        // Rounding up leaves room somewhere whenever there is a candidate at all,
        // as the bounds add up to at least the requests in flight.
        best.or_else(|| view.candidates.first().map(|&slot| Pick { slot, score: f64::INFINITY }))
    }
}
