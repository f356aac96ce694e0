//! What engines say of their caches, on its way into the prefix index.

use std::collections::BTreeMap;
use std::sync::Arc;

use forebay_core::PoolId;
use forebay_fleet::kv::{KvReset, KvSink, engine_event};
use forebay_live::{EndpointKey, EndpointView, Live};
use forebay_prefix::engine_map::{EngineMap, IndexOp, lead};
use forebay_proxy::{Endpoint, Proxy};
use forebay_wire::kv_events::Batch;
use parking_lot::Mutex;

/// Memory for what one engine holds.
const MAX_BYTES: usize = 128 << 20;

/// One engine's cache, and what of it is in the index.
struct Followed {
    key: EndpointKey,
    pools: Arc<[PoolId]>,
    /// The size of the index's blocks there was told to the pools.
    block: Option<u32>,
    map: EngineMap,
    /// Kept for its memory.
    ops: Vec<IndexOp>,
}

/// Turns events into what the index holds.
pub(crate) struct Caches {
    live: Arc<Live<Endpoint>>,
    proxy: Arc<Proxy>,
    /// By the endpoint's name. Each has its own lock: a burst of one engine
    /// does not hold up another's.
    followed: BTreeMap<String, Mutex<Followed>>,
}

impl Caches {
    /// Follows these endpoints; each with the model whose prompts it caches.
    pub(crate) fn new<'a>(
        proxy: Arc<Proxy>,
        endpoints: impl Iterator<Item = (EndpointView<Endpoint>, &'a str)>,
    ) -> Caches {
        let followed = endpoints
            .map(|(view, model)| {
                let map = EngineMap::new(model, MAX_BYTES);
                let followed =
                    Followed { key: view.key, pools: view.pools, block: None, map, ops: Vec::new() };
                (view.member.name.clone(), Mutex::new(followed))
            })
            .collect();
        Caches { live: Arc::clone(proxy.live()), proxy, followed }
    }

    fn carry_out(&self, followed: &mut Followed) {
        if let Some(index) = self.live.index(followed.key.gate) {
            lead(index, followed.key.id, &followed.ops);
        }
        followed.ops.clear();
        let block = followed.map.index_block();
        if let Some(tokens) = block
            && std::mem::replace(&mut followed.block, block) != block
        {
            followed.pools.iter().for_each(|pool| self.proxy.registry().set_index_block(*pool, tokens));
        }
    }
}

impl KvSink for Caches {
    fn batch(&self, endpoint: &str, rank: u32, _seq: u64, batch: &Batch) {
        let Some(followed) = self.followed.get(endpoint) else { return };
        let followed = &mut *followed.lock();
        self.live.tells(followed.key, true);
        for event in &batch.events {
            if let Some(event) = engine_event(event) {
                followed.map.apply(rank, &event, &mut followed.ops);
            }
        }
        self.carry_out(followed);
    }

    fn reset(&self, endpoint: &str, rank: u32, why: KvReset) {
        let Some(followed) = self.followed.get(endpoint) else { return };
        tracing::info!(url = endpoint, rank, why = ?why, "what the engine's cache holds must be learned anew");
        let followed = &mut *followed.lock();
        followed.map.reset(rank, &mut followed.ops);
        self.carry_out(followed);
        if why == KvReset::Restarted {
            self.live.told_restart(followed.key);
        }
    }
}
