//! What happened on one source.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

/// Counters of a source, written by its task.
#[derive(Debug, Default)]
pub(super) struct Counts {
    pub(super) connected: AtomicBool,
    pub(super) connections: AtomicU64,
    pub(super) failures: AtomicU64,
    pub(super) batches: AtomicU64,
    pub(super) events: AtomicU64,
    pub(super) skipped: AtomicU64,
    pub(super) unreadable: AtomicU64,
    pub(super) gaps: AtomicU64,
    pub(super) replays: AtomicU64,
    pub(super) failed_replays: AtomicU64,
    pub(super) replayed: AtomicU64,
    pub(super) resets: AtomicU64,
    pub(super) restarts: AtomicU64,
}

/// What happened on one source since it is followed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KvStatus {
    /// The publisher is connected now.
    pub connected: bool,
    /// Connections that were made.
    pub connections: u64,
    /// Connections that failed or broke.
    pub failures: u64,
    /// Batches handed on.
    pub batches: u64,
    /// Events in them.
    pub events: u64,
    /// Events of types that are not known here.
    pub skipped: u64,
    /// Messages that could not be read.
    pub unreadable: u64,
    /// Times that batches were missed.
    pub gaps: u64,
    /// Replays that were asked for.
    pub replays: u64,
    /// Replays that failed or took too long.
    pub failed_replays: u64,
    /// Batches that a replay brought.
    pub replayed: u64,
    /// Times that all was forgotten because batches stayed missing or could not be read.
    pub resets: u64,
    /// Restarts of the engine that were noticed.
    pub restarts: u64,
}

impl Counts {
    pub(super) fn add(counter: &AtomicU64, n: u64) {
        counter.fetch_add(n, Relaxed);
    }

    pub(super) fn status(&self) -> KvStatus {
        let read = |counter: &AtomicU64| counter.load(Relaxed);
        KvStatus {
            connected: self.connected.load(Relaxed),
            connections: read(&self.connections),
            failures: read(&self.failures),
            batches: read(&self.batches),
            events: read(&self.events),
            skipped: read(&self.skipped),
            unreadable: read(&self.unreadable),
            gaps: read(&self.gaps),
            replays: read(&self.replays),
            failed_replays: read(&self.failed_replays),
            replayed: read(&self.replayed),
            resets: read(&self.resets),
            restarts: read(&self.restarts),
        }
    }
}
