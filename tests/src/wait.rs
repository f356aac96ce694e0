//! Waiting for a condition, with a limit and a name.

use std::time::Duration;

use tokio::time::Instant;

use crate::LIMIT;

/// Asks `check` every few milliseconds until it gives a value; panics with `what` at the limit.
pub async fn until<T>(what: &str, mut check: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + LIMIT;
    loop {
        if let Some(value) = check() {
            return value;
        }
        assert!(Instant::now() < deadline, "waited {LIMIT:?} for {what}");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

/// As [`until`], for a check that waits itself.
pub async fn until_async<T>(what: &str, mut check: impl AsyncFnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + LIMIT;
    loop {
        if let Some(value) = check().await {
            return value;
        }
        assert!(Instant::now() < deadline, "waited {LIMIT:?} for {what}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
