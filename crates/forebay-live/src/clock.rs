//! The clock of the running program.

use std::hash::{BuildHasher, Hasher};
use std::time::Instant;

use forebay_core::Time;

/// Turns the monotonic clock into [`Time`]s since it was made.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    origin: Instant,
}

impl Clock {
    /// A clock that starts at [`Time::ZERO`] now.
    #[expect(clippy::disallowed_methods, reason = "this is where the program reads the clock")]
    pub fn start() -> Clock {
        Clock { origin: Instant::now() }
    }

    /// The time now.
    pub fn now(&self) -> Time {
        Time::from_nanos(u64::try_from(self.origin.elapsed().as_nanos()).unwrap_or(u64::MAX))
    }

    /// The time that an instant stands for; the origin for one before it.
    pub fn time(&self, at: Instant) -> Time {
        let since = at.saturating_duration_since(self.origin).as_nanos();
        Time::from_nanos(u64::try_from(since).unwrap_or(u64::MAX))
    }

    /// The instant that a time stands for, for timers.
    pub fn instant(&self, at: Time) -> Instant {
        self.origin + at.since(Time::ZERO)
    }
}

/// A seed nobody chose, for Gates whose operator did not give one. The
/// standard library's hasher keys are its only source of randomness that
/// needs no further crate.
pub(crate) fn random_seed() -> u64 {
    std::hash::RandomState::new().build_hasher().finish()
}
