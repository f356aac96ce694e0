//! NVIDIA Dynamo's KV router.
//!
//! `cost = prefill_load_scale · max(0, prefill − credit) + decode +
//! active_request_weight · active`, in blocks of 16 tokens: prefill is what is
//! being prefilled there and this prompt, credit what it holds, decode the
//! distinct blocks of what runs there with this request. The least cost over
//! all workers; a temperature draws by softmax of costs over their range.

use std::collections::BTreeMap;
use std::sync::Arc;

use rand::RngExt;
use rand_pcg::Pcg64Mcg;

use super::{Ended, Knob, Knobs, Rival, View, argmin};

pub(super) const KNOBS: &[Knob] = &[
    Knob {
        name: "overlap_score_credit",
        default: 1.0,
        tries: &[0.5, 1.0, 2.0, 4.0],
        what: "what a held block saves",
    },
    Knob {
        name: "prefill_load_scale",
        default: 1.0,
        tries: &[0.5, 1.0, 2.0, 4.0],
        what: "what a block to prefill costs beside a block in decode",
    },
    Knob {
        name: "decode_active_request_weight",
        default: 0.0,
        tries: &[0.0, 1.0, 10.0],
        what: "blocks that a request in flight counts as",
    },
    Knob {
        name: "router_temperature",
        default: 0.0,
        tries: &[0.0, 0.1, 0.5],
        what: "0 picks the least cost, more spreads",
    },
    Knob {
        name: "overlap_score_credit_decay",
        default: 0.0,
        tries: &[0.0, 0.5],
        what: "how much less held blocks save where more than the least is being prefilled",
    },
];

/// Tokens in one of its blocks.
const BLOCK: f64 = 16.0;

pub(super) fn make(knobs: &Knobs) -> Dynamo {
    Dynamo {
        credit: knobs.get(KNOBS, 0),
        prefill: knobs.get(KNOBS, 1),
        active: knobs.get(KNOBS, 2),
        temperature: knobs.get(KNOBS, 3).max(0.0),
        decay: knobs.get(KNOBS, 4).max(0.0),
        workers: Vec::new(),
    }
}

/// Distinct blocks in flight at one worker.
#[derive(Default)]
struct Active {
    blocks: BTreeMap<u64, u32>,
    /// Tokens in no whole block.
    tail: u64,
}

impl Active {
    /// Blocks of a chain that are in flight already: always its beginning.
    fn shared(&self, chain: &[u64]) -> usize {
        chain.iter().take_while(|hash| self.blocks.contains_key(hash)).count()
    }
}

pub(super) struct Dynamo {
    credit: f64,
    prefill: f64,
    active: f64,
    temperature: f64,
    decay: f64,
    workers: Vec<Active>,
}

impl Dynamo {
    fn cost(&self, view: &View<'_>, endpoint: u32, least_prefill: u64) -> f64 {
        let load = view.load(endpoint);
        let own = f64::from(view.prompt) / BLOCK;
        let excess = (load.prefill_tokens - least_prefill) as f64 / BLOCK;
        let decay = 1.0 / (1.0 + self.decay * excess / own.max(1.0));
        let credit = self.credit * decay * f64::from(view.held(endpoint)) / BLOCK;
        let prefill = (load.prefill_tokens as f64 / BLOCK + own - credit).max(0.0);
        let worker = &self.workers[endpoint as usize];
        let per_block = f64::from(view.block_tokens) / BLOCK;
        let shared = worker.shared(view.chain) as f64 * per_block;
        let decode = worker.blocks.len() as f64 * per_block + worker.tail as f64 / BLOCK + own - shared;
        self.prefill * prefill + decode + self.active * f64::from(load.in_flight)
    }
}

impl Rival for Dynamo {
    fn pick(&mut self, view: &View<'_>, rng: &mut Pcg64Mcg) -> Option<u32> {
        self.workers.resize_with(view.known.len(), Active::default);
        let least = view.candidates.iter().map(|&e| view.load(e).prefill_tokens).min().unwrap_or(0);
        if self.temperature <= 0.0 {
            return argmin(view.candidates.iter().copied(), rng, |e| self.cost(view, e, least));
        }
        let costs: Vec<f64> = view.candidates.iter().map(|&e| self.cost(view, e, least)).collect();
        let (low, high) = costs.iter().fold((f64::MAX, f64::MIN), |(l, h), c| (l.min(*c), h.max(*c)));
        let range = (high - low).max(1e-9);
        let weights: Vec<f64> =
            costs.iter().map(|cost| (-(cost - low) / range / self.temperature).exp()).collect();
        let mut x = rng.random::<f64>() * weights.iter().sum::<f64>();
        for (&endpoint, weight) in view.candidates.iter().zip(&weights) {
            x -= weight;
            if x <= 0.0 {
                return Some(endpoint);
            }
        }
        view.candidates.last().copied()
    }

    fn sent(&mut self, view: &View<'_>, endpoint: u32) {
        let worker = &mut self.workers[endpoint as usize];
        for hash in view.chain.iter() {
            *worker.blocks.entry(*hash).or_default() += 1;
        }
        let covered = view.chain.len() as u64 * u64::from(view.block_tokens);
        worker.tail += u64::from(view.prompt).saturating_sub(covered);
    }

    fn ended(&mut self, endpoint: u32, ended: &Ended<'_>) {
        let chain: &Arc<[u64]> = ended.chain;
        let worker = &mut self.workers[endpoint as usize];
        for hash in chain.iter() {
            if let Some(count) = worker.blocks.get_mut(hash) {
                *count -= 1;
                if *count == 0 {
                    worker.blocks.remove(hash);
                }
            }
        }
        worker.tail = worker.tail.saturating_sub(ended.tail);
    }
}
