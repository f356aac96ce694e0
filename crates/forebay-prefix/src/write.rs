//! The writer: everything that changes the index, one at a time.

mod commit;
mod confirmed;
mod endpoints;
mod evict;
mod flight;
mod hold;
mod holds;
mod lists;
mod restored;
mod runs;
mod tree;
mod trust;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap, VecDeque};

use forebay_core::Time;

use crate::store::{Memory, Store, Table};
use crate::{IndexConfig, Stats};

pub(crate) use endpoints::{Endpoint, Lane};
pub(crate) use restored::Segment;

/// The writer's own state, behind the index's lock.
pub(crate) struct Writer {
    pub(crate) config: IndexConfig,
    pub(crate) memory: Memory,
    /// (run, lane) to its hold.
    pub(crate) holds: Table,
    pub(crate) lanes: Vec<Lane>,
    pub(crate) free_lanes: BTreeSet<u16>,
    /// By endpoint slot.
    pub(crate) endpoints: BTreeMap<u32, Endpoint>,
    /// Forgotten lanes that still have holds.
    pub(crate) dying: VecDeque<u16>,
    /// Lanes with committed blocks by the age of their oldest, or by an earlier
    /// age of it: looked at again when it comes up.
    pub(crate) oldest: BinaryHeap<Reverse<(u32, u16)>>,
    /// Where the search for confirmed blocks to evict goes on.
    pub(crate) next_victim: u16,
    /// Different chains in flight, over all lanes.
    pub(crate) flights: usize,
    pub(crate) stats: Stats,
}

impl Writer {
    pub(crate) fn new(config: IndexConfig, chunks: usize) -> Writer {
        Writer {
            config,
            memory: Memory::new(chunks as u32),
            holds: Table::new(chunks),
            lanes: Vec::new(),
            free_lanes: BTreeSet::new(),
            endpoints: BTreeMap::new(),
            dying: VecDeque::new(),
            oldest: BinaryHeap::new(),
            next_victim: 0,
            flights: 0,
            stats: Stats::default(),
        }
    }

    /// Numbers for metrics.
    pub(crate) fn stats(&self, store: &Store) -> Stats {
        Stats {
            blocks: u64::from(store.blocks.len()),
            holds: u64::from(self.holds.len()),
            endpoints: self.endpoints.values().filter(|e| !e.retired).count() as u64,
            ..self.stats
        }
    }
}

/// Age of a block, in hundredths of a second since the origin: coarse, because
/// it only says which of two endpoints has the older blocks.
pub(crate) fn tick_of(now: Time) -> u32 {
    u32::try_from(now.as_nanos() / 10_000_000).unwrap_or(u32::MAX)
}
