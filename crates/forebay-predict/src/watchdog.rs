//! `predictive` watches itself: are its predictions still worth following?

use forebay_core::Time;
use serde::{Deserialize, Serialize};

use crate::decay::seconds_since;

/// Whether decisions may rest on predictions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Trust {
    /// They may.
    Trusted,
    /// They were wrong for too long: decide by `least_work` with prefix
    /// affinity until the predictions, still made, are right again.
    Fallback,
}

/// When trust is lost and won back.
///
/// The *error* is the mean of `|ln((observed + 20 ms) / (predicted + 20 ms))|`
/// of TTFT, each capped at ln 10; a prediction is *broken* when it was within
/// the SLO and what came was beyond both the SLO and twice the prediction, and
/// the share of those is among the predictions within the SLO. Both fade with
/// a time constant of 30 s and look back 200 requests at most. Where no
/// prediction is within the SLO any more for 5 s, the share fades to 0: nothing
/// is promised, so nothing is broken.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct WatchdogLimits {
    /// Error above which trust is at stake. Default ln 2.5: predictions that
    /// scatter by a third have an error of .3; at .9 they are usually 2.5 times
    /// off, which is more than candidates differ.
    pub enter_error: f64,
    /// Share of broken predictions above which trust is at stake. Default .25:
    /// a pool at its limit breaks some, because others' requests come between.
    pub enter_broken: f64,
    /// Requests past a bound before trust is lost. Default 30.
    pub enter_samples: u32,
    /// Seconds past a bound before trust is lost. Default 10: learned speeds
    /// get that long to follow a change.
    pub enter_s: f64,
    /// Error below which trust may return. Default ln 1.8.
    pub leave_error: f64,
    /// Share of broken predictions below which trust may return. Default .1.
    pub leave_broken: f64,
    /// Requests below both before trust returns. Default 30.
    pub leave_samples: u32,
    /// Seconds below both before trust returns. Default 20.
    pub leave_s: f64,
}

impl Default for WatchdogLimits {
    fn default() -> Self {
        WatchdogLimits {
            enter_error: 0.916,
            enter_broken: 0.25,
            enter_samples: 30,
            enter_s: 10.0,
            leave_error: 0.588,
            leave_broken: 0.1,
            leave_samples: 30,
            leave_s: 20.0,
        }
    }
}

/// Errors smaller than this many milliseconds do not matter to anyone.
const FLOOR_MS: f64 = 20.0;
/// The largest error of one prediction, ln 10.
const WORST: f64 = std::f64::consts::LN_10;
/// Seconds after which an error has faded to 1/e.
const FADE_S: f64 = 30.0;
/// Requests that a mean looks back at most.
const MOST: f64 = 200.0;
/// Seconds without a promise after which the share of broken ones fades.
const SILENCE_S: f64 = 5.0;
/// What a whole answer counts for beside a first token: much else went into
/// what it took.
const WHOLE: f64 = 0.3;

/// Watches the predicted and observed TTFT of every request of a pool.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Watchdog {
    limits: WatchdogLimits,
    trust: Trust,
    error: Fading,
    broken: Fading,
    /// Since when, and for how many requests, the other state is called for.
    calling: Option<(u64, u32)>,
}

/// A mean that fades with time and by amount.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
struct Fading {
    mean: f64,
    weight: f64,
    at_ns: u64,
}

impl Fading {
    fn add(&mut self, value: f64, counts: f64, now: Time) {
        let kept = self.weight * (-seconds_since(now, self.at_ns) / FADE_S).exp();
        self.weight = (kept + counts).min(MOST);
        self.mean += (value - self.mean) * counts / self.weight;
        self.at_ns = self.at_ns.max(now.as_nanos());
    }

    /// The mean, which goes to 0 when nothing was added for long.
    fn lately(&self, now: Time) -> f64 {
        let silent = (seconds_since(now, self.at_ns) - SILENCE_S).max(0.0);
        self.mean * (-silent / FADE_S).exp()
    }
}

impl Default for Watchdog {
    fn default() -> Self {
        Self::new(WatchdogLimits::default())
    }
}

impl Watchdog {
    /// Trusts until shown otherwise.
    pub fn new(limits: WatchdogLimits) -> Watchdog {
        Watchdog {
            limits,
            trust: Trust::Trusted,
            error: Fading::default(),
            broken: Fading::default(),
            calling: None,
        }
    }

    /// Compares a request's predicted and observed TTFT. In fallback too: feed
    /// the prediction that `predictive` makes for the endpoint that was picked.
    /// A request that timed out before its first token counts with the time it
    /// waited. Returns the new state when it changes.
    ///
    /// Ignored unless both are finite and not negative; an SLO that is absent
    /// or makes no sense leaves the share of broken predictions as it is.
    pub fn observe(
        &mut self,
        predicted_ms: f64,
        observed_ms: f64,
        slo_ms: Option<f64>,
        now: Time,
    ) -> Option<Trust> {
        if !self.compare(predicted_ms, observed_ms, 1.0, now) {
            return None;
        }
        if let Some(slo_ms) = slo_ms.filter(|slo| predicted_ms <= *slo) {
            let broken = observed_ms > slo_ms && observed_ms > 2.0 * predicted_ms;
            self.broken.mean = self.broken.lately(now);
            self.broken.add(if broken { 1.0 } else { 0.0 }, 1.0, now);
        }
        self.judge(now)
    }

    /// Compares what a whole answer took, of which no first token was seen,
    /// with what was predicted for so many tokens. Counts for less than a
    /// first token, and breaks no promise: limits are for first tokens.
    /// Returns and ignores as [`observe`](Self::observe).
    pub fn observe_whole(&mut self, predicted_ms: f64, observed_ms: f64, now: Time) -> Option<Trust> {
        if !self.compare(predicted_ms, observed_ms, WHOLE, now) {
            return None;
        }
        self.judge(now)
    }

    /// Counts an error; false when the numbers make no sense.
    fn compare(&mut self, predicted_ms: f64, observed_ms: f64, counts: f64, now: Time) -> bool {
        let usable = |x: f64| x.is_finite() && x >= 0.0;
        if !(usable(predicted_ms) && usable(observed_ms)) {
            return false;
        }
        let error = ((observed_ms + FLOOR_MS).ln() - (predicted_ms + FLOOR_MS).ln()).abs();
        self.error.add(error.min(WORST), counts, now);
        true
    }

    /// The state.
    pub fn trust(&self) -> Trust {
        self.trust
    }

    /// The mean error, in logarithms; see [`WatchdogLimits`].
    pub fn error(&self) -> f64 {
        self.error.mean
    }

    /// The share of broken predictions at `now`, 0 to 1; see [`WatchdogLimits`].
    pub fn broken_share(&self, now: Time) -> f64 {
        self.broken.lately(now)
    }

    fn judge(&mut self, now: Time) -> Option<Trust> {
        let WatchdogLimits { enter_error, enter_broken, leave_error, leave_broken, .. } = self.limits;
        let broken = self.broken.lately(now);
        let (other, called, samples, seconds) = match self.trust {
            Trust::Trusted => (
                Trust::Fallback,
                self.error.mean > enter_error || broken > enter_broken,
                self.limits.enter_samples,
                self.limits.enter_s,
            ),
            Trust::Fallback => (
                Trust::Trusted,
                self.error.mean < leave_error && broken < leave_broken,
                self.limits.leave_samples,
                self.limits.leave_s,
            ),
        };
        if !called {
            self.calling = None;
            return None;
        }
        let (since_ns, count) = self.calling.unwrap_or((now.as_nanos(), 0));
        let count = count.saturating_add(1);
        self.calling = Some((since_ns, count));
        if count < samples || seconds_since(now, since_ns) < seconds {
            return None;
        }
        (self.trust, self.calling) = (other, None);
        Some(other)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Lcg, at};

    /// Feeds `seconds` of 10 requests a second that take `factor` times what
    /// was predicted, about; returns when the state changed.
    fn run(dog: &mut Watchdog, rng: &mut Lcg, from: f64, seconds: f64, factor: f64) -> Option<f64> {
        let mut changed = None;
        for i in 0..(seconds * 10.0) as u32 {
            let t = from + f64::from(i) / 10.0;
            let predicted = 300.0 * rng.noise(0.5);
            let observed = predicted * factor * rng.noise(0.3);
            if dog.observe(predicted, observed, Some(2000.0), at(t)).is_some() {
                changed = changed.or(Some(t));
            }
        }
        changed
    }

    #[test]
    fn it_loses_trust_after_ten_seconds_and_wins_it_back_after_twenty() {
        let (mut dog, mut rng) = (Watchdog::default(), Lcg::new(5));
        assert_eq!(run(&mut dog, &mut rng, 0.0, 300.0, 1.0), None);
        assert!(dog.error() < 0.4 && dog.broken_share(at(300.0)) < 0.01);
        let lost = run(&mut dog, &mut rng, 300.0, 60.0, 6.0).unwrap();
        assert!((310.0..340.0).contains(&lost), "{lost}");
        assert_eq!(dog.trust(), Trust::Fallback);
        assert_eq!(run(&mut dog, &mut rng, 360.0, 60.0, 6.0), None);
        let back = run(&mut dog, &mut rng, 420.0, 200.0, 1.0).unwrap();
        assert!((440.0..500.0).contains(&back), "{back}");
        assert_eq!(dog.trust(), Trust::Trusted);
    }

    #[test]
    fn between_the_bounds_it_stays_what_it_is() {
        for start in [1.0, 6.0] {
            let (mut dog, mut rng) = (Watchdog::default(), Lcg::new(6));
            run(&mut dog, &mut rng, 0.0, 60.0, start);
            let before = dog.trust();
            assert_eq!(before == Trust::Fallback, start > 1.0);
            assert_eq!(run(&mut dog, &mut rng, 60.0, 600.0, 2.1), None, "error {}", dog.error());
        }
    }

    #[test]
    fn broken_promises_alone_are_enough_and_short_bursts_are_not() {
        let mut dog = Watchdog::default();
        let mut changed = None;
        for i in 0..400 {
            // A third is promised in 100 ms and comes after 2.5 s; the rest is right.
            let observed = if i % 3 == 0 { 2500.0 } else { 100.0 };
            changed = changed.or(dog.observe(100.0, observed, Some(2000.0), at(f64::from(i) / 10.0)));
        }
        assert_eq!(changed, Some(Trust::Fallback));
        assert!(dog.error() < dog.limits.enter_error);

        let (mut dog, mut rng) = (Watchdog::default(), Lcg::new(7));
        run(&mut dog, &mut rng, 0.0, 60.0, 1.0);
        assert_eq!(run(&mut dog, &mut rng, 60.0, 5.0, 20.0), None);
        assert_eq!(run(&mut dog, &mut rng, 65.0, 60.0, 1.0), None);
        // 29 requests in an hour are not evidence, whatever they say.
        let mut idle = Watchdog::default();
        for i in 0..29 {
            assert_eq!(idle.observe(1.0, 60_000.0, None, at(f64::from(i) * 120.0)), None);
        }
    }

    #[test]
    fn a_pool_that_promises_nothing_any_more_breaks_no_promises() {
        let mut dog = Watchdog::default();
        let mut t = 0.0;
        while dog.trust() == Trust::Trusted && t < 60.0 {
            t += 0.1;
            dog.observe(100.0, 2500.0, Some(2000.0), at(t));
        }
        assert_eq!(dog.trust(), Trust::Fallback);
        // Right predictions from now on, every one of them beyond the limit.
        let begun = t;
        while dog.trust() == Trust::Fallback && t < begun + 600.0 {
            t += 0.1;
            dog.observe(5000.0, 5500.0, Some(2000.0), at(t));
        }
        assert!((20.0..200.0).contains(&(t - begun)), "{}", t - begun);
        assert!(dog.broken_share(at(t)) < 0.1);
    }

    #[test]
    fn whole_answers_that_are_far_off_cost_trust_as_well_and_right_ones_do_not() {
        for (factor, trust) in [(1.3, Trust::Trusted), (6.0, Trust::Fallback)] {
            let mut dog = Watchdog::default();
            for i in 0..600 {
                dog.observe_whole(3000.0, 3000.0 * factor, at(f64::from(i) / 10.0));
            }
            assert_eq!(dog.trust(), trust, "{factor}");
        }
        // Beside first tokens they are the smaller part.
        let mut dog = Watchdog::default();
        for i in 0..600 {
            dog.observe(100.0, 100.0, None, at(f64::from(i) / 10.0));
            dog.observe_whole(1000.0, 8000.0, at(f64::from(i) / 10.0));
        }
        assert_eq!(dog.trust(), Trust::Trusted);
        for bad in [f64::NAN, f64::INFINITY, -1.0] {
            assert_eq!(Watchdog::default().observe_whole(bad, 1.0, at(1.0)), None);
        }
    }

    #[test]
    fn nonsense_is_ignored_and_small_errors_do_not_count() {
        let mut dog = Watchdog::default();
        for bad in [f64::NAN, f64::INFINITY, -1.0] {
            assert_eq!(dog.observe(bad, 1.0, Some(1.0), at(1.0)), None);
            assert_eq!(dog.observe(1.0, bad, Some(1.0), at(1.0)), None);
        }
        assert_eq!(dog, Watchdog::default());
        for i in 0..1000 {
            assert_eq!(dog.observe(1.0, 10.0, Some(f64::NAN), at(f64::from(i) / 10.0)), None);
        }
        assert!(dog.error() < 0.4);
    }
}
