//! Averages and sums that forget.

use forebay_core::Time;
use serde::{Deserialize, Serialize};

/// Seconds from `from_ns` to `now`; zero when `now` is not later.
pub(crate) fn seconds_since(now: Time, from_ns: u64) -> f64 {
    now.as_nanos().saturating_sub(from_ns) as f64 / 1e9
}

/// An exponentially weighted mean by amount: each value counts `1 − keep`, but
/// the first ones more, so that it is a plain mean until it has seen enough.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Ewma {
    keep: f64,
    value: f64,
    seen: f64,
}

impl Ewma {
    /// A mean that starts at `start`, which counts as much as `worth` values,
    /// and keeps the share `keep` (0 to 1) of itself at each new value.
    pub fn new(keep: f64, start: f64, worth: f64) -> Ewma {
        let finite = |x: f64, instead| if x.is_finite() { x } else { instead };
        Ewma {
            keep: finite(keep, 0.0).clamp(0.0, 1.0),
            value: finite(start, 0.0),
            seen: finite(worth, 0.0).max(0.0),
        }
    }

    /// Counts a value; one that is not finite is ignored.
    pub fn add(&mut self, value: f64) {
        if value.is_finite() {
            self.seen += 1.0;
            let gain = (1.0 / self.seen).max(1.0 - self.keep);
            self.value += gain * (value - self.value);
            // Enough to know that the plain mean is over; it must not grow for ever.
            self.seen = self.seen.min(1e9);
        }
    }

    /// The mean.
    pub fn value(&self) -> f64 {
        self.value
    }
}

/// A sum whose parts fade with a time constant: `R` of the policy, the prefill
/// milliseconds dispatched of late.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct DecayedSum {
    constant_s: f64,
    sum: f64,
    at_ns: u64,
}

impl DecayedSum {
    /// An empty sum with that time constant in seconds (at least a millisecond).
    pub fn new(constant_s: f64) -> DecayedSum {
        DecayedSum { constant_s: sane_constant(constant_s), sum: 0.0, at_ns: 0 }
    }

    /// Adds `amount`; one that is not finite is ignored.
    pub fn add(&mut self, amount: f64, now: Time) {
        if amount.is_finite() {
            self.sum = (self.at(now) + amount).clamp(-1e300, 1e300);
            self.at_ns = self.at_ns.max(now.as_nanos());
        }
    }

    /// What is left of it at `now`.
    pub fn at(&self, now: Time) -> f64 {
        self.sum * (-seconds_since(now, self.at_ns) / self.constant_s).exp()
    }

    /// Time constant in seconds.
    pub fn constant_s(&self) -> f64 {
        self.constant_s
    }

    /// When it last changed.
    pub fn changed(&self) -> Time {
        Time::from_nanos(self.at_ns)
    }
}

fn sane_constant(constant_s: f64) -> f64 {
    if constant_s.is_finite() { constant_s.max(1e-3) } else { 1.0 }
}

/// λ: arrivals per millisecond, over about the last 30 seconds.
///
/// Every arrival adds `1/T` and all of them fade with the time constant `T`,
/// so a burst counts in full whatever the gaps inside it. Until `T` has passed
/// the sum is divided by the weight of the time it has watched, at least two
/// seconds of it: one request is not yet a rate.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Arrivals {
    sum: DecayedSum,
    first_ns: Option<u64>,
}

/// Seconds that the rate looks back.
const ARRIVALS_S: f64 = 30.0;
/// Least time in seconds that a rate is taken over.
const MIN_WATCH_S: f64 = 2.0;

impl Default for Arrivals {
    fn default() -> Self {
        Self::new()
    }
}

impl Arrivals {
    /// No arrivals yet.
    pub fn new() -> Arrivals {
        Arrivals { sum: DecayedSum::new(ARRIVALS_S), first_ns: None }
    }

    /// Counts one arrival.
    pub fn arrive(&mut self, now: Time) {
        self.first_ns.get_or_insert(now.as_nanos());
        self.sum.add(1.0, now);
    }

    /// Arrivals per millisecond at `now`.
    pub fn per_ms(&self, now: Time) -> f64 {
        let Some(first_ns) = self.first_ns else { return 0.0 };
        let watched = seconds_since(now, first_ns).max(MIN_WATCH_S);
        self.sum.at(now) / (ARRIVALS_S * 1e3 * (1.0 - (-watched / ARRIVALS_S).exp()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::at;

    #[test]
    fn a_mean_is_plain_at_first_and_forgets_later() {
        let mut mean = Ewma::new(0.99, 500.0, 0.0);
        for x in [1.0, 2.0, f64::NAN, 6.0, f64::INFINITY] {
            mean.add(x);
        }
        assert!((mean.value() - 3.0).abs() < 1e-12);
        for _ in 0..1000 {
            mean.add(10.0);
        }
        assert!((mean.value() - 10.0).abs() < 0.01);
        let odd = Ewma::new(f64::NAN, f64::INFINITY, -1.0);
        assert_eq!(odd.value(), 0.0);
    }

    #[test]
    fn a_sum_fades_with_its_constant() {
        let mut sum = DecayedSum::new(20.0);
        sum.add(100.0, at(5.0));
        sum.add(f64::NAN, at(6.0));
        assert!((sum.at(at(25.0)) - 100.0 / std::f64::consts::E).abs() < 1e-9);
        // A time before the last change leaves it as it is.
        assert_eq!(sum.at(at(1.0)), 100.0);
        sum.add(1.0, at(1.0));
        assert_eq!(sum.at(at(5.0)), 101.0);
        assert_eq!((sum.changed(), sum.constant_s()), (at(5.0), 20.0));
    }

    #[test]
    fn the_rate_is_exact_for_steady_traffic_and_for_bursts() {
        for burst in [1, 7] {
            let mut arrivals = Arrivals::new();
            assert_eq!(arrivals.per_ms(at(0.0)), 0.0);
            // 7 arrivals a second, one by one or all at once.
            for i in 0..7 * 60 {
                let t = if burst == 1 { f64::from(i) / 7.0 } else { f64::from(i / 7) };
                arrivals.arrive(at(t));
            }
            // Asked in the middle between two bursts, where their rate is the mean one.
            let rate = arrivals.per_ms(at(59.5 + if burst == 1 { 0.43 } else { 0.0 })) * 1e3;
            assert!((rate - 7.0).abs() < 0.15, "{rate}");
        }
    }

    #[test]
    fn one_request_is_not_yet_a_rate_and_silence_ends_one() {
        let mut arrivals = Arrivals::new();
        arrivals.arrive(at(3.0));
        assert!(arrivals.per_ms(at(3.0)) <= 0.52e-3);
        assert!(arrivals.per_ms(at(303.0)) < 1e-7);
    }
}
