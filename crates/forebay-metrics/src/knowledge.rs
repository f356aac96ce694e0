//! What the process as a whole knows of prefixes and of its decisions. Each
//! count is kept elsewhere and taken over before a rendering.

use crate::cells::FloatCell;
use crate::labels::{Eviction, KvEvent, KvFault, Label, LogEntry, PerLabel};

/// The prefix index, all Gates together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PrefixIndexReading {
    /// Memory that it uses, in bytes.
    pub bytes: u64,
    /// Distinct blocks in it.
    pub blocks: u64,
    /// Blocks dropped since the start because an endpoint holds no more.
    pub evicted_by_capacity: u64,
    /// Blocks dropped since the start because the index may use no more memory.
    pub evicted_by_memory: u64,
}

/// KV-cache events of all engines since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KvReading {
    /// Events handed on.
    pub applied: u64,
    /// Events of types that are not known.
    pub skipped: u64,
    /// Messages that could not be read.
    pub unreadable: u64,
    /// Connections that failed or broke.
    pub disconnected: u64,
    /// Times that batches were missed.
    pub gaps: u64,
    /// Replays that failed.
    pub failed_replays: u64,
    /// Times that all was forgotten because batches stayed missing.
    pub resets: u64,
    /// Restarts that were noticed.
    pub restarts: u64,
}

/// The decision log since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DecisionLogReading {
    /// Entries written.
    pub written: u64,
    /// Entries lost because the writer could not keep up.
    pub lost: u64,
    /// Writes that failed.
    pub failed: u64,
    /// Entries dropped because the file was full and could not be put aside.
    pub full: u64,
}

#[derive(Default)]
pub(crate) struct Knowledge {
    pub(crate) index_bytes: FloatCell,
    pub(crate) index_blocks: FloatCell,
    pub(crate) evictions: PerLabel<Eviction, FloatCell>,
    pub(crate) kv_events: PerLabel<KvEvent, FloatCell>,
    pub(crate) kv_faults: PerLabel<KvFault, FloatCell>,
    pub(crate) log: PerLabel<LogEntry, FloatCell>,
}

impl Knowledge {
    pub(crate) fn set_index(&self, reading: PrefixIndexReading) {
        self.index_bytes.set(Some(reading.bytes as f64));
        self.index_blocks.set(Some(reading.blocks as f64));
        set(&self.evictions, Eviction::Capacity, Some(reading.evicted_by_capacity));
        set(&self.evictions, Eviction::Memory, Some(reading.evicted_by_memory));
    }

    pub(crate) fn set_kv_events(&self, reading: Option<KvReading>) {
        let of = |count: fn(KvReading) -> u64| reading.map(count);
        set(&self.kv_events, KvEvent::Applied, of(|r| r.applied));
        set(&self.kv_events, KvEvent::Skipped, of(|r| r.skipped));
        set(&self.kv_events, KvEvent::Unreadable, of(|r| r.unreadable));
        set(&self.kv_faults, KvFault::Disconnected, of(|r| r.disconnected));
        set(&self.kv_faults, KvFault::Gap, of(|r| r.gaps));
        set(&self.kv_faults, KvFault::ReplayFailed, of(|r| r.failed_replays));
        set(&self.kv_faults, KvFault::Reset, of(|r| r.resets));
        set(&self.kv_faults, KvFault::Restart, of(|r| r.restarts));
    }

    pub(crate) fn set_log(&self, reading: Option<DecisionLogReading>) {
        set(&self.log, LogEntry::Written, reading.map(|r| r.written));
        set(&self.log, LogEntry::Lost, reading.map(|r| r.lost));
        set(&self.log, LogEntry::Failed, reading.map(|r| r.failed));
        set(&self.log, LogEntry::Full, reading.map(|r| r.full));
    }
}

fn set<L: Label>(cells: &PerLabel<L, FloatCell>, label: L, count: Option<u64>) {
    cells.of(label).set(count.map(|n| n as f64));
}
