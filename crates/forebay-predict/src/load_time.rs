//! How long loading takes, from what it delays.

use serde::{Deserialize, Serialize};

/// Milliseconds taken for it while nothing was measured.
const START_MS: f64 = 1_000.0;
/// Samples that the start counts as.
const START_WORTH: f64 = 2.0;
/// Least weight of a sample: about the last ten count.
const LEAST_GAIN: f64 = 0.1;
/// A sample counts for at most this many times what is believed: what else
/// delayed that request has nothing to do with loading.
const MOST: f64 = 4.0;
/// The least and the most that is believed, in milliseconds.
const BOUNDS_MS: (f64, f64) = (10.0, 60_000.0);

/// The time that an engine takes to load what a request needs and what is not
/// there yet (a LoRA adapter): a running mean of what such requests took to
/// their first token beyond the prediction without it.
///
/// The mean and not the median: a request that turns out to need no loading
/// belongs to what one has to expect.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct LoadTime {
    mean_ms: f64,
    seen: f64,
}

impl Default for LoadTime {
    fn default() -> Self {
        Self::new()
    }
}

impl LoadTime {
    /// A second, until something is measured.
    pub fn new() -> LoadTime {
        LoadTime { mean_ms: START_MS, seen: START_WORTH }
    }

    /// A first token that had to wait for loading came so many milliseconds
    /// later than predicted without it. One below 0 counts as none; ignored
    /// unless finite.
    pub fn observe(&mut self, excess_ms: f64) {
        if !excess_ms.is_finite() {
            return;
        }
        let gain = (1.0 / (self.seen + 1.0)).max(LEAST_GAIN);
        self.seen = (self.seen + 1.0).min(1.0 / LEAST_GAIN);
        self.mean_ms += gain * (excess_ms.clamp(0.0, MOST * self.mean_ms) - self.mean_ms);
        self.mean_ms = self.mean_ms.clamp(BOUNDS_MS.0, BOUNDS_MS.1);
    }

    /// What to expect, in milliseconds: 10 to 60,000.
    pub fn ms(&self) -> f64 {
        self.mean_ms
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Lcg;

    #[test]
    fn it_finds_short_and_long_loads() {
        for truth in [20.0, 300.0, 3_000.0, 30_000.0] {
            let (mut load, mut rng) = (LoadTime::new(), Lcg::new(1));
            assert_eq!(load.ms(), 1_000.0);
            for _ in 0..60 {
                load.observe(truth * rng.noise(0.2));
            }
            assert!((0.75..1.35).contains(&(load.ms() / truth)), "{truth}: {}", load.ms());
        }
    }

    #[test]
    fn one_that_waited_for_something_else_moves_it_little() {
        let mut load = LoadTime::new();
        for _ in 0..20 {
            load.observe(500.0);
        }
        let before = load.ms();
        load.observe(120_000.0);
        assert!(load.ms() < 1.4 * before, "{before} {}", load.ms());
    }

    #[test]
    fn nonsense_is_ignored_and_everything_is_bounded() {
        let mut load = LoadTime::new();
        for bad in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
            load.observe(bad);
        }
        assert_eq!(load, LoadTime::new());
        for _ in 0..200 {
            load.observe(-1e9);
        }
        assert_eq!(load.ms(), 10.0);
        for _ in 0..200 {
            load.observe(1e9);
        }
        assert_eq!(load.ms(), 60_000.0);
    }
}
