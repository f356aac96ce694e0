//! NVIDIA Dynamo's KV router.
//!
//! `cost = prefill_load_scale · max(0, prefill − credit) + decode +
//! active_request_weight · active`, in blocks of 16 tokens: prefill is what is
//! being prefilled there and this prompt, credit what it holds, decode the
//! distinct blocks of what runs there with this request. The least cost over
//! all workers; a temperature draws by softmax of costs over their range.

use std::collections::BTreeMap;

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
        holders: BTreeMap::new(),
        shared: Vec::new(),
    }
}

/// What is in flight at one worker.
#[derive(Clone, Copy, Default)]
struct Active {
    /// Distinct blocks.
    blocks: u32,
    /// Tokens in no whole block.
    tail: u64,
}

pub(super) struct Dynamo {
    credit: f64,
    prefill: f64,
    active: f64,
    temperature: f64,
    decay: f64,
    workers: Vec<Active>,
    /// By block: workers that have it in flight, and how often.
    holders: BTreeMap<u64, Vec<(u32, u32)>>,
    /// By worker: blocks of the request's chain in flight there; zero but
    /// during a pick.
    shared: Vec<u32>,
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
        let shared = f64::from(self.shared[endpoint as usize]) * per_block;
        let decode = f64::from(worker.blocks) * per_block + worker.tail as f64 / BLOCK + own - shared;
        self.prefill * prefill + decode + self.active * f64::from(load.in_flight)
    }
}

impl Dynamo {
    /// Counts what of a chain is in flight where, or takes the counts back.
    fn count_shared(&mut self, chain: &[u64], set: bool) {
        for hash in chain {
            // What is in flight of a chain is always its beginning.
            let Some(holders) = self.holders.get(hash) else { break };
            for (worker, _) in holders {
                let shared = &mut self.shared[*worker as usize];
                *shared = if set { *shared + 1 } else { 0 };
            }
        }
    }

    fn choose(&self, view: &View<'_>, rng: &mut Pcg64Mcg) -> Option<u32> {
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
}

impl Rival for Dynamo {
    fn pick(&mut self, view: &View<'_>, rng: &mut Pcg64Mcg) -> Option<u32> {
        self.workers.resize_with(view.known.len(), Active::default);
        self.shared.resize(view.known.len(), 0);
        self.count_shared(view.chain, true);
        let picked = self.choose(view, rng);
        self.count_shared(view.chain, false);
        picked
    }

    fn sent(&mut self, view: &View<'_>, endpoint: u32) {
        let worker = &mut self.workers[endpoint as usize];
        for hash in view.chain.iter() {
            let holders = self.holders.entry(*hash).or_default();
            match holders.iter_mut().find(|(holder, _)| *holder == endpoint) {
                Some((_, count)) => *count += 1,
                None => {
                    holders.push((endpoint, 1));
                    worker.blocks += 1;
                }
            }
        }
        let covered = view.chain.len() as u64 * u64::from(view.block_tokens);
        worker.tail += u64::from(view.prompt).saturating_sub(covered);
    }

    fn ended(&mut self, endpoint: u32, ended: &Ended<'_>) {
        let worker = &mut self.workers[endpoint as usize];
        for hash in ended.chain.iter() {
            let Some(holders) = self.holders.get_mut(hash) else { continue };
            let Some(at) = holders.iter().position(|(holder, _)| *holder == endpoint) else { continue };
            holders[at].1 -= 1;
            if holders[at].1 == 0 {
                holders.swap_remove(at);
                worker.blocks -= 1;
            }
            if holders.is_empty() {
                self.holders.remove(hash);
            }
        }
        worker.tail = worker.tail.saturating_sub(ended.tail);
    }
}
