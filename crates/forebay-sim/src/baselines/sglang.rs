//! SGLang's router, now SMG: `cache_aware`, with the defaults of its command line.
//!
//! While loads are apart by more than both thresholds the least loaded worker
//! is picked whatever it holds. Else, when workers tell what they hold, the one
//! with the longest match; load only breaks ties. Without such news: a worker
//! of the longest match if that is longer than a share of the prompt, or the
//! least loaded one.

use rand_pcg::Pcg64Mcg;

use super::{Knob, Knobs, Rival, View, argmin};

pub(super) const KNOBS: &[Knob] = &[
    Knob {
        name: "cache_threshold",
        default: 0.3,
        tries: &[0.1, 0.3, 0.5, 0.8],
        what: "share of the prompt that must match",
    },
    Knob {
        name: "balance_abs_threshold",
        default: 64.0,
        tries: &[4.0, 8.0, 16.0, 32.0, 64.0],
        what: "requests by which loads must be apart to be balanced",
    },
    Knob {
        name: "balance_rel_threshold",
        default: 1.5,
        tries: &[1.1, 1.5, 2.0],
        what: "factor by which they must be apart, too",
    },
];

pub(super) fn make(knobs: &Knobs) -> Sglang {
    Sglang {
        threshold: knobs.get(KNOBS, 0),
        apart: knobs.get(KNOBS, 1),
        factor: knobs.get(KNOBS, 2),
        processed: Vec::new(),
    }
}

pub(super) struct Sglang {
    threshold: f64,
    apart: f64,
    factor: f64,
    /// Requests sent so far, by worker: breaks ties of load.
    processed: Vec<u64>,
}

impl Sglang {
    fn least_loaded(&self, view: &View<'_>) -> Option<u32> {
        view.candidates
            .iter()
            .copied()
            .min_by_key(|&e| (view.load(e).in_flight, self.processed[e as usize], e))
    }
}

impl Rival for Sglang {
    fn pick(&mut self, view: &View<'_>, rng: &mut Pcg64Mcg) -> Option<u32> {
        self.processed.resize(view.known.len(), 0);
        let (most, least) = view.spread();
        let (most, least) = (f64::from(most), f64::from(least));
        if most - least > self.apart && most > least * self.factor {
            return self.least_loaded(view);
        }
        let longest = view.candidates.iter().map(|&e| view.held(e)).max().unwrap_or(0);
        let matched = f64::from(longest) / f64::from(view.prompt.max(1));
        let holds = |e: &u32| view.held(*e) == longest;
        if view.exact && longest > 0 {
            let holders = view.candidates.iter().copied().filter(holds);
            return holders.min_by_key(|&e| (view.load(e).in_flight, e));
        }
        if !view.exact && matched > self.threshold {
            // A node of its tree names one of its workers, whichever.
            return argmin(view.candidates.iter().copied().filter(holds), rng, |_| 0.0);
        }
        self.least_loaded(view)
    }

    fn sent(&mut self, _: &View<'_>, endpoint: u32) {
        self.processed[endpoint as usize] += 1;
    }
}
