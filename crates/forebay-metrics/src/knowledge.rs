//! What the process as a whole knows of prefixes and of its decisions. Each
//! count is kept elsewhere and taken over before a rendering.

use crate::cells::FloatCell;
use crate::labels::{Eviction, KvBlock, KvEvent, KvFault, Label, LogEntry, PerLabel};

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
    /// Times that an engine's blocks were not of its pool's size.
    pub mixed_blocks: u64,
}

/// What became of the blocks that KV-cache events told of, since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KvBlocksReading {
    /// Stored, and followed.
    pub stored: u64,
    /// Stored again where they were already.
    pub repeated: u64,
    /// Removed.
    pub removed: u64,
    /// Not indexed: the block before them is not known.
    pub unplaced: u64,
    /// Not indexed: tokens do not tell what they hold.
    pub opaque: u64,
    /// Not indexed: shorter than the engine's blocks.
    pub short: u64,
    /// Not indexed: of a KV cache group that makes no hit.
    pub other_groups: u64,
    /// Removed without being known.
    pub unknown_removed: u64,
    /// Gone because another block was stored under their name.
    pub replaced: u64,
    /// Not indexed: no room is left for blocks of that endpoint.
    pub over_limit: u64,
    /// Events whose numbers contradict each other.
    pub malformed: u64,
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
    pub(crate) kv_blocks: PerLabel<KvBlock, FloatCell>,
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
        set(&self.kv_faults, KvFault::MixedBlocks, of(|r| r.mixed_blocks));
    }

    pub(crate) fn set_kv_blocks(&self, reading: Option<KvBlocksReading>) {
        let of = |count: fn(KvBlocksReading) -> u64| reading.map(count);
        set(&self.kv_blocks, KvBlock::Stored, of(|r| r.stored));
        set(&self.kv_blocks, KvBlock::Repeated, of(|r| r.repeated));
        set(&self.kv_blocks, KvBlock::Removed, of(|r| r.removed));
        set(&self.kv_blocks, KvBlock::Unplaced, of(|r| r.unplaced));
        set(&self.kv_blocks, KvBlock::Opaque, of(|r| r.opaque));
        set(&self.kv_blocks, KvBlock::Short, of(|r| r.short));
        set(&self.kv_blocks, KvBlock::OtherGroup, of(|r| r.other_groups));
        set(&self.kv_blocks, KvBlock::UnknownRemoved, of(|r| r.unknown_removed));
        set(&self.kv_blocks, KvBlock::Replaced, of(|r| r.replaced));
        set(&self.kv_blocks, KvBlock::OverLimit, of(|r| r.over_limit));
        set(&self.kv_blocks, KvBlock::Malformed, of(|r| r.malformed));
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
