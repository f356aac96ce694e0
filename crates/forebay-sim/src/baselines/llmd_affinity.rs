//! llm-d's affinity filter: endpoints that hold most of the prompt are kept to
//! themselves, unless the best of them is slower than the best other one by
//! more than a slack; then the least expected time to the first token.

use rand::RngExt;
use rand_pcg::Pcg64Mcg;

use super::{Knob, Knobs, Rival, View, argmin};

pub(super) const KNOBS: &[Knob] = &[
    Knob {
        name: "affinity_threshold",
        default: 0.8,
        tries: &[0.5, 0.65, 0.8],
        what: "share of the prompt that makes an endpoint sticky",
    },
    Knob {
        name: "max_ttft_penalty_ms",
        default: 18_000.0,
        tries: &[500.0, 1_000.0, 2_000.0, 5_000.0, 18_000.0],
        what: "milliseconds by which the best sticky one may be slower",
    },
    Knob {
        name: "prefill_tokens_per_second",
        default: 0.0,
        tries: &[0.0],
        what: "throughput that tokens are turned into time by; 0: each endpoint's own, exactly",
    },
    Knob {
        name: "exploration_probability",
        default: 0.0,
        tries: &[0.0, 0.01],
        what: "chance that nobody is sticky",
    },
];

pub(super) fn make(knobs: &Knobs) -> LlmdAffinity {
    LlmdAffinity {
        threshold: knobs.get(KNOBS, 0),
        slack_ms: knobs.get(KNOBS, 1),
        throughput: knobs.get(KNOBS, 2),
        explore: knobs.get(KNOBS, 3).clamp(0.0, 1.0),
    }
}

pub(super) struct LlmdAffinity {
    threshold: f64,
    slack_ms: f64,
    throughput: f64,
    explore: f64,
}

impl LlmdAffinity {
    fn ttft_ms(&self, view: &View<'_>, endpoint: u32) -> f64 {
        let tokens = view.load(endpoint).prefill_tokens as f64 + f64::from(view.uncached(endpoint));
        if self.throughput > 0.0 {
            return tokens / self.throughput * 1e3;
        }
        tokens * view.known[endpoint as usize].profile.b
    }
}

impl Rival for LlmdAffinity {
    fn pick(&mut self, view: &View<'_>, rng: &mut Pcg64Mcg) -> Option<u32> {
        let explores = self.explore > 0.0 && rng.random::<f64>() < self.explore;
        let is_sticky = |e: u32| view.matched(e) >= self.threshold;
        let best = |sticky: bool| {
            let group = view.candidates.iter().copied().filter(|&e| is_sticky(e) == sticky);
            group.map(|e| self.ttft_ms(view, e)).fold(f64::INFINITY, f64::min)
        };
        let (held, other) = (best(true), best(false));
        let keeps = !explores && held.is_finite() && held - other <= self.slack_ms;
        let group = view.candidates.iter().copied().filter(|&e| !keeps || is_sticky(e));
        argmin(group, rng, |e| self.ttft_ms(view, e))
    }
}
