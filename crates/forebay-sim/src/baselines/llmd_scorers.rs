//! llm-d's (and the Gateway API inference extension's) weighted scorers: each
//! gives every endpoint 0 to 1, the weighted sum decides, ties at random.
//!
//! Queue and KV use are those of the last scrape; nothing is added for what was
//! sent since.

use rand_pcg::Pcg64Mcg;

use super::{Knob, Knobs, Rival, View, argmin};

pub(super) const KNOBS: &[Knob] = &[
    Knob {
        name: "prefix_cache_scorer",
        default: 2.0,
        tries: &[1.0, 2.0, 3.0, 5.0],
        what: "weight of the share of the prompt that is held",
    },
    Knob {
        name: "kv_cache_utilization_scorer",
        default: 1.0,
        tries: &[0.0, 1.0, 2.0],
        what: "weight of the free share of the KV memory",
    },
    Knob {
        name: "queue_scorer",
        default: 1.0,
        tries: &[1.0, 2.0, 4.0],
        what: "weight of the place between the longest and the shortest queue",
    },
    Knob {
        name: "load_aware_scorer",
        default: 0.0,
        tries: &[0.0, 1.0, 2.0],
        what: "weight of the room in the queue, of 128",
    },
    Knob {
        name: "token_load_scorer",
        default: 0.0,
        tries: &[0.0, 1.0, 4.0],
        what: "weight of the room for tokens in flight, of 4,194,304",
    },
];

pub(super) fn make(knobs: &Knobs) -> LlmdScorers {
    let mut weights = [0.0; 5];
    for (at, weight) in weights.iter_mut().enumerate() {
        *weight = knobs.get(KNOBS, at);
    }
    LlmdScorers { weights }
}

/// Requests in a queue that load-aware takes for full.
const FULL_QUEUE: f64 = 128.0;
/// Tokens in flight that the token-load scorer takes for full.
const FULL_TOKENS: f64 = 4_194_304.0;

pub(super) struct LlmdScorers {
    weights: [f64; 5],
}

impl Rival for LlmdScorers {
    fn pick(&mut self, view: &View<'_>, rng: &mut Pcg64Mcg) -> Option<u32> {
        let waiting = |e: u32| {
            let report = view.known[e as usize].report;
            f64::from(report.and_then(|report| report.waiting).unwrap_or(0))
        };
        let (mut most, mut least) = (0.0f64, f64::MAX);
        for &endpoint in view.candidates {
            most = most.max(waiting(endpoint));
            least = least.min(waiting(endpoint));
        }
        let [prefix, kv, queue, load_aware, tokens] = self.weights;
        argmin(view.candidates.iter().copied(), rng, |e| {
            let usage = view.known[e as usize].report.and_then(|report| report.kv_usage).unwrap_or(0.0);
            let place = if most > least { (most - waiting(e)) / (most - least) } else { 1.0 };
            let in_flight = view.load(e).context as f64;
            -(prefix * view.matched(e)
                + kv * (1.0 - f64::from(usage))
                + queue * place
                + load_aware * 0.5 * (1.0 - waiting(e) / FULL_QUEUE)
                + tokens * (1.0 - (in_flight / FULL_TOKENS).min(1.0)))
        })
    }
}
