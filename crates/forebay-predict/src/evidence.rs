//! A robust running mean of log ratios: how much slower than predicted.

use forebay_core::Time;
use serde::{Deserialize, Serialize};

use crate::decay::seconds_since;

/// Weights fade with this time constant in seconds when nothing comes in.
const FADE_S: f64 = 60.0;
/// Full samples' worth that a mean remembers at most: forgetting by amount.
const MOST: f64 = 30.0;
/// Spread (mean absolute deviation of a full sample's log ratio): assumed at
/// first, and its bounds.
const SPREAD: (f64, f64, f64) = (0.2, 0.04, 0.5);
/// Share by which a sample moves the spread.
const SPREAD_GAIN: f64 = 0.05;
/// A residual beyond this many spreads is surprising and counts only that far.
const SURPRISE: f64 = 1.75;
/// Mean of the last few residuals, in spreads, that means a change: three of
/// its standard deviations.
const CHANGE: f64 = 1.25;
/// Share by which a sample moves that mean.
const CHANGE_GAIN: f64 = 0.25;
/// After a change the past counts as much as this many samples.
const AFTER_CHANGE: f64 = 3.0;
/// Log ratios beyond this say nothing more (e¹⁰ ≈ 22,000 times).
const LARGEST: f64 = 10.0;

/// Mean of log ratios with Huber clipping, forgetting and change detection.
///
/// A sample moves the mean by its residual, clipped at 1.75 spreads, times
/// `w / Σw`. The clip doubles once when the next sample surprises on the same
/// side too, and goes on doubling once the surprises span `span` seconds. When
/// the last few residuals lean to one side for as long, the past is dropped.
/// So one outlier moves little, a stall that delays a dozen requests together
/// not much more, and a real change is followed within a few samples.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Evidence {
    mean: f64,
    /// What the mean weighs against the next sample; cut when things change.
    weight: f64,
    /// Samples' worth seen of late; not cut.
    known: f64,
    spread: f64,
    streak: i32,
    streak_ns: u64,
    /// Mean of the last few residuals, in spreads, and since when it leans.
    lean: f64,
    lean_ns: u64,
    last_ns: u64,
}

impl Evidence {
    pub(crate) fn new(mean: f64, weight: f64) -> Evidence {
        Evidence {
            mean,
            weight,
            known: weight,
            spread: SPREAD.0,
            streak: 0,
            streak_ns: 0,
            lean: 0.0,
            lean_ns: 0,
            last_ns: 0,
        }
    }

    /// Counts a log ratio of weight `w` (0 to 1, exclusive 0). The weight of
    /// what is known never falls below `floor`.
    pub(crate) fn add(&mut self, log_ratio: f64, w: f64, floor: f64, span: f64, now: Time) {
        if !(log_ratio.is_finite() && w > 1e-6 && w <= 1.0) {
            return;
        }
        self.known = (self.known_at(now).max(floor) + w).min(MOST);
        self.weight = self.weight_at(now).max(floor);
        self.last_ns = self.last_ns.max(now.as_nanos());
        let residual = log_ratio.clamp(-LARGEST, LARGEST) - self.mean;
        // A sample of weight w is taken to scatter 1/√w times as much.
        let root = w.sqrt();
        let limit = SURPRISE * self.spread / root;
        let clip = limit * self.surprise(residual, limit, span, now);
        if self.leans(residual / limit, now) && seconds_since(now, self.lean_ns) >= span {
            self.weight = self.weight.min(AFTER_CHANGE * w);
        }
        self.weight = (self.weight + w).min(MOST);
        self.mean += residual.clamp(-clip, clip) * w / self.weight;
        if self.streak.abs() < 2 {
            // Surprises on one side in a row are a shift, not scatter.
            let seen = (residual.abs() * root).min(3.0 * self.spread);
            let spread = self.spread + SPREAD_GAIN * (seen - self.spread);
            self.spread = spread.clamp(SPREAD.1, SPREAD.2);
        }
    }

    /// Keeps the mean of the last residuals (given in clips); true when it
    /// leans far, and this one with it.
    fn leans(&mut self, residual: f64, now: Time) -> bool {
        let residual = SURPRISE * residual.clamp(-1.0, 1.0);
        let before = self.lean;
        self.lean += CHANGE_GAIN * (residual - self.lean);
        if self.lean.abs() < CHANGE / 3.0 || before.abs() < CHANGE / 3.0 || self.lean * before < 0.0 {
            self.lean_ns = now.as_nanos();
        }
        self.lean.abs() >= CHANGE && self.lean * residual > 0.0
    }

    /// Keeps the streak, and says by how much the clip widens for it.
    fn surprise(&mut self, residual: f64, limit: f64, span: f64, now: Time) -> f64 {
        if residual.abs() <= limit {
            self.streak = 0;
            return 1.0;
        }
        let side = if residual > 0.0 { 1 } else { -1 };
        if self.streak * side <= 0 {
            (self.streak, self.streak_ns) = (side, now.as_nanos());
            return 1.0;
        }
        self.streak = (self.streak + side).clamp(-16, 16);
        let doublings = self.streak.abs() - 1;
        let lasting = seconds_since(now, self.streak_ns) >= span;
        f64::from(1_u32 << if lasting { doublings } else { doublings.min(1) })
    }

    /// True until the first sample.
    pub(crate) fn is_new(&self) -> bool {
        self.known == 0.0
    }

    /// The mean log ratio.
    pub(crate) fn mean(&self) -> f64 {
        self.mean
    }

    /// How many full samples were seen of late, at `now`.
    pub(crate) fn known_at(&self, now: Time) -> f64 {
        self.known * self.fade(now)
    }

    fn weight_at(&self, now: Time) -> f64 {
        self.weight * self.fade(now)
    }

    fn fade(&self, now: Time) -> f64 {
        (-seconds_since(now, self.last_ns) / FADE_S).exp()
    }

    /// How many full samples were seen of late, and about the standard error
    /// of the mean, at `now`.
    pub(crate) fn standing(&self, now: Time) -> (f64, f64) {
        let fade = self.fade(now);
        // A normal deviate's deviation is 1.25 times its mean absolute one.
        (self.known * fade, 1.25 * self.spread / (self.weight * fade).max(0.01).sqrt())
    }

    /// Takes over another mean when that is nearer to a sample.
    pub(crate) fn anchor(&mut self, mean: f64, sample: f64) {
        if (sample - mean).abs() < (sample - self.mean).abs() {
            self.mean = mean;
        }
    }

    /// Moves the mean: what it is relative to was changed by `log_shift`.
    pub(crate) fn shift(&mut self, log_shift: f64) {
        self.mean = (self.mean + log_shift).clamp(-LARGEST, LARGEST);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Lcg, at};

    fn feed(e: &mut Evidence, log_ratio: f64, t: f64) {
        e.add(log_ratio, 1.0, 0.0, 2.0, at(t));
    }

    #[test]
    fn one_outlier_of_ten_times_moves_it_less_than_a_tenth() {
        for known in [1, 2, 3, 5, 30] {
            let mut rng = Lcg::new(known);
            let mut e = Evidence::new(0.0, 3.0);
            for i in 0..known {
                feed(&mut e, 0.1 * rng.normal(), i as f64);
            }
            let before = e.mean();
            feed(&mut e, before + 10f64.ln(), known as f64);
            assert!((e.mean() - before).abs() < 1.1f64.ln(), "{known}: {}", e.mean() - before);
        }
    }

    #[test]
    fn a_stall_is_ridden_out_and_a_lasting_change_followed() {
        let mut steady = Evidence::new(0.0, 0.0);
        let mut rng = Lcg::new(7);
        for i in 0..100 {
            feed(&mut steady, 0.1 * rng.normal(), f64::from(i) / 3.0);
        }
        // Eight requests that waited behind one stall of a second.
        let mut stalled = steady;
        for i in 0..8 {
            feed(&mut stalled, 3.0, 34.0 + f64::from(i) / 8.0);
        }
        assert!(stalled.mean() < 0.15, "{}", stalled.mean());
        // Half the speed from now on.
        let mut slowed = steady;
        for i in 0..16 {
            feed(&mut slowed, 2f64.ln() + 0.1 * rng.normal(), 34.0 + f64::from(i) / 3.0);
        }
        assert!(slowed.mean() > 1.8f64.ln(), "{}", slowed.mean());
    }

    #[test]
    fn silence_fades_the_weight_and_keeps_the_mean() {
        let mut e = Evidence::new(0.0, 0.0);
        for i in 0..40 {
            feed(&mut e, 0.5, f64::from(i));
        }
        assert!(e.known_at(at(39.0)) > 25.0);
        assert!(e.known_at(at(400.0)) < 0.1);
        assert!((e.mean() - 0.5).abs() < 0.1);
        assert!(e.standing(at(400.0)).1 > e.standing(at(39.0)).1);
    }
}
