//! The fewest requests in flight of a few endpoints drawn at random: Envoy's
//! `LEAST_REQUEST` (two choices by default), linkerd, pingora.

use rand::RngExt;
use rand_pcg::Pcg64Mcg;

use super::least_request::score;
use super::{Knob, Knobs, Rival, View};

pub(super) const KNOBS: &[Knob] = &[
    Knob { name: "choice_count", default: 2.0, tries: &[2.0, 3.0, 5.0], what: "endpoints drawn" },
    Knob {
        name: "prefill_weight",
        default: 0.0,
        tries: &[0.0, 0.1, 0.3, 1.0],
        what: "requests that 1,000 prompt tokens still to be computed count as",
    },
    Knob {
        name: "context_weight",
        default: 0.0,
        tries: &[0.0, 0.01, 0.03, 0.1],
        what: "requests that 1,000 tokens of context count as",
    },
];

pub(super) fn make(knobs: &Knobs) -> PowerOfTwo {
    PowerOfTwo {
        choices: knobs.get(KNOBS, 0).clamp(1.0, 64.0) as usize,
        prefill: knobs.get(KNOBS, 1),
        context: knobs.get(KNOBS, 2),
    }
}

pub(super) struct PowerOfTwo {
    choices: usize,
    prefill: f64,
    context: f64,
}

/// Different candidates, drawn at random.
pub(super) fn draw(view: &View<'_>, count: usize, rng: &mut Pcg64Mcg) -> Vec<u32> {
    let mut drawn: Vec<u32> = Vec::with_capacity(count);
    let count = count.min(view.candidates.len());
    while drawn.len() < count {
        let endpoint = view.candidates[rng.random_range(0..view.candidates.len())];
        if !drawn.contains(&endpoint) {
            drawn.push(endpoint);
        }
    }
    drawn
}

impl Rival for PowerOfTwo {
    fn pick(&mut self, view: &View<'_>, rng: &mut Pcg64Mcg) -> Option<u32> {
        let drawn = draw(view, self.choices, rng);
        let score = |e: u32| score(view, e, self.prefill, self.context);
        drawn.into_iter().min_by(|a, b| score(*a).total_cmp(&score(*b)))
    }
}
