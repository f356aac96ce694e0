//! How long an engine's steps take: the formulas that everything is priced in.

use serde::{Deserialize, Serialize};

/// The step-time model of one class of endpoints, in milliseconds.
///
/// An engine with continuous batching computes, in one step, a chunk of the
/// prompts it is reading and one token of every stream that it decodes. With
/// `n_new` tokens computed, `B` streams decoding over `K` tokens of context:
///
/// `step = a + b·n_new + c·Σ chunk·(ctx + chunk/2) + d·K + e·B`
///
/// All functions return finite, non-negative numbers for finite, non-negative
/// arguments when the model is [`valid`](Self::valid).
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct StepModel {
    /// Milliseconds that every step costs.
    pub a: f64,
    /// Milliseconds for each token computed.
    pub b: f64,
    /// Milliseconds for each pair of a prefill token and a token it attends to.
    pub c: f64,
    /// Milliseconds for each token of context of a decoding stream.
    pub d: f64,
    /// Milliseconds for each decoding stream.
    pub e: f64,
    /// KV cache capacity in tokens.
    pub cap: f64,
    /// Most tokens that one step computes.
    pub budget: f64,
}

/// Prefill keeps at least this many tokens of a step however many streams
/// decode: otherwise the predicted wait would be without bound.
const MIN_CHUNK: f64 = 256.0;

/// The largest share of its time that an engine is taken to spend in prefill.
const MAX_PREFILL_SHARE: f64 = 0.85;

impl StepModel {
    /// True when every constant is finite, `b`, `cap` and `budget` are above
    /// zero and the others not below.
    pub fn valid(&self) -> bool {
        let all = [self.a, self.b, self.c, self.d, self.e, self.cap, self.budget];
        all.iter().all(|x| x.is_finite() && *x >= 0.0) && self.b > 0.0 && self.cap > 0.0 && self.budget > 0.0
    }

    /// Prefill of `u` uncached tokens after `h` cached ones, alone on the engine.
    ///
    /// `P = b·u + c·u·(h + u/2)`
    pub fn prefill_ms(&self, u: f64, h: f64) -> f64 {
        u * (self.b + self.c * (h + u / 2.0))
    }

    /// One decode step of `streams` streams over `context` tokens in all.
    ///
    /// `τ = a + B·(b + e) + d·K`
    pub fn step_ms(&self, streams: f64, context: f64) -> f64 {
        self.a + streams * (self.b + self.e) + self.d * context
    }

    /// How many times longer prefill takes because every chunk shares its step
    /// with the decoding streams; at least 1.
    ///
    /// `I = 1 + τ / (b·max(budget − B, 256))`
    ///
    /// `step_ms` is τ of this model, both unscaled or both scaled by the same
    /// speed; where prefill and decode have speeds of their own, pass
    /// `τ·decode / prefill`.
    pub fn interference(&self, streams: f64, step_ms: f64) -> f64 {
        1.0 + step_ms / (self.b * self.chunk(streams))
    }

    /// Tokens of a step that are left for prefill beside `streams` streams.
    pub fn chunk(&self, streams: f64) -> f64 {
        (self.budget - streams).max(MIN_CHUNK)
    }

    /// The wait until `needed` more tokens fit into the KV cache beside
    /// `pinned` distinct tokens in flight and what the `in_flight` requests
    /// will still generate, `output` tokens each.
    ///
    /// `M = max(0, pin + n·ô + x − cap)/cap · ô·τ`
    pub fn memory_wait_ms(&self, pinned: f64, in_flight: f64, output: f64, needed: f64, step_ms: f64) -> f64 {
        (pinned + in_flight * output + needed - self.cap).max(0.0) / self.cap * output * step_ms
    }

    /// Time per output token when the engine spends the share `prefill_share`
    /// (0 to .85) of its time in prefill.
    ///
    /// `G = (a + n·(b + e) + d·K) / (1 − φ)`
    pub fn tpot_ms(&self, streams: f64, context: f64, prefill_share: f64) -> f64 {
        self.step_ms(streams, context) / (1.0 - prefill_share.clamp(0.0, MAX_PREFILL_SHARE))
    }

    /// The same model with prefill `prefill` times and decode `decode` times
    /// as slow. `b` counts as prefill: it weighs little in a decode step.
    pub fn scaled(&self, prefill: f64, decode: f64) -> StepModel {
        StepModel {
            a: self.a * decode,
            b: self.b * prefill,
            c: self.c * prefill,
            d: self.d * decode,
            e: self.e * decode,
            ..*self
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(a: f64, b: f64) {
        assert!((a - b).abs() < 1e-6, "{a} is not {b}");
    }

    #[test]
    fn formulas_match_hand_computed_values() {
        let m = StepModel::H100_8B;
        assert!(m.valid());
        // .0235·2048 + .87e-6·2048·(1000 + 1024)
        close(m.prefill_ms(2048.0, 1000.0), 48.128 + 3.606282_24);
        close(m.prefill_ms(0.0, 5000.0), 0.0);
        // 8 + 10·.0435 + .049e-3·10000
        close(m.step_ms(10.0, 10_000.0), 8.925);
        close(m.interference(48.0, 9.4), 1.0 + 9.4 / (0.0235 * 2000.0));
        close(m.interference(5000.0, 9.4), 1.0 + 9.4 / (0.0235 * 256.0));
        close(m.memory_wait_ms(400_000.0, 10.0, 200.0, 1000.0, 20.0), 0.0);
        close(m.memory_wait_ms(427_000.0, 10.0, 200.0, 1000.0, 20.0), 3000.0 / 427_000.0 * 4000.0);
        close(m.tpot_ms(10.0, 10_000.0, 0.5), 17.85);
        close(m.tpot_ms(10.0, 10_000.0, 7.0), 8.925 / 0.15);
    }

    #[test]
    fn scaling_moves_prefill_and_decode_apart() {
        let m = StepModel::H100_8B.scaled(2.0, 3.0);
        close(m.prefill_ms(100.0, 50.0), 2.0 * StepModel::H100_8B.prefill_ms(100.0, 50.0));
        close(m.step_ms(0.0, 1000.0), 3.0 * StepModel::H100_8B.step_ms(0.0, 1000.0));
        assert!(!StepModel { b: 0.0, ..m }.valid());
        assert!(!StepModel { d: f64::NAN, ..m }.valid());
    }
}
