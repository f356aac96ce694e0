//! How often one endpoint is asked.
//!
//! A report is worth the most where the load changes: a busy endpoint is asked
//! at the shortest interval. One without work is asked half as often each
//! time, down to the longest interval, and so is one that fails.

use std::time::Duration;

use forebay_core::Time;

use crate::schedule::{Schedule, mix, unit};

/// A failing endpoint is not asked again sooner than this.
const RETRY_AFTER: Duration = Duration::from_millis(100);

/// Longer intervals than this are cut to it.
const LONGEST: Duration = Duration::from_secs(24 * 3600);

/// The times at which one endpoint is asked.
#[derive(Clone, Debug)]
pub(crate) struct Pace {
    min: Duration,
    max: Duration,
    /// Of this endpoint among all, for its phase.
    ordinal: u64,
    seed: u64,
    state: State,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum State {
    Busy,
    /// So many times in a row without work.
    Idle(u32),
    /// So many times in a row without an answer.
    Failing(u32),
}

impl Pace {
    pub(crate) fn new(min: Duration, max: Duration, ordinal: u64, seed: u64) -> Pace {
        let (min, max) = (min.min(LONGEST), max.clamp(min.min(LONGEST), LONGEST));
        Pace { min, max, ordinal, seed, state: State::Busy }
    }

    /// When the first request to the `place`th endpoint of a group starts.
    pub(crate) fn first(&self, now: Time, place: u32) -> Time {
        Schedule::new(self.min, self.ordinal, self.seed).first(now, place)
    }

    /// The endpoint answered and has work.
    pub(crate) fn busy(&mut self) {
        self.state = State::Busy;
    }

    /// The endpoint answered and has nothing to do.
    pub(crate) fn idle(&mut self) {
        self.state = State::Idle(match self.state {
            State::Idle(turns) => turns.saturating_add(1),
            State::Busy | State::Failing(_) => 1,
        });
    }

    /// The endpoint did not answer, or not usefully. Gives how many times in a row.
    pub(crate) fn failed(&mut self) -> u32 {
        let turns = match self.state {
            State::Failing(turns) => turns.saturating_add(1),
            State::Busy | State::Idle(_) => 1,
        };
        self.state = State::Failing(turns);
        turns
    }

    pub(crate) fn is_failing(&self) -> bool {
        matches!(self.state, State::Failing(_))
    }

    /// Whether it is asked more seldom than a busy one only for want of work.
    pub(crate) fn is_resting(&self) -> bool {
        matches!(self.state, State::Idle(_)) && self.interval() > self.min
    }

    /// The interval as things are, before jitter.
    pub(crate) fn interval(&self) -> Duration {
        let doubled = |from: Duration, times: u32| {
            from.saturating_mul(1u32.checked_shl(times.min(31)).unwrap_or(u32::MAX)).clamp(self.min, self.max)
        };
        match self.state {
            State::Busy => self.min,
            State::Idle(turns) => doubled(self.min, turns),
            State::Failing(turns) => doubled(self.min.max(RETRY_AFTER), turns.saturating_sub(1)),
        }
    }

    /// When the next turn after one that ended at `now` starts.
    pub(crate) fn next(&self, now: Time) -> Time {
        let interval = self.interval();
        if !self.is_failing() {
            return Schedule::new(interval, self.ordinal, self.seed).next(now);
        }
        // Endpoints that failed together, because a network did, must not be
        // asked again together: between three quarters and all of the interval.
        let random = unit(mix(self.seed ^ mix(self.ordinal) ^ now.as_nanos()));
        now + interval.mul_f64(1.0 - random / 4.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIN: Duration = Duration::from_millis(100);
    const MAX: Duration = Duration::from_secs(5);

    fn pace() -> Pace {
        Pace::new(MIN, MAX, 3, 7)
    }

    fn wait(pace: &Pace) -> Duration {
        let now = Time::from_nanos(77_000_000_000);
        pace.next(now).since(now)
    }

    #[test]
    fn a_busy_endpoint_is_asked_at_the_shortest_interval() {
        let pace = pace();
        assert_eq!(pace.interval(), MIN);
        let mut now = Time::ZERO;
        for _ in 0..100 {
            let next = pace.next(now);
            assert!(next.since(now) <= MIN * 12 / 10, "{:?}", next.since(now));
            now = next;
        }
        assert!(now.since(Time::ZERO) >= MIN * 98, "{now:?}: it was asked too often");
    }

    #[test]
    fn without_work_the_interval_doubles_up_to_the_longest() {
        let mut pace = pace();
        let mut intervals = Vec::new();
        for _ in 0..8 {
            pace.idle();
            intervals.push(pace.interval().as_millis());
            assert!(pace.is_resting());
        }
        assert_eq!(intervals, [200, 400, 800, 1600, 3200, 5000, 5000, 5000]);
        pace.busy();
        assert_eq!((pace.interval(), pace.is_resting()), (MIN, false));
    }

    #[test]
    fn a_failing_endpoint_is_left_alone_longer_each_time() {
        let mut pace = pace();
        let mut before = Duration::ZERO;
        for turn in 1..=6u32 {
            assert_eq!(pace.failed(), turn);
            let interval = pace.interval();
            let wait = wait(&pace);
            assert!(wait <= interval && wait >= interval * 3 / 4, "{wait:?} of {interval:?}");
            assert!(wait > before, "{wait:?} after {before:?}");
            before = wait;
        }
        for _ in 0..100 {
            pace.failed();
        }
        assert_eq!(pace.interval(), MAX);
        assert!(!pace.is_resting(), "work does not make it answer");
        pace.idle();
        assert_eq!(pace.interval(), 2 * MIN, "an answer ends it");
    }

    #[test]
    fn endpoints_that_fail_together_are_not_asked_together() {
        let mut starts = Vec::new();
        for ordinal in 0..100 {
            let mut pace = Pace::new(MIN, MAX, ordinal, 7);
            (0..9).for_each(|_| _ = pace.failed());
            starts.push(wait(&pace).as_millis() / 125);
        }
        starts.sort_unstable();
        starts.dedup();
        assert!(starts.len() >= 8, "{starts:?} of ten bins between 3.75 and 5 s");
    }

    #[test]
    fn odd_intervals_do_not_panic() {
        for (min, max) in [(Duration::ZERO, Duration::ZERO), (Duration::MAX, Duration::ZERO), (MAX, MIN)] {
            let mut pace = Pace::new(min, max, u64::MAX, u64::MAX);
            for _ in 0..70 {
                pace.idle();
                let _ = pace.next(Time::MAX);
                pace.failed();
                let _ = (pace.next(Time::ZERO), pace.next(Time::MAX), pace.first(Time::MAX, u32::MAX));
            }
        }
    }
}
