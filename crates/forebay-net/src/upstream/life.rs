//! Which server a connection was made to, as far as that is known.
//!
//! An address outlives what answers there. Each time it may be another server
//! a new life begins, and what belongs to a former one is not used again.

use std::sync::atomic::{AtomicU64, Ordering};

/// The life of an endpoint: a number that only grows, even while the endpoint
/// is in use and odd while it is not.
#[derive(Debug, Default)]
pub(super) struct Life(AtomicU64);

impl Life {
    /// The life that is; none while the endpoint is not in use.
    pub(super) fn now(&self) -> Option<u64> {
        let life = self.0.load(Ordering::Acquire);
        life.is_multiple_of(2).then_some(life)
    }

    /// Whether the life is still this one.
    pub(super) fn is(&self, life: u64) -> bool {
        self.0.load(Ordering::Acquire) == life
    }

    /// The next life begins, in use or not as before.
    pub(super) fn renew(&self) {
        self.0.fetch_add(2, Ordering::AcqRel);
    }

    /// The life ends. Says whether one was.
    pub(super) fn close(&self) -> bool {
        let ends = |life: u64| life.is_multiple_of(2).then_some(life + 1);
        self.0.fetch_update(Ordering::AcqRel, Ordering::Acquire, ends).is_ok()
    }

    /// A life begins, unless one is.
    pub(super) fn open(&self) {
        let begins = |life: u64| (!life.is_multiple_of(2)).then_some(life + 1);
        let _ = self.0.fetch_update(Ordering::AcqRel, Ordering::Acquire, begins);
    }
}
