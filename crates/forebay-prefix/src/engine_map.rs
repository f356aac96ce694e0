//! From an engine's own block names to the index's hashes.
//!
//! An engine announces blocks under hashes of its own, whose definition depends
//! on its version and its settings. [`EngineMap`] takes them as names: it
//! hashes the token ids of the events into the chain that the index uses, and
//! remembers which name stands for which place of which chain, so that a later
//! child, a removal or a copy in a lower tier can be understood.
//!
//! The index's blocks are whole numbers of the engine's ([`index_block`]), so
//! an index block is there when all of its engine blocks are, and gone with the
//! first that goes. Tokens of engine blocks are kept only as long as an index
//! block may still grow from them.
//!
//! [`Sequence`] says, from the numbers of the batches, whether any were missed.
//! Whoever feeds the map asks it first: the map takes events in order, and is
//! [reset](EngineMap::reset) when some are lost for good.

mod counters;
mod held;
mod lead;
mod nodes;
mod rank;
mod sequence;

pub use counters::Counters;
pub use lead::{doubt, lead, trust};
pub use sequence::{Sequence, Step};

use std::collections::{BTreeMap, BTreeSet};

use held::Held;
use rank::{Context, Rank};

use crate::Tier;

/// The fewest tokens of a block of the token index.
pub const MIN_INDEX_BLOCK: u32 = 64;

/// Ranks of one endpoint that are followed; more are left out.
const MAX_RANKS: usize = 256;

/// Every tier.
const TIERS: [Tier; 2] = [Tier::Gpu, Tier::Host];

/// The place of a tier in tables of counts, and of its bit in sets of tiers.
const fn tier_index(tier: Tier) -> usize {
    match tier {
        Tier::Gpu => 0,
        Tier::Host => 1,
    }
}

const fn bit(tier: Tier) -> u8 {
    1 << tier_index(tier)
}

/// Tokens in a block of the index, for an engine with blocks of `engine_block`
/// tokens (at least 1): the smallest multiple that is not below 64.
pub const fn index_block(engine_block: u32) -> u32 {
    let engine_block = if engine_block == 0 { 1 } else { engine_block };
    engine_block.saturating_mul(MIN_INDEX_BLOCK.div_ceil(engine_block))
}

/// Blocks that an engine stored, as a chain.
#[derive(Clone, Copy, Debug)]
pub struct StoredBlocks<'a> {
    /// The engine's names, in order.
    pub hashes: &'a [u64],
    /// The name of the block before the first; `None` where a prompt begins.
    pub parent: Option<u64>,
    /// `block_size` token ids for each block; empty for a copy, in `tier`, of
    /// blocks that are known already.
    pub tokens: &'a [u32],
    /// Tokens in a block of the engine.
    pub block_size: u32,
    /// The engine says that this is the size of its blocks. If not, it is what
    /// these have, and the last of a prompt may have fewer than the others.
    pub declared: bool,
    /// The adapter's name; read where a prompt begins.
    pub adapter: Option<&'a str>,
    /// XXH3 of the salt, as for [`crate::seed`]; read where a prompt begins.
    pub salt: Option<u64>,
    /// Where they lie.
    pub tier: Tier,
    /// The KV cache group, in models with several.
    pub group: Option<u32>,
    /// Whether that group looks at the whole prefix: others never make a hit.
    /// `None` when the engine does not say.
    pub full_attention: Option<bool>,
    /// How many of the first blocks hold nothing but these tokens. What comes
    /// after (images, unnamed adapters) is not indexed, nor what follows it.
    pub identified: usize,
}

/// One change of an engine's cache.
#[derive(Clone, Copy, Debug)]
pub enum EngineEvent<'a> {
    /// Blocks were stored.
    Stored(StoredBlocks<'a>),
    /// Blocks were removed.
    Removed {
        /// The engine's names.
        hashes: &'a [u64],
        /// From where; `None` for everywhere.
        tier: Option<Tier>,
        /// The KV cache group, in models with several.
        group: Option<u32>,
    },
    /// The engine dropped everything.
    Cleared,
}

/// What to do to the index, for the endpoint of the map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IndexOp {
    /// The endpoint holds the block in `tier` now.
    Confirm {
        /// The block's hash in the index's chain.
        hash: u64,
        /// The element of the chain before it; `None` for the first.
        parent: Option<u64>,
        /// Where.
        tier: Tier,
    },
    /// The endpoint does not hold the block in `tier` any more.
    Remove {
        /// The block's hash in the index's chain.
        hash: u64,
        /// Where.
        tier: Tier,
    },
    /// The endpoint holds nothing.
    Forget,
}

/// What one endpoint's engine holds, in the index's terms.
///
/// Ranks with caches of their own behind one address are kept apart inside and
/// counted together outside: a block is removed when the last rank drops it.
#[derive(Debug)]
pub struct EngineMap {
    model: String,
    max_bytes: usize,
    ranks: BTreeMap<u32, Rank>,
    held: Held,
    counters: Counters,
}

impl EngineMap {
    /// A map that knows nothing. `model` is part of every hash and must be the
    /// name with which prompts are looked up. All ranks together take at most
    /// `max_bytes`, but for a few hundred that an empty map has; what is stored
    /// beyond is not indexed.
    ///
    /// A block of 16 tokens takes 140 bytes, about, one of 64 or more 110
    /// ([`EngineMap::block_bytes`]), of what the allocator gave away.
    pub fn new(model: &str, max_bytes: usize) -> EngineMap {
        EngineMap {
            model: model.to_owned(),
            max_bytes,
            ranks: BTreeMap::new(),
            held: Held::default(),
            counters: Counters::default(),
        }
    }

    /// Bytes that a map takes for each engine block of so many tokens, in the mean.
    pub const fn block_bytes(engine_block: u32) -> usize {
        let engine_block = if engine_block == 0 { 1 } else { engine_block };
        nodes::Nodes::block_bytes(engine_block as usize, (index_block(engine_block) / engine_block) as usize)
    }

    /// Takes one event of a rank, in order, and appends what it means for the
    /// index to `out`. An event that does not fit what is known changes
    /// nothing and is counted.
    pub fn apply(&mut self, rank: u32, event: &EngineEvent<'_>, out: &mut Vec<IndexOp>) {
        if !self.ranks.contains_key(&rank) {
            if self.ranks.len() >= MAX_RANKS {
                self.counters.malformed += 1;
                return;
            }
            self.ranks.insert(rank, Rank::default());
        }
        let others: usize =
            self.ranks.iter().filter(|(other, _)| **other != rank).map(|(_, rank)| rank.cost()).sum();
        let EngineMap { model, max_bytes, ranks, held, counters } = self;
        let Some(state) = ranks.get_mut(&rank) else { return };
        let max_bytes = max_bytes.saturating_sub(others);
        let context = &mut Context { model, max_bytes, held, counters, out };
        match event {
            EngineEvent::Stored(stored) if state.wants(stored, context) => {
                let seen = state.size_seen();
                if seen > 0 && seen < stored.block_size && !stored.tokens.is_empty() {
                    context.counters.resized += 1;
                    state.release(context.held, context.out);
                    *state = Rank::default();
                }
                state.stored(stored, context);
            }
            EngineEvent::Stored(_) => {}
            EngineEvent::Removed { hashes, tier, group } => state.removed(hashes, *tier, *group, context),
            EngineEvent::Cleared => {
                context.counters.cleared += 1;
                self.drop_rank(rank, out);
            }
        }
    }

    /// Forgets what a rank holds: its engine restarted, or events were lost.
    pub fn reset(&mut self, rank: u32, out: &mut Vec<IndexOp>) {
        self.counters.resets += 1;
        self.drop_rank(rank, out);
    }

    /// Forgets everything, as an index already has.
    pub fn clear(&mut self) {
        self.counters.resets += self.ranks.len() as u64;
        self.ranks.clear();
        self.held = Held::default();
    }

    /// The ranks that hold anything.
    pub fn ranks(&self) -> impl Iterator<Item = u32> {
        self.ranks.iter().filter(|(_, state)| state.len() > 0).map(|(rank, _)| *rank)
    }

    /// What is held, for an index that knows nothing of it: each block of the
    /// index once for each tier, after the one that it follows.
    pub fn restate(&self, out: &mut Vec<IndexOp>) {
        for tier in TIERS {
            let listed: BTreeMap<u64, Option<u64>> =
                self.ranks.values().flat_map(|rank| rank.listed(tier)).collect();
            // By what each follows, those that follow nothing here first.
            let mut after: BTreeMap<Option<u64>, BTreeSet<u64>> = BTreeMap::new();
            for (&hash, &parent) in &listed {
                let above = parent.filter(|above| listed.contains_key(above));
                after.entry(above).or_default().insert(hash);
            }
            let mut next: Vec<u64> = after.remove(&None).unwrap_or_default().into_iter().collect();
            while let Some(hash) = next.pop() {
                let parent = listed.get(&hash).copied().flatten();
                out.push(IndexOp::Confirm { hash, parent, tier });
                next.extend(after.remove(&Some(hash)).unwrap_or_default());
            }
        }
    }

    /// Tokens in a block of the index, once it is sure what a block of the
    /// engine has.
    pub fn index_block(&self) -> Option<u32> {
        self.ranks.values().find_map(Rank::block_size).map(index_block)
    }

    /// Engine blocks that are followed, of all ranks.
    pub fn blocks(&self) -> usize {
        self.ranks.values().map(Rank::len).sum()
    }

    /// Blocks of the index that the endpoint holds in any tier.
    pub fn index_blocks(&self) -> usize {
        self.held.len()
    }

    /// Bytes that the map takes, about.
    pub fn bytes(&self) -> usize {
        self.held.bytes() + self.ranks.values().map(Rank::bytes).sum::<usize>()
    }

    /// What happened since the map was made.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    fn drop_rank(&mut self, rank: u32, out: &mut Vec<IndexOp>) {
        let Some(mut state) = self.ranks.remove(&rank) else { return };
        if self.ranks.values().all(|other| other.len() == 0) {
            self.held = Held::default();
            out.push(IndexOp::Forget);
        } else {
            state.release(&mut self.held, out);
        }
    }
}

#[cfg(test)]
mod properties_tests;
#[cfg(test)]
mod tests;
