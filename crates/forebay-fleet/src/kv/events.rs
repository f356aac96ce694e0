//! From events as they are written to events as the index takes them.

use forebay_prefix::Tier as IndexTier;
use forebay_prefix::engine_map::{EngineEvent, StoredBlocks};
use forebay_wire::kv_events::{Attention, KvEvent, Tier};
use xxhash_rust::xxh3::xxh3_64;

/// The event for [`forebay_prefix::engine_map::EngineMap::apply`]; `None` for
/// tiers that the index does not know (disks and shared stores).
pub fn engine_event(event: &KvEvent) -> Option<EngineEvent<'_>> {
    Some(match event {
        KvEvent::Stored(stored) => EngineEvent::Stored(StoredBlocks {
            hashes: &stored.hashes,
            parent: stored.parent,
            tokens: &stored.tokens,
            block_size: stored.block_size,
            declared: stored.declared,
            adapter: stored.adapter.as_deref(),
            salt: stored.salt.as_deref().map(|salt| xxh3_64(salt.as_bytes())),
            tier: index_tier(stored.tier)?,
            group: stored.group,
            full_attention: match stored.attention {
                Attention::Full => Some(true),
                Attention::Other => Some(false),
                Attention::Unknown => None,
            },
            identified: stored.identified,
        }),
        KvEvent::Removed(removed) => EngineEvent::Removed {
            hashes: &removed.hashes,
            tier: match removed.tier {
                Some(tier) => Some(index_tier(tier)?),
                None => None,
            },
            group: removed.group,
        },
        KvEvent::Cleared => EngineEvent::Cleared,
    })
}

fn index_tier(tier: Tier) -> Option<IndexTier> {
    match tier {
        Tier::Gpu => Some(IndexTier::Gpu),
        Tier::Host => Some(IndexTier::Host),
        Tier::Other => None,
    }
}
