//! How many requests run at once.
//!
//! Two lanes, so that endpoints which do not answer wait for each other and
//! not for the healthy ones: a page that hangs holds its place for its whole
//! time limit.

use tokio::sync::{Semaphore, SemaphorePermit};

/// Requests at once to endpoints that answered last time, and to the others.
pub(crate) const HEALTHY: usize = 256;
pub(crate) const FAILING: usize = 32;

#[derive(Debug)]
pub(crate) struct Lanes {
    healthy: Semaphore,
    failing: Semaphore,
}

impl Lanes {
    pub(crate) fn new() -> Lanes {
        Lanes { healthy: Semaphore::new(HEALTHY), failing: Semaphore::new(FAILING) }
    }

    /// Waits for a place. Every holder's time is limited, and so is the wait.
    pub(crate) async fn enter(&self, failing: bool) -> Option<SemaphorePermit<'_>> {
        let lane = if failing { &self.failing } else { &self.healthy };
        // The lanes are never closed.
        lane.acquire().await.ok()
    }
}
