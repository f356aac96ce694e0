//! Time as a number that is passed in and never read.

use std::fmt;
use std::ops::{Add, AddAssign, Sub};
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// A point in time: nanoseconds since an origin that the driver chose.
///
/// The live driver uses the start of the process, the simulator zero. Two
/// times are comparable only within one driver. Arithmetic saturates.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
pub struct Time(u64);

impl Time {
    /// The driver's origin.
    pub const ZERO: Time = Time(0);
    /// Later than every time a driver can reach: "never".
    pub const MAX: Time = Time(u64::MAX);

    /// The time `ns` nanoseconds after the origin.
    pub const fn from_nanos(ns: u64) -> Time {
        Time(ns)
    }

    /// The time `ms` milliseconds after the origin; negative values and NaN give the origin.
    pub fn from_millis_f64(ms: f64) -> Time {
        // A float-to-int `as` cast saturates and maps NaN to zero.
        Time((ms * 1e6) as u64)
    }

    /// Nanoseconds since the origin.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// Milliseconds since the origin.
    pub fn as_millis_f64(self) -> f64 {
        self.0 as f64 / 1e6
    }

    /// How long after `earlier` this is; zero when it is not after it.
    pub fn since(self, earlier: Time) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

impl Add<Duration> for Time {
    type Output = Time;
    fn add(self, d: Duration) -> Time {
        Time(self.0.saturating_add(u64::try_from(d.as_nanos()).unwrap_or(u64::MAX)))
    }
}

impl AddAssign<Duration> for Time {
    fn add_assign(&mut self, d: Duration) {
        *self = *self + d;
    }
}

impl Sub<Time> for Time {
    type Output = Duration;
    fn sub(self, earlier: Time) -> Duration {
        self.since(earlier)
    }
}

impl fmt::Debug for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.6}s", self.0 as f64 / 1e9)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arithmetic_saturates() {
        assert_eq!(Time::MAX + Duration::from_secs(1), Time::MAX);
        assert_eq!(Time::ZERO.since(Time::from_nanos(5)), Duration::ZERO);
        assert_eq!(Time::from_nanos(7) - Time::from_nanos(5), Duration::from_nanos(2));
    }

    #[test]
    fn milliseconds_from_odd_floats_do_not_panic() {
        for (ms, ns) in [(f64::NAN, 0), (-1.0, 0), (1.5, 1_500_000), (f64::INFINITY, u64::MAX)] {
            assert_eq!(Time::from_millis_f64(ms).as_nanos(), ns);
        }
    }
}
