//! When probes start.
//!
//! A thousand probes at the same instant are a burst for the network and, when
//! the endpoints share a host, for them. Each endpoint has its own phase in
//! the interval; phases follow the golden ratio, so any number of endpoints is
//! spread evenly, whichever came or went before.

use std::time::Duration;

use forebay_core::Time;

/// The gap between the first probes of endpoints that were added together:
/// all are asked at once as far as people can tell, without a burst.
const FIRST_GAP: Duration = Duration::from_millis(1);

/// The start times of one endpoint's probes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Schedule {
    interval: Duration,
    /// Where in the interval, 0 to 1.
    phase: f64,
    seed: u64,
}

impl Schedule {
    /// The schedule of the `ordinal`th endpoint of this fleet.
    pub(crate) fn new(interval: Duration, ordinal: u64, seed: u64) -> Schedule {
        // Another process with the same endpoints has another seed and so other phases.
        let offset = unit(mix(seed));
        let phase = (offset + (ordinal % 1_000_003) as f64 * 0.618_033_988_749_894_9).fract();
        Schedule { interval: interval.max(Duration::from_millis(10)), phase, seed: mix(seed ^ mix(ordinal)) }
    }

    /// When the first probe of the `place`th endpoint of a group that came at `now` starts.
    pub(crate) fn first(&self, now: Time, place: u32) -> Time {
        now + (FIRST_GAP * place).min(self.interval)
    }

    /// When the next regular probe after one that ended at `now` starts.
    ///
    /// Jitter of one part in fifty, drawn anew each time, keeps the probes
    /// from keeping step with anything else that is periodic.
    pub(crate) fn next(&self, now: Time) -> Time {
        let interval = self.interval.as_nanos().min(u128::from(u64::MAX)) as u64;
        let phase = (self.phase * interval as f64) as u64;
        let earliest = now.as_nanos().saturating_add(self.min_gap().as_nanos() as u64);
        let tick = earliest.saturating_sub(phase).div_ceil(interval);
        let jitter = (unit(mix(self.seed ^ tick)) * interval as f64 / 50.0) as u64;
        Time::from_nanos(tick.saturating_mul(interval).saturating_add(phase).saturating_add(jitter))
    }

    /// The least time between the end of one probe and the start of the next,
    /// also when real traffic asks for one.
    pub(crate) fn min_gap(&self) -> Duration {
        (self.interval / 10).min(Duration::from_millis(200))
    }
}

/// SplitMix64: from a number to one that looks unrelated.
pub(crate) fn mix(n: u64) -> u64 {
    let mut z = n.wrapping_add(0x9E37_79B9_7F4A_7C15);
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

/// A number from 0 up to 1.
pub(crate) fn unit(n: u64) -> f64 {
    (n >> 11) as f64 / (1u64 << 53) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    const INTERVAL: Duration = Duration::from_secs(2);

    fn at(ms: u64) -> Time {
        Time::from_nanos(ms * 1_000_000)
    }

    #[test]
    fn probe_starts_are_spread_over_the_interval() {
        for (endpoints, seed) in [(1_000u64, 1u64), (1_000, 99), (400, 7), (200, 3)] {
            let mut bins = vec![0u64; 20];
            for ordinal in 0..endpoints {
                let schedule = Schedule::new(INTERVAL, ordinal, seed);
                let start = schedule.next(at(60_000));
                let ms = (start.as_nanos() / 1_000_000) % 2_000;
                bins[(ms / 100) as usize] += 1;
            }
            let mean = endpoints / 20;
            assert!(bins.iter().all(|n| *n <= 2 * mean), "{endpoints} endpoints: {bins:?}");
            assert!(bins.iter().all(|n| *n > 0), "{endpoints} endpoints: {bins:?}");
        }
    }

    #[test]
    fn every_endpoint_is_probed_once_an_interval() {
        for ordinal in 0..50 {
            let schedule = Schedule::new(INTERVAL, ordinal, 5);
            let mut now = at(0);
            for n in 1..=100u32 {
                let next = schedule.next(now);
                assert!(next > now);
                now = next;
                let drift = now.as_millis_f64() - f64::from(n) * 2_000.0;
                assert!((-2_000.0..=2_040.0).contains(&drift), "probe {n} is off by {drift} ms");
            }
        }
    }

    #[test]
    fn the_first_probes_start_at_once_one_after_the_other() {
        let schedule = Schedule::new(INTERVAL, 3, 5);
        assert_eq!(schedule.first(at(5), 0), at(5));
        assert_eq!(schedule.first(at(5), 8), at(13));
        assert_eq!(schedule.first(at(5), 1_000_000), at(2_005));
    }

    #[test]
    fn a_probe_that_outlasts_its_interval_skips_turns() {
        let schedule = Schedule::new(INTERVAL, 0, 5);
        let late = schedule.next(at(9_000));
        assert!(late >= at(9_000) + schedule.min_gap() && late <= at(11_300), "{late:?}");
    }

    #[test]
    fn odd_intervals_do_not_panic() {
        for interval in [Duration::ZERO, Duration::MAX, Duration::from_nanos(1)] {
            let schedule = Schedule::new(interval, u64::MAX, u64::MAX);
            assert!(schedule.next(Time::ZERO) > Time::ZERO);
            let _ = (schedule.next(Time::MAX), schedule.first(Time::MAX, u32::MAX));
        }
    }
}
