//! The least price in milliseconds, over every candidate.

use rand::RngExt;
use rand_pcg::Pcg64Mcg;
use serde::{Deserialize, Serialize};

use super::cost::{self, Block, Common, LANES, Weights};
use super::{Pick, Policy, View};
use crate::policy_kind::PolicyKind;

/// Weight of the latest pick in the mean backlog of the pool.
const BACKLOG_SMOOTHING: f32 = 0.05;
/// An endpoint's backlog counts a little more than its prefill, for the tax
/// that decoding puts on it.
const BACKLOG_TAX: f32 = 1.3;

/// What a predictive pick leaves behind for the next one and for its explanation.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Profiled {
    /// Mean backlog over the candidates, in milliseconds.
    backlog_ms: f32,
    /// The cheapest candidates of the last pick, best first.
    best: Vec<(f32, u32)>,
}

impl Profiled {
    /// The cheapest candidates of the last pick, best first.
    pub(crate) fn ranked(&self) -> &[(f32, u32)] {
        &self.best
    }

    /// Mean backlog of the candidates, in milliseconds.
    pub(crate) fn backlog_ms(&self) -> f32 {
        self.backlog_ms
    }

    /// Evaluates every candidate; O(candidates).
    pub(crate) fn pick(&mut self, view: &View<'_>, weights: &Weights, rng: &mut Pcg64Mcg) -> Option<Pick> {
        let common = common(view, weights, self.backlog_ms);
        let decay = view.endpoints.decay(view.now);
        self.best.clear();
        let mut backlog = 0.0;
        let mut least: Option<(f32, u32)> = None;
        let mut ties = 1u32;
        for slots in view.candidates.chunks(LANES) {
            let block = block_of(view, slots, decay);
            let priced = cost::price(&block, &common, view.learned.classes(), weights);
            for (lane, &slot) in slots.iter().enumerate() {
                let total = priced.total[lane];
                backlog += priced.backlog[lane] * BACKLOG_TAX;
                match least {
                    Some((best, _)) if total > best => {}
                    Some((best, _)) if total == best => {
                        // Reservoir sampling: the k-th tie replaces with chance 1/k.
                        ties += 1;
                        if rng.random_range(0..ties) == 0 {
                            least = Some((total, slot));
                        }
                    }
                    _ => {
                        ties = 1;
                        least = Some((total, slot));
                    }
                }
                self.rank(total, slot);
            }
        }
        let mean = backlog / view.candidates.len().max(1) as f32;
        if mean.is_finite() {
            self.backlog_ms += (mean - self.backlog_ms) * BACKLOG_SMOOTHING;
        }
        let (total, slot) = least?;
        self.put_first(total, slot);
        Some(Pick { slot, score: f64::from(total) })
    }

    /// Keeps the cheapest [`LANES`], best first.
    fn rank(&mut self, total: f32, slot: u32) {
        if self.best.len() == LANES {
            if self.best.last().is_some_and(|(worst, _)| total >= *worst) {
                return;
            }
            self.best.pop();
        }
        let at = self.best.partition_point(|(other, _)| *other <= total);
        self.best.insert(at, (total, slot));
    }

    /// The chosen one leads, also when it won a tie among many.
    fn put_first(&mut self, total: f32, slot: u32) {
        let at = self.best.iter().position(|(_, other)| *other == slot).unwrap_or(self.best.len() - 1);
        self.best.remove(at);
        self.best.insert(0, (total, slot));
    }
}

/// What is the same for every candidate.
pub(crate) fn common(view: &View<'_>, weights: &Weights, backlog_ms: f32) -> Common {
    let facts = view.facts;
    let (learned, without) = (view.learned, view.config.without);
    let limit = |ms: Option<f32>| ms.filter(|ms| *ms > 0.0).unwrap_or(f32::INFINITY);
    // Own arrivals stand for all: the others' are known by this one's share.
    // They go to all that the pool has, wherever this request may go.
    let rate = learned.arrivals_per_ms(view.now) / (view.share * view.eligible.len().max(1) as f32);
    let capacity = learned.capacity_ms();
    let load = (rate * capacity).min(0.95);
    let price = (rate * (backlog_ms + capacity) / (1.0 - load)).clamp(0.0, weights.max_price);
    Common {
        prompt: facts.prompt_tokens as f32,
        output: facts.output_tokens.max(1) as f32,
        usual_output: learned.usual_output(),
        price,
        follow: if without.crowding { 0.0 } else { learned.held_share() },
        usual_mean_inverse: learned.usual_mean_inverse(),
        gamma: if without.correction { 1.0 } else { learned.gamma() },
        fastest: learned.fastest(),
        ttft_limit: limit(facts.slo.ttft_ms),
        tpot_limit: limit(facts.slo.tpot_ms),
        value: crate::pool::value_of(facts, weights),
    }
}

/// Up to eight candidates side by side; unused lanes repeat the first one.
pub(crate) fn block_of(view: &View<'_>, slots: &[u32], decay: f64) -> Block {
    let mut block = Block::default();
    let Some(&first) = slots.first() else { return block };
    let block_tokens = view.facts.prefix.block_tokens;
    let classes = view.learned.classes().len();
    let without = view.config.without;
    for lane in 0..LANES {
        let slot = slots.get(lane).copied().unwrap_or(first);
        let row = view.endpoints.row(slot);
        block.held[lane] = view.held(slot) as f32;
        block.owed[lane] = row.all_owed_ms();
        block.requests[lane] = row.all_requests();
        block.streams[lane] = row.all_streams();
        block.usual[lane] = row.usual;
        block.context[lane] = row.all_context();
        block.pinned[lane] = if without.distinct { row.all_context() } else { row.pinned(block_tokens) };
        block.prefill_share[lane] = view.endpoints.prefill_share(slot, decay);
        block.fixed[lane] = row.network_ms + view.loading.get(slot as usize).copied().unwrap_or(0.0);
        block.extra[lane] = view.extra.get(slot as usize).copied().unwrap_or(0.0);
        block.step[lane] = row.step;
        block.per_stream[lane] = row.per_stream;
        block.per_context[lane] = row.per_context;
        block.per_token[lane] = row.per_token;
        block.per_pair[lane] = row.per_pair;
        block.budget[lane] = if without.tax { f32::INFINITY } else { row.budget };
        if view.endpoints.has_peers() {
            add_peers(&mut block, lane, view, slot, classes);
        }
        block.inverse_memory[lane] = if without.memory { 0.0 } else { row.inverse_memory };
        for (class, count) in block.classes.iter_mut().zip(&row.classes).take(classes) {
            class[lane] += *count as f32;
        }
    }
    block
}

/// Adds what other gateways have at an endpoint.
fn add_peers(block: &mut Block, lane: usize, view: &View<'_>, slot: u32, classes: usize) {
    let peer = view.endpoints.peer(slot);
    block.owed[lane] += peer.owed_us as f32 * 1e-3 * view.endpoints.row(slot).prefill_factor;
    block.requests[lane] += peer.requests as f32;
    block.streams[lane] += peer.streams as f32;
    block.context[lane] += peer.context as f32;
    let block_tokens = view.facts.prefix.block_tokens;
    block.pinned[lane] = match view.config.without.distinct {
        true => block.pinned[lane] + peer.context as f32,
        false => {
            let own = block.pinned[lane];
            let all = own + peer.blocks as f32 * block_tokens + peer.tail as f32;
            own.max(all * view.endpoints.distinct_share(slot, block_tokens, view.learned.usual_output()))
        }
    };
    for (class, count) in block.classes.iter_mut().zip(&peer.classes).take(classes) {
        class[lane] += *count as f32;
    }
}

/// `predictive` with the weights of the pool's profile.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Predictive {
    pub(crate) inner: Profiled,
}

impl Policy for Predictive {
    fn kind(&self) -> PolicyKind {
        PolicyKind::Predictive
    }

    fn pick(&mut self, view: &View<'_>, rng: &mut Pcg64Mcg) -> Option<Pick> {
        self.inner.pick(view, &view.config.weights(), rng)
    }

    fn ranked(&self) -> &[(f32, u32)] {
        self.inner.ranked()
    }

    fn backlog_ms(&self) -> f32 {
        self.inner.backlog_ms()
    }
}
