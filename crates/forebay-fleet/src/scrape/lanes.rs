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

#[cfg(test)]
mod tests {
    use tokio::runtime;

    use super::*;

    #[test]
    fn those_that_fail_hold_up_nobody_else() {
        let lanes = Lanes::new();
        let runtime = runtime::Builder::new_current_thread().enable_time().build().unwrap();
        let entered = async |failing| {
            // Asked once: a free place is given at once.
            tokio::time::timeout(std::time::Duration::ZERO, lanes.enter(failing)).await.ok().flatten()
        };
        runtime.block_on(async {
            let mut held = Vec::new();
            for _ in 0..FAILING {
                held.extend(entered(true).await);
            }
            assert_eq!(held.len(), FAILING);
            assert!(entered(true).await.is_none(), "its lane is full");
            let mut healthy = Vec::new();
            for _ in 0..HEALTHY {
                healthy.extend(entered(false).await);
            }
            assert_eq!(healthy.len(), HEALTHY);
            assert!(entered(false).await.is_none(), "its lane is full");
            held.pop();
            assert!(entered(true).await.is_some(), "a place has become free");
        });
    }
}
