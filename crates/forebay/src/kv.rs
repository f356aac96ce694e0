//! What engines say of their caches, on its way into the prefix index.

use std::collections::BTreeMap;
use std::sync::Arc;

use forebay_core::EndpointId;
use forebay_fleet::kv::{KvReset, KvSink, engine_event};
use forebay_live::{EndpointKey, Live};
use forebay_prefix::PrefixIndex;
use forebay_prefix::engine_map::{EngineMap, IndexOp};
use forebay_proxy::Endpoint;
use forebay_wire::kv_events::Batch;
use parking_lot::Mutex;

/// Blocks of one engine that are followed at most: 64 bytes of memory each.
const MAX_BLOCKS: usize = 1 << 20;

/// One engine's cache, and what of it is in the index.
struct Followed {
    key: EndpointKey,
    map: EngineMap,
    /// Kept for its memory.
    ops: Vec<IndexOp>,
}

/// Turns events into what the index holds.
pub(crate) struct Caches {
    live: Arc<Live<Endpoint>>,
    /// By the endpoint's name. Each has its own lock: a burst of one engine
    /// does not hold up another's.
    followed: BTreeMap<String, Mutex<Followed>>,
}

impl Caches {
    /// Follows these endpoints; each with the model whose prompts it caches.
    pub(crate) fn new<'a>(
        live: Arc<Live<Endpoint>>,
        endpoints: impl Iterator<Item = (String, EndpointKey, &'a str)>,
    ) -> Caches {
        let followed = endpoints
            .map(|(name, key, model)| {
                let map = EngineMap::new(model, MAX_BLOCKS);
                (name, Mutex::new(Followed { key, map, ops: Vec::new() }))
            })
            .collect();
        Caches { live, followed }
    }

    /// Tokens in a block of the index for this endpoint, once its engine showed
    /// the size of its own.
    pub(crate) fn index_block(&self, endpoint: &str) -> Option<u32> {
        self.followed.get(endpoint)?.lock().map.index_block()
    }

    fn carry_out(&self, followed: &mut Followed) {
        if let Some(index) = self.live.index(followed.key.gate) {
            let id = followed.key.id;
            followed.ops.drain(..).for_each(|op| carry_out(index, id, op));
        }
    }
}

fn carry_out(index: &PrefixIndex, id: EndpointId, op: IndexOp) {
    match op {
        IndexOp::Confirm { hash, parent, tier } => index.insert_confirmed_after(id, tier, parent, &[hash]),
        IndexOp::Remove { hash, tier } => index.remove_confirmed_in(id, tier, &[hash]),
        IndexOp::Forget => index.forget(id),
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
            self.live.restarted(followed.key);
        }
    }
}
