//! Consistent hashing with bounded loads (Mirrokni et al.; haproxy's
//! `hash-balance-factor`, Envoy's `hash_balance_factor`).
//!
//! The key is the request's affinity: its session, or the beginning of its
//! prompt. Around a ring from there, the first that is below a factor of its
//! share of all requests in flight.

use rand_pcg::Pcg64Mcg;

use super::{Knob, Knobs, Rival, View};
use crate::workload::link;

pub(super) const KNOBS: &[Knob] = &[Knob {
    name: "hash_balance_factor",
    default: 1.25,
    tries: &[1.05, 1.1, 1.25, 1.3, 1.5, 2.0],
    what: "most requests in flight over the mean",
}];

/// Places on the ring for each endpoint.
const PLACES: u64 = 100;

pub(super) fn make(knobs: &Knobs) -> BoundedHash {
    BoundedHash { factor: knobs.get(KNOBS, 0).max(1.0), ring: Vec::new() }
}

pub(super) struct BoundedHash {
    factor: f64,
    ring: Vec<(u64, u32)>,
}

impl Rival for BoundedHash {
    fn pick(&mut self, view: &View<'_>, _: &mut Pcg64Mcg) -> Option<u32> {
        if self.ring.is_empty() {
            for endpoint in 0..view.known.len() as u32 {
                let places = (0..PLACES).map(|place| (link(u64::from(endpoint), place), endpoint));
                self.ring.extend(places);
            }
            self.ring.sort_unstable();
        }
        let total: f64 = view.candidates.iter().map(|&e| view.in_flight(e)).sum();
        let limit = (self.factor * (total + 1.0) / view.candidates.len() as f64).ceil();
        let from = self.ring.partition_point(|(place, _)| *place < link(0x6b65, view.affinity));
        let around = self.ring[from..].iter().chain(&self.ring[..from]).map(|(_, endpoint)| *endpoint);
        let mut may = around.filter(|e| view.candidates.binary_search(e).is_ok());
        may.find(|&e| view.in_flight(e) + 1.0 <= limit).or_else(|| view.candidates.first().copied())
    }
}
