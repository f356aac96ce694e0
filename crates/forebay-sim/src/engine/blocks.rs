//! KV blocks: reference counts, the prefix cache, and eviction in LRU order.

use std::hash::{BuildHasherDefault, Hasher};

use super::log::BlockChange;

/// Index of a block.
pub(super) type BlockId = u32;

const NONE: u32 = u32::MAX;

#[derive(Clone, Copy)]
struct Block {
    hash: u64,
    refs: u32,
    prev: u32,
    next: u32,
    cached: bool,
}

/// Passes a key that is already a hash through.
#[derive(Default)]
struct Identity(u64);

impl Hasher for Identity {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, bytes: &[u8]) {
        for b in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(*b);
        }
    }
    fn write_u64(&mut self, key: u64) {
        self.0 = key;
    }
}

#[expect(
    clippy::disallowed_types,
    reason = "the keys are hashes and the hasher is the identity: nothing is seeded, and it is never iterated"
)]
type ByHash = std::collections::HashMap<u64, BlockId, BuildHasherDefault<Identity>>;

/// All KV blocks of one engine.
///
/// A block that no sequence holds stays in the cache, at the tail of a list,
/// until its memory is needed; the head of the list is evicted first. Blocks
/// never used are handed out before anything is evicted, and exist in memory
/// only once they were used.
pub(super) struct BlockPool {
    total: u32,
    blocks: Vec<Block>,
    by_hash: ByHash,
    head: u32,
    tail: u32,
    listed: u32,
    /// Counts what can make a prompt fit that did not: a block released or one
    /// that became shareable. Never decreases.
    pub(super) changes: u64,
    /// What became findable and what no longer is; None keeps no record.
    pub(super) log: Option<Vec<BlockChange>>,
}

impl BlockPool {
    pub(super) fn new(total: u32) -> BlockPool {
        BlockPool {
            total,
            blocks: Vec::new(),
            by_hash: ByHash::default(),
            head: NONE,
            tail: NONE,
            listed: 0,
            changes: 0,
            log: None,
        }
    }

    pub(super) fn total(&self) -> u32 {
        self.total
    }

    /// Blocks that can be taken now: never used, or held by nobody.
    pub(super) fn free(&self) -> u32 {
        self.total - self.blocks.len() as u32 + self.listed
    }

    pub(super) fn used(&self) -> u32 {
        self.total - self.free()
    }

    /// The blocks of the longest cached beginning of `chain`.
    pub(super) fn lookup(&self, chain: &[u64], found: &mut Vec<BlockId>) {
        found.clear();
        found.extend(chain.iter().map_while(|hash| self.by_hash.get(hash)));
    }

    /// The hashes of all blocks that can be found.
    #[cfg(test)]
    pub(super) fn hashes(&self) -> std::collections::BTreeSet<u64> {
        self.by_hash.keys().copied().collect()
    }

    /// How many of `found` nobody holds: sharing those takes free blocks too.
    pub(super) fn unheld(&self, found: &[BlockId]) -> u32 {
        found.iter().filter(|id| self.blocks[**id as usize].refs == 0).count() as u32
    }

    /// Takes one more reference on a block that [`lookup`](Self::lookup) found.
    pub(super) fn share(&mut self, id: BlockId) {
        if self.blocks[id as usize].refs == 0 {
            self.unlink(id);
        }
        self.blocks[id as usize].refs += 1;
    }

    /// Takes a block for new tokens, evicting the one unused longest.
    pub(super) fn allocate(&mut self) -> Option<BlockId> {
        if (self.blocks.len() as u32) < self.total {
            self.blocks.push(Block { hash: 0, refs: 1, prev: NONE, next: NONE, cached: false });
            return Some(self.blocks.len() as u32 - 1);
        }
        let id = self.head;
        if id == NONE {
            return None;
        }
        self.unlink(id);
        let block = &mut self.blocks[id as usize];
        if block.cached {
            block.cached = false;
            self.by_hash.remove(&block.hash);
            if let Some(log) = &mut self.log {
                log.push(BlockChange::Removed { hash: block.hash });
            }
        }
        block.refs = 1;
        Some(id)
    }

    /// Makes a full block findable; whether it was not before. The first block
    /// with a hash wins: a second one computed at the same time stays private
    /// to its sequence.
    pub(super) fn publish(&mut self, id: BlockId, hash: u64) -> bool {
        let block = &mut self.blocks[id as usize];
        if block.cached {
            return false;
        }
        let std::collections::hash_map::Entry::Vacant(entry) = self.by_hash.entry(hash) else { return false };
        entry.insert(id);
        block.hash = hash;
        block.cached = true;
        self.changes += 1;
        true
    }

    /// Forgets every cached block. False, and nothing happens, while any block
    /// is held.
    pub(super) fn reset(&mut self) -> bool {
        if self.used() > 0 {
            return false;
        }
        self.by_hash.clear();
        self.blocks.iter_mut().for_each(|block| block.cached = false);
        if let Some(log) = &mut self.log {
            log.push(BlockChange::Cleared);
        }
        true
    }

    /// Gives a sequence's blocks back, the last one first, so that the
    /// beginning of a prompt outlives its end.
    pub(super) fn release(&mut self, held: &mut Vec<BlockId>) {
        while let Some(id) = held.pop() {
            let block = &mut self.blocks[id as usize];
            block.refs -= 1;
            if block.refs == 0 {
                self.link_tail(id);
                self.changes += 1;
            }
        }
    }

    fn link_tail(&mut self, id: BlockId) {
        self.blocks[id as usize].prev = self.tail;
        self.blocks[id as usize].next = NONE;
        match self.tail {
            NONE => self.head = id,
            tail => self.blocks[tail as usize].next = id,
        }
        self.tail = id;
        self.listed += 1;
    }

    fn unlink(&mut self, id: BlockId) {
        let Block { prev, next, .. } = self.blocks[id as usize];
        match prev {
            NONE => self.head = next,
            prev => self.blocks[prev as usize].next = next,
        }
        match next {
            NONE => self.tail = prev,
            next => self.blocks[next as usize].prev = prev,
        }
        self.listed -= 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn take(pool: &mut BlockPool, hashes: &[u64]) -> Vec<BlockId> {
        hashes
            .iter()
            .map(|h| {
                let id = pool.allocate().unwrap();
                pool.publish(id, *h);
                id
            })
            .collect()
    }

    #[test]
    fn released_blocks_stay_cached_until_their_memory_is_needed() {
        let mut pool = BlockPool::new(4);
        let mut a = take(&mut pool, &[1, 2, 3]);
        assert_eq!((pool.used(), pool.free()), (3, 1));
        pool.release(&mut a);
        assert_eq!((pool.used(), pool.free()), (0, 4));
        let mut found = Vec::new();
        pool.lookup(&[1, 2, 3, 4], &mut found);
        assert_eq!(found.len(), 3);
        assert_eq!(pool.unheld(&found), 3);

        // The block never used goes first, then the end of the prompt.
        let mut b = take(&mut pool, &[10, 11]);
        pool.lookup(&[1, 2, 3], &mut found);
        assert_eq!(found.len(), 2, "the last block of the prompt is evicted first");
        for id in &found {
            pool.share(*id);
        }
        assert_eq!(pool.free(), 0);
        assert_eq!(pool.allocate(), None);
        pool.release(&mut found);
        pool.release(&mut b);
        assert_eq!(pool.used(), 0);
    }

    #[test]
    fn a_shared_block_needs_every_holder_to_leave() {
        let mut pool = BlockPool::new(2);
        let mut a = take(&mut pool, &[7]);
        let mut b = Vec::new();
        pool.lookup(&[7], &mut b);
        pool.share(b[0]);
        pool.release(&mut a);
        assert_eq!(pool.used(), 1);
        pool.release(&mut b);
        assert_eq!(pool.used(), 0);
    }

    #[test]
    fn the_second_block_of_one_hash_stays_private() {
        let mut pool = BlockPool::new(3);
        let mut first = take(&mut pool, &[5]);
        let mut second = take(&mut pool, &[5]);
        let mut found = Vec::new();
        pool.lookup(&[5], &mut found);
        assert_eq!(found, first);
        pool.release(&mut second);
        pool.release(&mut first);
        assert_eq!(pool.free(), 3);
    }
}
