//! Where everything lives: memory in units of one cache line that readers may
//! look at while a writer changes it.
//!
//! Every word is an atomic, so a reader that races with a writer sees old and
//! new words mixed, never a torn word; the version of a run tells it to read
//! again. Memory is never returned while the index lives, only used again, so
//! no reader can look at anything that is gone.

mod arena;
mod lanes;
mod memory;
pub(crate) mod run;
pub(crate) mod set;
mod table;

pub(crate) use arena::{Arena, CHUNK_BYTES, Unit};
pub(crate) use lanes::{Lanes, MAX_LANES, MAX_SLOTS, Owner, SURE};
pub(crate) use memory::Memory;
pub(crate) use table::Table;

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};

/// Runs that [`Store::warm_runs`] looks ahead.
pub(crate) const AHEAD: usize = 16;

/// Versions begin here: nothing else that a unit holds in its first word looks
/// like one, so a run that became something else is known by it.
const VERSIONS: u64 = 0xA5C3 << 48;

/// What readers and the writer share.
pub(crate) struct Store {
    pub(crate) arena: Arena,
    /// Block hash to the run it is part of, and where in it.
    pub(crate) blocks: Table,
    pub(crate) lanes: Lanes,
    /// Bytes in use, for [`bytes`](crate::PrefixIndex::bytes).
    pub(crate) bytes: AtomicUsize,
    version: AtomicU64,
}

impl Store {
    /// Room for `chunks` chunks of units in all.
    pub(crate) fn new(chunks: usize) -> Store {
        Store {
            arena: Arena::new(chunks),
            blocks: Table::new(chunks),
            lanes: Lanes::new(),
            bytes: AtomicUsize::new(0),
            version: AtomicU64::new(VERSIONS),
        }
    }

    #[inline]
    pub(crate) fn unit(&self, id: u32) -> &Unit {
        self.arena.unit(id)
    }

    /// A version that no run has had before; even.
    pub(crate) fn next_version(&self) -> u64 {
        // Only the writer asks.
        let version = self.version.load(Relaxed) + 2;
        self.version.store(version, Relaxed);
        version
    }

    /// Brings near what the table knows of `hashes`: cache misses that would come
    /// one after the other come at once.
    pub(crate) fn warm_blocks(&self, hashes: &[u64]) {
        std::hint::black_box(hashes.iter().fold(0, |sum, &hash| sum ^ self.blocks.warm(hash)));
    }

    /// Brings near the runs that begin every [`run::MAX`] blocks from the start
    /// of `chain` on, as far as [`AHEAD`] of them. Where the runs are shorter
    /// this is in vain, and cheap.
    pub(crate) fn warm_runs(&self, chain: &[u64]) {
        let starts = || chain.iter().copied().step_by(run::MAX).take(AHEAD);
        let mut sum = starts().fold(0, |sum, hash| sum ^ self.blocks.warm(hash));
        let mut ids = [0; AHEAD];
        for (id, hash) in ids.iter_mut().zip(starts()) {
            *id = self.blocks.guess(hash);
            sum ^= self.unit(*id).get(0);
        }
        for id in ids.into_iter().take_while(|&id| id != 0) {
            sum ^= run::warm(self, self.unit(id));
        }
        std::hint::black_box(sum);
    }

    /// The run that block `hash` is part of, and its place in it.
    pub(crate) fn find(&self, hash: u64) -> Option<(u32, usize)> {
        let found = self.blocks.find(&self.arena, hash, |run, at| run::holds(self, run, at, hash));
        found.map(|(run, at)| (run, at as usize))
    }
}
