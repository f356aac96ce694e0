//! Mooncake's Conductor (FAST'25, algorithm 1) without transfers of KV blocks:
//! the instance with the least queueing and prefill time, by step constants
//! that it knows exactly.

use rand_pcg::Pcg64Mcg;

use super::{Knob, Knobs, Rival, View, argmin};

pub(super) const KNOBS: &[Knob] = &[
    Knob {
        name: "queue_weight",
        default: 1.0,
        tries: &[0.5, 1.0, 2.0],
        what: "what a millisecond in the queue counts for",
    },
    Knob {
        name: "tie_tolerance",
        default: 0.0,
        tries: &[0.0, 0.05, 0.1, 0.2],
        what: "share above the least time within which load decides",
    },
    Knob {
        name: "decode_weight",
        default: 0.0,
        tries: &[0.0, 0.5, 1.0],
        what: "what a millisecond of the decode step counts for, beside",
    },
];

pub(super) fn make(knobs: &Knobs) -> Mooncake {
    Mooncake { queue: knobs.get(KNOBS, 0), tie: knobs.get(KNOBS, 1).max(0.0), decode: knobs.get(KNOBS, 2) }
}

pub(super) struct Mooncake {
    queue: f64,
    tie: f64,
    decode: f64,
}

impl Mooncake {
    fn ttft_ms(&self, view: &View<'_>, endpoint: u32) -> f64 {
        let (load, known) = (view.load(endpoint), &view.known[endpoint as usize]);
        let own = known.prefill_ms(view.uncached(endpoint), view.held(endpoint));
        self.queue * load.prefill_ms + own + self.decode * known.step_ms(load)
    }
}

impl Rival for Mooncake {
    fn pick(&mut self, view: &View<'_>, rng: &mut Pcg64Mcg) -> Option<u32> {
        let times: Vec<f64> = view.candidates.iter().map(|&e| self.ttft_ms(view, e)).collect();
        let least = times.iter().copied().fold(f64::INFINITY, f64::min);
        let limit = least * (1.0 + self.tie);
        let near = view.candidates.iter().zip(&times).filter(|(_, ms)| **ms <= limit).map(|(e, _)| *e);
        argmin(near, rng, |e| if self.tie > 0.0 { view.in_flight(e) } else { 0.0 })
    }
}
