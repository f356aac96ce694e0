//! The only places where time is read.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use forebay_core::Time;
use tokio::time::Instant;

/// Turns real time into the engine's, which runs `scale` times as fast and can
/// be stopped.
pub(crate) struct EngineClock {
    /// The engine's time was `base` at this moment.
    origin: Instant,
    base: Time,
    scale: f64,
    frozen: bool,
}

impl EngineClock {
    pub(crate) fn new(scale: f64) -> EngineClock {
        let scale = if scale.is_finite() && scale > 0.0 { scale } else { 1.0 };
        EngineClock { origin: Instant::now(), base: Time::ZERO, scale, frozen: false }
    }

    pub(crate) fn now(&self) -> Time {
        if self.frozen {
            return self.base;
        }
        let nanos = self.origin.elapsed().as_nanos() as f64 * self.scale;
        self.base + Duration::from_nanos(nanos as u64)
    }

    /// When the engine's time will be `at`; None while the clock stands.
    pub(crate) fn real(&self, at: Time) -> Option<Instant> {
        let nanos = at.since(self.base).as_nanos() as f64 / self.scale;
        // A day bounds the sum: far more would overflow an Instant.
        let wait = Duration::from_nanos(nanos as u64).min(Duration::from_secs(86_400));
        (!self.frozen).then(|| self.origin + wait)
    }

    /// Stops the engine's time, or lets it go on from where it stood.
    pub(crate) fn set_frozen(&mut self, frozen: bool) {
        self.base = self.now();
        self.origin = Instant::now();
        self.frozen = frozen;
    }
}

/// Seconds since 1970, for the fields and metrics that show a date.
#[expect(clippy::disallowed_methods, reason = "dates in answers are real dates; nothing is decided by them")]
pub(crate) fn unix_seconds() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |d| d.as_secs_f64())
}
