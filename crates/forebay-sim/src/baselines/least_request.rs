//! The fewest requests in flight over all endpoints, per weight.
//!
//! Requests alone are the default everywhere; the two knobs count tokens
//! beside them, the strongest form that a plain gateway could be given.

use rand_pcg::Pcg64Mcg;

use super::{Knob, Knobs, Rival, View, argmin};

pub(super) const KNOBS: &[Knob] = &[
    Knob {
        name: "prefill_weight",
        default: 0.0,
        tries: &[0.0, 0.1, 0.2, 0.5, 1.0],
        what: "requests that 1,000 prompt tokens still to be computed count as",
    },
    Knob {
        name: "context_weight",
        default: 0.0,
        tries: &[0.0, 0.01, 0.03, 0.1],
        what: "requests that 1,000 tokens of context count as",
    },
];

pub(super) fn make(knobs: &Knobs) -> LeastRequest {
    LeastRequest { prefill: knobs.get(KNOBS, 0), context: knobs.get(KNOBS, 1) }
}

pub(super) struct LeastRequest {
    prefill: f64,
    context: f64,
}

/// Requests in flight with this one, and tokens, per weight.
pub(super) fn score(view: &View<'_>, endpoint: u32, prefill: f64, context: f64) -> f64 {
    let load = view.load(endpoint);
    let tokens = prefill * load.prefill_tokens as f64 + context * load.context as f64;
    (f64::from(load.in_flight) + 1.0 + tokens * 1e-3) / view.known[endpoint as usize].weight
}

impl Rival for LeastRequest {
    fn pick(&mut self, view: &View<'_>, rng: &mut Pcg64Mcg) -> Option<u32> {
        let (prefill, context) = (self.prefill, self.context);
        argmin(view.candidates.iter().copied(), rng, |e| score(view, e, prefill, context))
    }
}
