//! What the tasks of one load share. One thread, so plain cells.

use std::cell::{Cell, OnceCell};

use tokio::time::Instant;

use super::gaps::Gaps;

#[derive(Debug, Default)]
pub(crate) struct Counters {
    done: Cell<u64>,
    events: Cell<u64>,
    failed: Cell<u64>,
    first_failure: OnceCell<String>,
    stopped: Cell<bool>,
    /// Between the events of a stream.
    pub(crate) gaps: Gaps,
}

impl Counters {
    pub(crate) fn one_done(&self) {
        self.done.set(self.done.get() + 1);
    }

    pub(crate) fn one_event(&self) {
        self.events.set(self.events.get() + 1);
    }

    /// One event of a stream of which `last` is when the one before came.
    pub(crate) fn one_event_after(&self, last: &Cell<Option<Instant>>) {
        let now = Instant::now();
        if let Some(before) = last.replace(Some(now)) {
            self.gaps.one(now - before);
        }
        self.one_event();
    }

    pub(crate) fn one_failed(&self, why: &str) {
        self.failed.set(self.failed.get() + 1);
        self.first_failure.get_or_init(|| why.to_owned());
    }

    pub(crate) fn stop(&self) {
        self.stopped.set(true);
    }

    /// Requests or streams that ended as they should.
    pub(crate) fn done(&self) -> u64 {
        self.done.get()
    }

    /// Streamed events so far.
    pub(crate) fn events(&self) -> u64 {
        self.events.get()
    }

    pub(crate) fn failed(&self) -> u64 {
        self.failed.get()
    }

    pub(crate) fn first_failure(&self) -> Option<&str> {
        self.first_failure.get().map(String::as_str)
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.stopped.get()
    }
}
