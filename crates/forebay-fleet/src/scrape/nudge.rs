//! How one endpoint's loop is told that something cannot wait.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use tokio::sync::Notify;

#[derive(Debug, Default)]
pub(crate) struct Nudge {
    notify: Notify,
    load: AtomicBool,
    models: AtomicBool,
    /// It waits longer than a busy one would, for want of work.
    resting: AtomicBool,
}

impl Nudge {
    /// The load is to be read at once.
    pub(crate) fn ask_load(&self) {
        self.load.store(true, Relaxed);
        self.notify.notify_one();
    }

    /// The models are to be read as soon as may be.
    pub(crate) fn ask_models(&self) {
        self.models.store(true, Relaxed);
        self.notify.notify_one();
    }

    pub(crate) async fn asked(&self) {
        self.notify.notified().await;
    }

    pub(crate) fn take_load(&self) -> bool {
        self.load.swap(false, Relaxed)
    }

    pub(crate) fn take_models(&self) -> bool {
        self.models.swap(false, Relaxed)
    }

    pub(crate) fn rest(&self, resting: bool) {
        self.resting.store(resting, Relaxed);
    }

    pub(crate) fn is_resting(&self) -> bool {
        self.resting.load(Relaxed)
    }
}
