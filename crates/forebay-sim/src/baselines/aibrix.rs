//! AIBrix's prefix-cache routing, as its code has it.
//!
//! While running requests are apart by more than a number only the least loaded
//! are looked at. Of those the longest match comes first, the fewest running
//! among equals, and the first is taken that runs no more than the mean and so
//! many standard deviations; without one, the fewest running.

use rand_pcg::Pcg64Mcg;

use super::{Knob, Knobs, Rival, View, argmin};

pub(super) const KNOBS: &[Knob] = &[
    Knob {
        name: "running_imbalance",
        default: 8.0,
        tries: &[4.0, 8.0, 16.0, 32.0],
        what: "requests by which loads must be apart to be balanced",
    },
    Knob {
        name: "standard_deviations",
        default: 1.0,
        tries: &[0.5, 1.0, 2.0],
        what: "how far above the mean a holder may be loaded",
    },
    Knob {
        name: "min_match",
        default: 0.0,
        tries: &[0.0, 0.25, 0.5],
        what: "share of the prompt below which a match counts as none",
    },
];

pub(super) fn make(knobs: &Knobs) -> Aibrix {
    Aibrix { apart: knobs.get(KNOBS, 0), sigmas: knobs.get(KNOBS, 1), least: knobs.get(KNOBS, 2) }
}

pub(super) struct Aibrix {
    apart: f64,
    sigmas: f64,
    least: f64,
}

impl Rival for Aibrix {
    fn pick(&mut self, view: &View<'_>, rng: &mut Pcg64Mcg) -> Option<u32> {
        let (most, least) = view.spread();
        let is_apart = f64::from(most - least.min(most)) > self.apart;
        let may = |e: u32| !is_apart || view.load(e).in_flight == least;
        let count = view.candidates.len() as f64;
        let mean = view.candidates.iter().map(|&e| view.in_flight(e)).sum::<f64>() / count;
        let variance =
            view.candidates.iter().map(|&e| (view.in_flight(e) - mean).powi(2)).sum::<f64>() / count;
        let limit = mean + self.sigmas * variance.sqrt();
        let holds = |e: u32| view.held(e) > 0 && view.matched(e) >= self.least && view.in_flight(e) <= limit;
        let holders = view.candidates.iter().copied().filter(|&e| may(e) && holds(e));
        let best = holders.min_by(|a, b| {
            let by_match = view.held(*b).cmp(&view.held(*a));
            by_match.then(view.load(*a).in_flight.cmp(&view.load(*b).in_flight))
        });
        if best.is_some() {
            return best;
        }
        argmin(view.candidates.iter().copied().filter(|&e| may(e)), rng, |e| view.in_flight(e))
    }
}
