//! The better of two drawn at random by how late answers begin there.

use forebay_core::Time;
use rand::RngExt;
use rand_pcg::Pcg64Mcg;
use serde::{Deserialize, Serialize};

use super::by_slot::BySlot;
use super::cost::{self, LANES};
use super::predictive::{block_of, common};
use super::{Observed, Pick, Policy, View, argmin};
use crate::policy_kind::PolicyKind;

/// How fast an estimate forgets, in seconds (the default of tower and Linkerd).
const DECAY_S: f64 = 10.0;
/// Times to a first token differ by this much for no reason, in milliseconds:
/// scheduling, and the step that was under way.
const NOISE_MS: f64 = 10.0;
/// A request that failed is taken to have come so many times later than predicted.
const FAILED: f64 = 10.0;
/// The least and the largest ratio that is believed.
const BOUNDS: (f64, f64) = (0.05, 100.0);

/// Peak-EWMA of observed over predicted time to the first token.
///
/// The rule is that of tower and Finagle: a larger value is taken over at once,
/// a smaller one with the weight `1 − e^(−Δt/10 s)`. Two things differ because
/// the value is a ratio: whole answers are never measured, as their length
/// would be, and with no news it goes back to 1, as predicted, and not to 0.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
struct Lateness {
    ratio: f64,
    at: Time,
}

impl Default for Lateness {
    fn default() -> Lateness {
        Lateness { ratio: 1.0, at: Time::ZERO }
    }
}

impl Lateness {
    fn keep(&self, now: Time) -> f64 {
        (-now.since(self.at).as_secs_f64() / DECAY_S).exp()
    }

    fn now(&self, now: Time) -> f64 {
        1.0 + (self.ratio - 1.0) * self.keep(now)
    }

    fn observe(&mut self, ratio: f64, now: Time) {
        if !ratio.is_finite() {
            return;
        }
        let ratio = ratio.clamp(BOUNDS.0, BOUNDS.1);
        let keep = self.keep(now);
        self.ratio = if ratio > self.now(now) { ratio } else { self.ratio * keep + ratio * (1.0 - keep) };
        self.at = self.at.max(now);
    }
}

/// Of two candidates drawn at random the one with less
///
/// `lateness · (T̂ + τ) + c`
///
/// where `T̂` is the predicted time to this request's first token there, with
/// the wait behind what is owed and without what is held (see `cost`), and `τ`
/// one decode step, which the first token takes at least; `c` is the operator's
/// own cost. Two draws and not the
/// best of all: a peak is old news, and everyone would run from it at once. One
/// that ramps up is no candidate beyond its share; to price it up as well would
/// leave it with nothing, as latency hardly grows with load until it is full.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct LeastLatency {
    slots: BySlot<Lateness>,
}

impl Policy for LeastLatency {
    fn kind(&self) -> PolicyKind {
        PolicyKind::LeastLatency
    }

    fn pick(&mut self, view: &View<'_>, rng: &mut Pcg64Mcg) -> Option<Pick> {
        let n = view.candidates.len();
        let drawn: &[u32] = match n {
            0 => return None,
            1 => &[view.candidates[0]],
            _ => {
                let first = rng.random_range(0..n);
                // One of the others, each with the same chance.
                let second = (first + rng.random_range(1..n)) % n;
                &[view.candidates[first], view.candidates[second]]
            }
        };
        let weights = view.config.weights();
        let block = block_of(view, drawn, view.endpoints.decay(view.now));
        let priced = cost::price(&block, &common(view, &weights, 0.0), view.learned.classes(), &weights);
        let mut scores = [0.0; LANES];
        for (lane, &slot) in drawn.iter().enumerate() {
            let step = block.step[lane]
                + block.per_stream[lane] * block.streams[lane]
                + block.per_context[lane] * block.context[lane];
            let lateness = self.slots.at(slot, view.endpoints).now(view.now);
            // The operator's own cost stays what it is, however late answers are.
            scores[lane] = lateness * f64::from(priced.ttft[lane] + step) + f64::from(block.extra[lane]);
        }
        let mut lanes = scores.into_iter();
        argmin(drawn, rng, |_| lanes.next().unwrap_or(f64::INFINITY))
    }

    fn sent(&mut self, view: &View<'_>, slot: u32) {
        self.slots.at(slot, view.endpoints);
    }

    fn observed(&mut self, slot: u32, now: Time, observed: &Observed) {
        let Some(lateness) = self.slots.last(slot) else { return };
        if observed.failed {
            lateness.observe(FAILED, now);
        } else if let Some(ttft) = observed.ttft {
            let predicted = f64::from(observed.predicted_ttft_ms).max(0.0) + NOISE_MS;
            lateness.observe((ttft.as_secs_f64() * 1e3 + NOISE_MS) / predicted, now);
        }
    }
}

#[cfg(test)]
#[path = "least_latency_tests.rs"]
mod tests;
