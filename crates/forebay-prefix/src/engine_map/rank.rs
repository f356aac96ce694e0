//! The blocks of one engine cache.

use super::counters::Counters;
use super::held::Held;
use super::nodes::{NONE, Node, Nodes};
use super::{IndexOp, StoredBlocks, TIERS, bit, index_block};
use crate::{Kind, Tier, next, seed, token_blocks};

/// What a rank needs of its map while an event is applied.
pub(super) struct Context<'a> {
    pub(super) model: &'a str,
    /// Bytes that the rank's blocks may take.
    pub(super) max_bytes: usize,
    pub(super) held: &'a mut Held,
    pub(super) counters: &'a mut Counters,
    pub(super) out: &'a mut Vec<IndexOp>,
}

/// Where in the chain a block lies.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Place {
    /// The chain's hash before its index block.
    before: u64,
    /// The part before it in the same index block.
    parent: u32,
    part: u8,
    /// The index block is the first of its prompt.
    first: bool,
}

/// One cache. Its block size and its group are learned from the first event.
#[derive(Debug, Default)]
pub(super) struct Rank {
    /// Tokens in a block of the engine; 0 until known.
    size: u32,
    /// That is what it is: the engine said so, or a block came after one of that
    /// size, and nothing comes after one that is not full.
    proven: bool,
    /// The group whose blocks are followed.
    group: Option<Option<u32>>,
    nodes: Nodes,
    /// Kept for their memory.
    stack: Vec<u32>,
    gathered: Vec<u32>,
}

impl Rank {
    pub(super) fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Tokens in a block of the engine, as far as is known: there may be larger ones.
    pub(super) fn size_seen(&self) -> u32 {
        self.size
    }

    /// Tokens in a block of the engine, once that is sure.
    pub(super) fn block_size(&self) -> Option<u32> {
        self.proven.then_some(self.size)
    }

    /// Bytes that its blocks take by the mean of one.
    pub(super) fn cost(&self) -> usize {
        self.nodes.len() * self.block_cost()
    }

    fn block_cost(&self) -> usize {
        Nodes::block_bytes(self.size as usize, usize::from(self.last_part()) + 1)
    }

    pub(super) fn bytes(&self) -> usize {
        self.nodes.bytes() + (self.stack.capacity() + self.gathered.capacity()) * 4
    }

    /// The last part of an index block.
    fn last_part(&self) -> u8 {
        (index_block(self.size) / self.size.max(1)).saturating_sub(1) as u8
    }

    /// Whether the blocks are of the group that makes hits: one that looks at
    /// the whole prefix, or the first one seen if the engine does not say.
    pub(super) fn wants(&self, stored: &StoredBlocks<'_>, context: &mut Context<'_>) -> bool {
        let count = stored.hashes.len() as u64;
        if stored.full_attention == Some(false) || self.group.is_some_and(|group| group != stored.group) {
            context.counters.other_groups += count;
            return false;
        }
        let expected = stored.hashes.len().checked_mul(stored.block_size as usize);
        let fits = stored.tokens.is_empty() || expected == Some(stored.tokens.len());
        if stored.block_size == 0 || stored.hashes.is_empty() || !fits {
            context.counters.malformed += 1;
            return false;
        }
        if stored.block_size < self.size && !stored.tokens.is_empty() {
            context.counters.short += count;
            return false;
        }
        true
    }

    /// Blocks were stored, of the size that is known or the first ones.
    pub(super) fn stored(&mut self, stored: &StoredBlocks<'_>, context: &mut Context<'_>) {
        if stored.tokens.is_empty() {
            return self.copied(stored, context);
        }
        if self.size == 0 {
            self.size = stored.block_size;
            self.nodes = Nodes::new(if self.last_part() > 0 { self.size as usize } else { 0 });
        }
        self.group.get_or_insert(stored.group);
        self.proven |= stored.declared || stored.hashes.len() > 1;
        let count = stored.hashes.len() as u64;
        let Some(mut place) = self.first_place(stored, context.model) else {
            context.counters.unplaced += count;
            return;
        };
        // The one before is known, and all that are have this size.
        self.proven |= stored.parent.is_some();
        let identified = stored.identified.min(stored.hashes.len());
        context.counters.opaque += count - identified as u64;
        let blocks = stored.hashes.iter().zip(stored.tokens.chunks_exact(self.size as usize));
        for (done, (&name, tokens)) in blocks.take(identified).enumerate() {
            let Some(at) = self.at_place(name, place, tokens, context) else {
                context.counters.unplaced += (identified - done - 1) as u64;
                return;
            };
            self.hold(at, stored.tier, context);
            place = self.place_after(at);
        }
    }

    /// Known blocks lie in another tier as well. Where a lower tier has larger
    /// blocks, the name is that of the last one inside.
    fn copied(&mut self, stored: &StoredBlocks<'_>, context: &mut Context<'_>) {
        for &name in stored.hashes {
            let Some(mut at) = self.nodes.find(name) else {
                context.counters.unplaced += 1;
                continue;
            };
            for _ in 0..(stored.block_size / self.size.max(1)).max(1) {
                let Some(node) = self.nodes.get(at).copied() else { break };
                self.hold(at, stored.tier, context);
                at = node.parent;
            }
        }
    }

    fn first_place(&self, stored: &StoredBlocks<'_>, model: &str) -> Option<Place> {
        match stored.parent {
            Some(parent) => self.nodes.find(parent).map(|at| self.place_after(at)),
            None => {
                let before = seed(model, stored.adapter, stored.salt, Kind::Tokens);
                Some(Place { before, parent: NONE, part: 0, first: true })
            }
        }
    }

    fn place_after(&self, at: u32) -> Place {
        match self.nodes.get(at) {
            Some(node) if node.part < self.last_part() => {
                Place { before: node.before, parent: at, part: node.part + 1, first: node.first }
            }
            Some(node) => Place { before: node.own, parent: NONE, part: 0, first: false },
            None => Place { before: 0, parent: NONE, part: 0, first: false },
        }
    }

    /// The node of a name at a place: the one that is there, or a new one.
    /// `None` when there is no room, or the name is that of a part before it.
    fn at_place(
        &mut self,
        name: u64,
        place: Place,
        tokens: &[u32],
        context: &mut Context<'_>,
    ) -> Option<u32> {
        let own = if place.part == self.last_part() { self.own_hash(place, tokens) } else { 0 };
        let mut emptied = NONE;
        if let Some(at) = self.nodes.find(name)
            && let Some(node) = self.nodes.get(at)
        {
            let there =
                Place { before: node.before, parent: node.parent, part: node.part, first: node.first };
            // Of the last part `own` tells.
            let same_tokens = place.part == self.last_part() || self.nodes.tokens(at) == tokens;
            if there == place && node.own == own && same_tokens {
                return Some(at);
            }
            // A block cannot come after itself: its place would go with it.
            if self.is_under(place.parent, at) {
                context.counters.malformed += 1;
                return None;
            }
            // The engine gave the name to another block, so the old one is gone.
            context.counters.replaced += 1;
            emptied = node.parent;
            self.cut(at, context);
        }
        let inserted = (self.cost() + self.block_cost() <= context.max_bytes).then(|| {
            let Place { before, parent, part, first } = place;
            let kept = if part < self.last_part() { tokens } else { &[] };
            self.nodes.insert(Node::new(name, (before, own), parent, part, first), kept)
        });
        self.prune(emptied);
        context.counters.over_limit += u64::from(inserted.is_none());
        inserted
    }

    fn is_under(&self, mut at: u32, above: u32) -> bool {
        while let Some(node) = self.nodes.get(at) {
            if at == above {
                return true;
            }
            at = node.parent;
        }
        false
    }

    /// The chain's hash after an index block that ends with `tokens`.
    fn own_hash(&mut self, place: Place, tokens: &[u32]) -> u64 {
        self.stack.clear();
        let mut at = place.parent;
        while let Some(node) = self.nodes.get(at) {
            self.stack.push(at);
            at = node.parent;
        }
        self.gathered.clear();
        for &at in self.stack.iter().rev() {
            self.gathered.extend_from_slice(self.nodes.tokens(at));
        }
        self.gathered.extend_from_slice(tokens);
        let block = token_blocks(&self.gathered, self.gathered.len());
        next(place.before, block.first().copied().unwrap_or_default())
    }

    /// Notes that a tier holds a block, and confirms what is complete by it.
    fn hold(&mut self, at: u32, tier: Tier, context: &mut Context<'_>) {
        let Some(node) = self.nodes.get_mut(at) else { return };
        if node.tiers & bit(tier) != 0 {
            context.counters.repeated += 1;
            // The index may have dropped it meanwhile, for want of memory.
            if node.listed & bit(tier) != 0 {
                let (hash, parent) = (node.own, node.chain_parent());
                context.out.push(IndexOp::Confirm { hash, parent, tier });
            }
            return;
        }
        node.tiers |= bit(tier);
        context.counters.stored += 1;
        let mut above = node.parent;
        while let Some(part) = self.nodes.get(above) {
            if part.tiers & bit(tier) == 0 {
                return;
            }
            above = part.parent;
        }
        let last = self.last_part();
        self.each_under(at, |node| {
            let held = node.tiers & bit(tier) != 0;
            if held && node.part == last && node.listed & bit(tier) == 0 {
                node.listed |= bit(tier);
                context.held.add(node.own, node.chain_parent(), tier, context.out);
            }
            held
        });
    }

    /// Blocks were removed.
    pub(super) fn removed(
        &mut self,
        names: &[u64],
        tier: Option<Tier>,
        group: Option<u32>,
        context: &mut Context<'_>,
    ) {
        if self.group.is_some_and(|followed| followed != group) {
            context.counters.other_groups += names.len() as u64;
            return;
        }
        for &name in names {
            let bits = tier.map_or(u8::MAX, bit);
            let Some(at) = self.nodes.find(name).filter(|&at| self.holds(at, bits)) else {
                context.counters.unknown_removed += 1;
                continue;
            };
            context.counters.removed += 1;
            match tier {
                Some(tier) => self.release_tier(at, tier, context),
                None => TIERS.iter().for_each(|&tier| self.release_tier(at, tier, context)),
            }
            self.prune(at);
        }
    }

    fn holds(&self, at: u32, bits: u8) -> bool {
        self.nodes.get(at).is_some_and(|node| node.tiers & bits != 0)
    }

    /// Notes that a tier no longer holds a block, nor what it is a part of.
    fn release_tier(&mut self, at: u32, tier: Tier, context: &mut Context<'_>) {
        let Some(node) = self.nodes.get_mut(at) else { return };
        if node.tiers & bit(tier) == 0 {
            return;
        }
        node.tiers &= !bit(tier);
        self.each_under(at, |node| {
            if node.listed & bit(tier) != 0 {
                node.listed &= !bit(tier);
                context.held.take(node.own, tier, context.out);
            }
            true
        });
    }

    /// Calls `visit` for a node and, where it says so, for the parts after it.
    fn each_under(&mut self, at: u32, mut visit: impl FnMut(&mut Node) -> bool) {
        self.stack.clear();
        self.stack.push(at);
        while let Some(at) = self.stack.pop() {
            let Some(node) = self.nodes.get_mut(at) else { continue };
            if !visit(node) {
                continue;
            }
            let mut child = node.child;
            while let Some(node) = self.nodes.get(child) {
                self.stack.push(child);
                child = node.next;
            }
        }
    }

    /// Takes out a node that no tier holds and nothing comes after, and the
    /// parts before it that were kept for it alone.
    fn prune(&mut self, mut at: u32) {
        while let Some(node) = self.nodes.get(at).copied() {
            if node.tiers != 0 || node.child != NONE {
                return;
            }
            self.nodes.remove(at);
            at = node.parent;
        }
    }

    /// Takes out a node and all parts after it. Its parent is for the caller
    /// to prune.
    fn cut(&mut self, at: u32, context: &mut Context<'_>) {
        for tier in TIERS {
            self.release_tier(at, tier, context);
        }
        let mut under = Vec::new();
        self.each_under(at, |node| {
            under.push(node.name);
            true
        });
        // Parts were found after the ones they come after.
        for name in under.into_iter().rev() {
            if let Some(at) = self.nodes.find(name) {
                self.nodes.remove(at);
            }
        }
    }

    /// Every index block that a tier holds, with the chain's element before it.
    pub(super) fn listed(&self, tier: Tier) -> impl Iterator<Item = (u64, Option<u64>)> {
        let nodes = self.nodes.iter().filter(move |node| node.listed & bit(tier) != 0);
        nodes.map(|node| (node.own, node.chain_parent()))
    }

    /// Gives back every index block of this cache, which is not used after.
    pub(super) fn release(&mut self, held: &mut Held, out: &mut Vec<IndexOp>) {
        for node in self.nodes.iter() {
            for tier in TIERS.into_iter().filter(|&tier| node.listed & bit(tier) != 0) {
                held.take(node.own, tier, out);
            }
        }
    }
}
