//! γ: how the pool's time per output token compares with what was predicted.

use serde::{Deserialize, Serialize};

/// Share of the past that is kept at each observation.
const KEEP: f64 = 0.999;
/// Milliseconds of agreement that it starts with.
const START_MS: f64 = 2000.0;
/// The correction's range.
const RANGE: (f64, f64) = (0.25, 4.0);
/// An observation counts as at most this many times its prediction, or as one
/// part in that many: one stalled stream must not move the pool.
const MOST: f64 = 8.0;

/// The pool-wide correction of predicted TPOT, `γ = Σ observed / Σ predicted`
/// over about the last thousand answers; 1 until there is evidence.
///
/// It repairs what all endpoints have in common: wrong decode constants, a
/// wrong idea of the context. Differences between endpoints are
/// [`Speeds`](crate::Speeds)' work.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct TpotCorrection {
    observed_ms: f64,
    predicted_ms: f64,
}

impl Default for TpotCorrection {
    fn default() -> Self {
        Self::new()
    }
}

impl TpotCorrection {
    /// No evidence: γ = 1.
    pub fn new() -> TpotCorrection {
        TpotCorrection { observed_ms: START_MS, predicted_ms: START_MS }
    }

    /// Counts a finished answer of at least 8 tokens: its mean time per token
    /// after the first, and what was predicted at dispatch with γ = 1. Values
    /// that are not finite and positive are ignored.
    pub fn observe(&mut self, observed_ms: f64, predicted_ms: f64) {
        let usable = |x: f64| x.is_finite() && x > 0.0 && x < 1e9;
        if usable(observed_ms) && usable(predicted_ms) {
            self.observed_ms =
                KEEP * self.observed_ms + observed_ms.clamp(predicted_ms / MOST, predicted_ms * MOST);
            self.predicted_ms = KEEP * self.predicted_ms + predicted_ms;
        }
    }

    /// γ, between .25 and 4.
    pub fn value(&self) -> f64 {
        (self.observed_ms / self.predicted_ms).clamp(RANGE.0, RANGE.1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_finds_a_common_error_and_forgets_it_again() {
        let mut gamma = TpotCorrection::new();
        assert_eq!(gamma.value(), 1.0);
        for _ in 0..1000 {
            gamma.observe(30.0, 20.0);
        }
        assert!((gamma.value() - 1.5).abs() < 0.05, "{}", gamma.value());
        for _ in 0..6000 {
            gamma.observe(20.0, 20.0);
        }
        assert!((gamma.value() - 1.0).abs() < 0.01, "{}", gamma.value());
    }

    #[test]
    fn one_stall_hardly_moves_it_and_nonsense_not_at_all() {
        let mut gamma = TpotCorrection::new();
        gamma.observe(60_000.0, 20.0);
        assert!(gamma.value() < 1.1);
        let before = gamma;
        for bad in [f64::NAN, f64::INFINITY, 0.0, -1.0] {
            gamma.observe(bad, 20.0);
            gamma.observe(20.0, bad);
        }
        assert_eq!(gamma, before);
        for _ in 0..5000 {
            gamma.observe(1e8, 1.0);
        }
        assert_eq!(gamma.value(), 4.0);
    }
}
