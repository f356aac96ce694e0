//! What engines say of their caches, on its way into the prefix index.

mod blocks;
mod sources;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use forebay_core::{PoolId, Time};
use forebay_fleet::kv::{KvReset, KvSettings, KvSink, engine_event};
use forebay_live::{EndpointKey, EndpointView, EngineCaches, Live};
use forebay_metrics::KvBlocksReading;
use forebay_prefix::engine_map::{EngineMap, IndexOp, doubt, lead, trust};
use forebay_proxy::{Endpoint, Proxy};
use forebay_wire::kv_events::Batch;
use parking_lot::Mutex;

use blocks::IndexBlocks;

pub(crate) use sources::KvSources;

/// A rank that began anew so shortly before the engine's pages show it began anew
/// with it: what it has said since is so.
const SAME_RESTART: Duration = Duration::from_secs(30);

/// One engine's caches, and what of them is in the index.
struct Followed {
    key: EndpointKey,
    pools: Arc<[PoolId]>,
    /// The size of the index's blocks there was told to the pools.
    block: Option<u32>,
    map: EngineMap,
    ranks: Ranks,
    /// What it said is in the index as a guess, because ranks are silent.
    doubted: bool,
    /// Kept for its memory.
    ops: Vec<IndexOp>,
}

/// The ranks of one engine.
#[derive(Default)]
struct Ranks {
    /// Those that nobody hears.
    silent: BTreeSet<u32>,
    /// Restarts of the engine, however they showed.
    restarts: u64,
    /// How many of them each rank took part in, and when it last showed one.
    of: BTreeMap<u32, (u64, Option<Time>)>,
}

impl Ranks {
    /// A rank says something: it took part in all that there was.
    fn speaks(&mut self, rank: u32) {
        self.of.entry(rank).or_insert((self.restarts, None));
    }

    /// A rank's events show that it began anew; whether the engine had not been
    /// known to. Each rank shows it when its next batch comes, which may be
    /// minutes after the others.
    fn restarted(&mut self, rank: u32, now: Time) -> bool {
        let of = self.of.get(&rank).map_or(0, |(of, _)| *of);
        let is_new = of >= self.restarts;
        self.restarts += u64::from(is_new);
        self.of.insert(rank, (self.restarts, Some(now)));
        is_new
    }

    fn restarted_just_now(&self, rank: u32, now: Time) -> bool {
        let at = self.of.get(&rank).and_then(|(_, at)| *at);
        at.is_some_and(|at| now.since(at) <= SAME_RESTART)
    }
}

/// Turns events into what the index holds.
pub(crate) struct Caches {
    live: Arc<Live<Endpoint>>,
    proxy: Arc<Proxy>,
    /// By the endpoint's name. Each has its own lock: a burst of one engine
    /// does not hold up another's.
    followed: BTreeMap<String, Mutex<Followed>>,
    names: BTreeMap<EndpointKey, String>,
    blocks: IndexBlocks,
    /// Times that an engine's blocks were not those of its pool.
    mixed: AtomicU64,
}

impl Caches {
    /// Follows these endpoints; each with the model whose prompts it caches. What
    /// their engines hold takes `max_bytes` at most, the same share for each.
    pub(crate) fn new<'a>(
        proxy: Arc<Proxy>,
        endpoints: impl Iterator<Item = (EndpointView<Endpoint>, &'a str)>,
        max_bytes: usize,
    ) -> Caches {
        let endpoints: Vec<_> = endpoints.collect();
        let share = max_bytes / endpoints.len().max(1);
        let names = endpoints.iter().map(|(view, _)| (view.key, view.member.name.clone())).collect();
        let followed = endpoints
            .into_iter()
            .map(|(view, model)| {
                let followed = Followed {
                    key: view.key,
                    pools: view.pools,
                    block: None,
                    map: EngineMap::new(model, share),
                    ranks: Ranks::default(),
                    doubted: false,
                    ops: Vec::new(),
                };
                (view.member.name.clone(), Mutex::new(followed))
            })
            .collect();
        Caches {
            live: Arc::clone(proxy.live()),
            proxy,
            followed,
            names,
            blocks: IndexBlocks::default(),
            mixed: AtomicU64::new(0),
        }
    }

    /// Bytes that it takes.
    pub(crate) fn bytes(&self) -> usize {
        self.followed.values().map(|followed| followed.lock().map.bytes()).sum()
    }

    /// Times that an engine's blocks were not those of its pool.
    pub(crate) fn mixed(&self) -> u64 {
        self.mixed.load(Relaxed)
    }

    /// What became of the blocks that engines told of.
    pub(crate) fn blocks(&self) -> KvBlocksReading {
        let mut sum = KvBlocksReading::default();
        for followed in self.followed.values() {
            let counters = *followed.lock().map.counters();
            sum.stored += counters.stored;
            sum.repeated += counters.repeated;
            sum.removed += counters.removed;
            sum.unplaced += counters.unplaced;
            sum.opaque += counters.opaque;
            sum.short += counters.short;
            sum.other_groups += counters.other_groups;
            sum.unknown_removed += counters.unknown_removed;
            sum.replaced += counters.replaced;
            sum.over_limit += counters.over_limit;
            sum.malformed += counters.malformed;
        }
        sum
    }

    fn carry_out(&self, name: &str, followed: &mut Followed) {
        if let Some(index) = self.live.index(followed.key.gate) {
            lead(index, followed.key.id, &followed.ops);
        }
        followed.ops.clear();
        let block = followed.map.index_block();
        let Some(tokens) = block.filter(|_| followed.block != block) else { return };
        followed.block = block;
        for &pool in followed.pools.iter() {
            let counted = self.blocks.show(pool, followed.key, tokens);
            if counted.is_new {
                self.proxy.registry().set_index_block(pool, counted.tokens);
            }
            if counted.others > 0 {
                self.mixed.fetch_add(1, Relaxed);
                tracing::warn!(
                    url = name,
                    block = tokens,
                    pool_block = counted.tokens,
                    others = counted.others,
                    "engines of one pool have caches in blocks of different sizes; only those with the pool's are matched"
                );
            }
        }
    }
}

impl KvSink for Caches {
    fn batch(&self, endpoint: &str, rank: u32, _seq: u64, batch: &Batch) {
        let Some(followed) = self.followed.get(endpoint) else { return };
        let followed = &mut *followed.lock();
        followed.ranks.speaks(rank);
        if followed.ranks.silent.is_empty() {
            self.live.tells(followed.key, true);
        }
        for event in &batch.events {
            if let Some(event) = engine_event(event) {
                followed.map.apply(rank, &event, &mut followed.ops);
            }
        }
        self.carry_out(endpoint, followed);
    }

    fn reset(&self, endpoint: &str, rank: u32, why: KvReset) {
        let Some(followed) = self.followed.get(endpoint) else { return };
        tracing::info!(url = endpoint, rank, why = ?why, "what the engine's cache holds must be learned anew");
        let followed = &mut *followed.lock();
        // Of the other ranks nothing is known to be gone.
        followed.map.reset(rank, &mut followed.ops);
        self.carry_out(endpoint, followed);
        if why == KvReset::Restarted && followed.ranks.restarted(rank, self.live.clock().now()) {
            self.live.told_restart(followed.key);
        }
    }

    fn silent(&self, endpoint: &str, rank: u32) {
        let Some(followed) = self.followed.get(endpoint) else { return };
        let followed = &mut *followed.lock();
        if !followed.ranks.silent.insert(rank) || followed.doubted {
            return;
        }
        let seconds = KvSettings::default().silent_after.as_secs();
        tracing::info!(
            url = endpoint,
            rank,
            seconds,
            "no connection for KV events; answers tell what the engine holds until there is one"
        );
        self.live.tells(followed.key, false);
        if let Some(index) = self.live.index(followed.key.gate).filter(|_| followed.map.blocks() > 0) {
            doubt(index, followed.key.id, &followed.map);
            followed.doubted = true;
        }
    }

    fn heard(&self, endpoint: &str, rank: u32) {
        let Some(followed) = self.followed.get(endpoint) else { return };
        let followed = &mut *followed.lock();
        if !followed.ranks.silent.remove(&rank) || !followed.ranks.silent.is_empty() {
            return;
        }
        tracing::info!(url = endpoint, "the engine's KV events tell again what it holds");
        if let Some(index) = self.live.index(followed.key.gate).filter(|_| followed.doubted) {
            trust(index, followed.key.id, &followed.map);
        }
        followed.doubted = false;
        self.live.tells(followed.key, true);
    }
}

impl EngineCaches for Caches {
    fn restarted(&self, key: EndpointKey) -> bool {
        let Some(name) = self.names.get(&key) else { return false };
        let Some(followed) = self.followed.get(name) else { return false };
        let (now, followed) = (self.live.clock().now(), &mut *followed.lock());
        let Some(index) = self.live.index(key.gate) else { return false };
        let (kept, gone): (Vec<u32>, Vec<u32>) =
            followed.map.ranks().partition(|rank| followed.ranks.restarted_just_now(*rank, now));
        if kept.is_empty() {
            followed.map.clear();
            index.forget(key.id);
        } else {
            gone.into_iter().for_each(|rank| followed.map.reset(rank, &mut followed.ops));
            self.carry_out(name, followed);
            index.forget_committed(key.id);
        }
        let shown = followed.ranks.of.keys().any(|rank| followed.ranks.restarted_just_now(*rank, now));
        followed.ranks.restarts += u64::from(!shown);
        true
    }
}

#[cfg(test)]
mod tests;
