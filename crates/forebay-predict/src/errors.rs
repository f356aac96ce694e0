//! How wrong predictions were, for metrics.

use forebay_core::Time;
use serde::{Deserialize, Serialize};

/// Nanoseconds in one of the two windows that a summary covers.
const WINDOW_NS: u64 = 60_000_000_000;
/// Bins of the histogram of `ln(observed/predicted)`, and their width.
const BINS: usize = 64;
const WIDTH: f64 = 0.1;

/// Errors of the last one to two minutes: `ln(observed/predicted)`, so that
/// twice too long and twice too short weigh the same.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ErrorStats {
    window: u64,
    current: Window,
    previous: Window,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
struct Window {
    count: u32,
    sum: f64,
    sum_abs: f64,
    /// Bins of the absolute value; the last one takes all that is larger.
    bins: Vec<u32>,
}

/// What [`ErrorStats`] has to say.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ErrorSummary {
    /// Predictions compared.
    pub count: u32,
    /// Geometric mean of observed over predicted: above 1, predictions are too
    /// short.
    pub bias: f64,
    /// Mean error as a factor of at least 1, whichever way: 1.2 is a fifth off.
    pub mean: f64,
    /// Median error as a factor of at least 1, to a tenth or so.
    pub p50: f64,
    /// 90th percentile of the error as a factor of at least 1.
    pub p90: f64,
}

impl Default for ErrorStats {
    fn default() -> Self {
        Self::new()
    }
}

impl ErrorStats {
    /// Nothing compared yet.
    pub fn new() -> ErrorStats {
        ErrorStats { window: 0, current: Window::default(), previous: Window::default() }
    }

    /// Compares one prediction with what came. Ignored unless both are finite
    /// and above 0.
    pub fn observe(&mut self, predicted_ms: f64, observed_ms: f64, now: Time) {
        let usable = |x: f64| x.is_finite() && x > 0.0;
        if !(usable(predicted_ms) && usable(observed_ms)) {
            return;
        }
        self.turn(now);
        // Two finite numbers can have an infinite ratio; their logarithms are apart by less than 1,500.
        let error = observed_ms.ln() - predicted_ms.ln();
        let window = &mut self.current;
        window.count = window.count.saturating_add(1);
        window.sum += error;
        window.sum_abs += error.abs();
        if window.bins.is_empty() {
            window.bins = vec![0; BINS];
        }
        let bin = ((error.abs() / WIDTH) as usize).min(BINS - 1);
        window.bins[bin] = window.bins[bin].saturating_add(1);
    }

    /// The errors of this minute so far and of the one before; `None` when
    /// there were none.
    pub fn summary(&self, now: Time) -> Option<ErrorSummary> {
        let age = (now.as_nanos() / WINDOW_NS).saturating_sub(self.window);
        let windows: &[&Window] = match age {
            0 => &[&self.current, &self.previous],
            1 => &[&self.current],
            _ => &[],
        };
        let count = windows.iter().fold(0_u32, |n, w| n.saturating_add(w.count));
        if count == 0 {
            return None;
        }
        let mean_of = |of: fn(&Window) -> f64| windows.iter().map(|w| of(w)).sum::<f64>() / f64::from(count);
        Some(ErrorSummary {
            count,
            bias: mean_of(|w| w.sum).clamp(-LARGEST, LARGEST).exp(),
            mean: mean_of(|w| w.sum_abs).min(LARGEST).exp(),
            p50: quantile(windows, count, 0.5),
            p90: quantile(windows, count, 0.9),
        })
    }

    fn turn(&mut self, now: Time) {
        let window = now.as_nanos() / WINDOW_NS;
        if window > self.window {
            let old = std::mem::take(&mut self.current);
            self.previous = if window == self.window + 1 { old } else { Window::default() };
            self.window = window;
        }
    }
}

/// Logarithm of the largest factor that is reported.
const LARGEST: f64 = 20.0;

/// The quantile of the absolute errors, as a factor, interpolated in its bin.
fn quantile(windows: &[&Window], count: u32, q: f64) -> f64 {
    let rank = q * f64::from(count);
    let mut below = 0.0;
    for bin in 0..BINS {
        let here: f64 = windows.iter().filter_map(|w| w.bins.get(bin)).map(|n| f64::from(*n)).sum();
        if here > 0.0 && below + here >= rank {
            return ((bin as f64 + (rank - below) / here) * WIDTH).exp();
        }
        below += here;
    }
    (BINS as f64 * WIDTH).exp()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Lcg, at};

    #[test]
    fn the_summary_matches_the_errors_that_were_put_in() {
        let mut stats = ErrorStats::new();
        assert_eq!(stats.summary(at(0.0)), None);
        let mut rng = Lcg::new(3);
        for i in 0..10_000 {
            // Uniform in logarithms between 1 and e times too short.
            stats.observe(100.0, 100.0 * rng.unit().exp(), at(f64::from(i) / 1000.0));
        }
        let s = stats.summary(at(11.0)).unwrap();
        assert_eq!(s.count, 10_000);
        for (got, want) in [(s.bias, 0.5f64), (s.mean, 0.5), (s.p50, 0.5), (s.p90, 0.9)] {
            assert!((got.ln() - want).abs() < 0.02, "{s:?}");
        }
        stats.observe(100.0, 1.0, at(61.0));
        assert_eq!(stats.summary(at(61.0)).unwrap().count, 10_001);
        assert_eq!(stats.summary(at(125.0)).unwrap().count, 1);
        assert_eq!(stats.summary(at(185.0)), None);
        stats.observe(100.0, 200.0, at(185.0));
        let s = stats.summary(at(185.0)).unwrap();
        assert_eq!((s.count, (s.bias - 2.0).abs() < 1e-9), (1, true));
    }

    #[test]
    fn extremes_stay_finite_and_nonsense_is_ignored() {
        let mut stats = ErrorStats::new();
        for bad in [f64::NAN, f64::INFINITY, 0.0, -1.0] {
            stats.observe(bad, 1.0, at(1.0));
            stats.observe(1.0, bad, at(1.0));
        }
        assert_eq!(stats.summary(at(1.0)), None);
        stats.observe(f64::MIN_POSITIVE, f64::MAX, at(1.0));
        let s = stats.summary(at(1.0)).unwrap();
        assert!([s.bias, s.mean, s.p50, s.p90].iter().all(|x| x.is_finite() && *x >= 1.0), "{s:?}");
    }
}
