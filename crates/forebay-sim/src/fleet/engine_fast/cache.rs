//! The prefix cache of one engine, in blocks of the workload.
//!
//! A block is as large as the blocks by which the workload says what prompts
//! share, not as the engine's own: a 30,000-token prompt is 58 look-ups, not
//! 1,900, and what is shared is the same.

use std::hash::{BuildHasherDefault, Hasher};

const NONE: u32 = u32::MAX;

/// Passes a key that is already a hash through, spread over the high bits that
/// the table takes its tags from.
#[derive(Default)]
struct Spread(u64);

impl Hasher for Spread {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64(self.0 ^ u64::from(*byte));
        }
    }
    fn write_u64(&mut self, key: u64) {
        self.0 = (key ^ (key >> 32)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
}

#[expect(
    clippy::disallowed_types,
    reason = "the keys are hashes and the hasher is fixed: nothing is seeded, and it is never iterated"
)]
type ByHash = std::collections::HashMap<u64, u32, BuildHasherDefault<Spread>>;

/// What became findable in a cache, or no longer is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    /// In the accelerator's memory.
    Stored { hash: u64, parent: Option<u64> },
    /// Out of the accelerator's memory, and in the host's.
    Moved { hash: u64 },
    /// Back from the host's memory in the accelerator's.
    Fetched { hash: u64 },
    /// Out of the accelerator's memory.
    Removed { hash: u64 },
    /// Out of the host's memory.
    Dropped { hash: u64 },
}

#[derive(Clone, Copy)]
struct Block {
    hash: u64,
    refs: u32,
    prev: u32,
    next: u32,
    on_host: bool,
}

/// Blocks that nobody uses, longest unused first.
#[derive(Clone, Copy)]
struct List {
    head: u32,
    tail: u32,
    len: u32,
}

const EMPTY: List = List { head: NONE, tail: NONE, len: 0 };

/// Blocks by hash: those that sequences hold, and those kept for the next.
pub(crate) struct Cache {
    blocks: Vec<Block>,
    free: Vec<u32>,
    by_hash: ByHash,
    /// In the accelerator's memory and unused.
    idle: List,
    /// In the host's memory.
    host: List,
    host_blocks: u32,
    held: u32,
    /// What changed; none keeps no record.
    pub(crate) log: Option<Vec<Change>>,
}

/// How much of a chain is there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Hit {
    /// Consecutive blocks from the start, in either memory.
    pub(crate) blocks: u32,
    /// Of these, blocks that must be copied from the host.
    pub(crate) host: u32,
    /// Of these, blocks that nobody holds.
    pub(crate) unheld: u32,
}

impl Cache {
    /// An empty cache beside which the host keeps so many blocks.
    pub(crate) fn new(host_blocks: u32) -> Cache {
        Cache {
            blocks: Vec::new(),
            free: Vec::new(),
            by_hash: ByHash::default(),
            idle: EMPTY,
            host: EMPTY,
            host_blocks,
            held: 0,
            log: None,
        }
    }

    /// Blocks that sequences hold.
    pub(crate) fn held(&self) -> u32 {
        self.held
    }

    /// Blocks in the accelerator's memory.
    pub(crate) fn resident(&self) -> u32 {
        self.held + self.idle.len
    }

    /// How much of the beginning of `chain` is there; the blocks are left in
    /// `found`.
    pub(crate) fn look_up(&self, chain: &[u64], found: &mut Vec<u32>) -> Hit {
        let mut hit = Hit::default();
        found.clear();
        for hash in chain {
            let Some(&id) = self.by_hash.get(hash) else { break };
            found.push(id);
            let block = &self.blocks[id as usize];
            hit.blocks += 1;
            hit.host += u32::from(block.on_host);
            hit.unheld += u32::from(block.refs == 0);
        }
        hit
    }

    /// Takes hold of every block of a chain, of which the first ones were
    /// `found` just now; what is not there is made.
    pub(crate) fn acquire(&mut self, chain: &[u64], found: &[u32], held: &mut Vec<u32>) {
        held.reserve(chain.len());
        for &id in found {
            self.hold(id);
            held.push(id);
        }
        let mut parent = found.len().checked_sub(1).and_then(|last| chain.get(last)).copied();
        for &hash in chain.iter().skip(found.len()) {
            // The end of a prompt can be there without its beginning.
            let id = match self.by_hash.get(&hash) {
                Some(&id) => {
                    self.hold(id);
                    id
                }
                None => self.make(hash, parent),
            };
            held.push(id);
            parent = Some(hash);
        }
    }

    fn hold(&mut self, id: u32) {
        let Block { hash, refs, on_host, .. } = self.blocks[id as usize];
        if refs == 0 {
            self.unlink(id);
            self.held += 1;
            if on_host {
                self.blocks[id as usize].on_host = false;
                self.note(Change::Fetched { hash });
            }
        }
        self.blocks[id as usize].refs += 1;
    }

    fn make(&mut self, hash: u64, parent: Option<u64>) -> u32 {
        let block = Block { hash, refs: 1, prev: NONE, next: NONE, on_host: false };
        let id = match self.free.pop() {
            Some(id) => {
                self.blocks[id as usize] = block;
                id
            }
            None => {
                self.blocks.push(block);
                self.blocks.len() as u32 - 1
            }
        };
        self.by_hash.insert(hash, id);
        self.held += 1;
        self.note(Change::Stored { hash, parent });
        id
    }

    /// Gives blocks back, the last one first, so that the beginning of a prompt
    /// outlives its end.
    pub(crate) fn release(&mut self, held: &mut Vec<u32>) {
        while let Some(id) = held.pop() {
            let block = &mut self.blocks[id as usize];
            block.refs -= 1;
            if block.refs == 0 {
                self.held -= 1;
                self.append(id, false);
            }
        }
    }

    /// Takes the block unused longest out of the accelerator's memory; false
    /// when every block is held.
    pub(crate) fn evict(&mut self) -> bool {
        let id = self.idle.head;
        if id == NONE {
            return false;
        }
        self.unlink(id);
        let hash = self.blocks[id as usize].hash;
        if self.host_blocks == 0 {
            self.drop_block(id);
            self.note(Change::Removed { hash });
            return true;
        }
        self.blocks[id as usize].on_host = true;
        self.append(id, true);
        self.note(Change::Moved { hash });
        if self.host.len > self.host_blocks {
            let oldest = self.host.head;
            let hash = self.blocks[oldest as usize].hash;
            self.unlink(oldest);
            self.drop_block(oldest);
            self.note(Change::Dropped { hash });
        }
        true
    }

    /// Forgets what nobody holds.
    pub(crate) fn clear(&mut self) {
        while self.idle.head != NONE {
            let id = self.idle.head;
            self.unlink(id);
            self.drop_block(id);
        }
        while self.host.head != NONE {
            let id = self.host.head;
            self.unlink(id);
            self.drop_block(id);
        }
    }

    fn drop_block(&mut self, id: u32) {
        self.by_hash.remove(&self.blocks[id as usize].hash);
        self.free.push(id);
    }

    fn note(&mut self, change: Change) {
        if let Some(log) = &mut self.log {
            log.push(change);
        }
    }

    fn append(&mut self, id: u32, on_host: bool) {
        let list = if on_host { &mut self.host } else { &mut self.idle };
        let tail = std::mem::replace(&mut list.tail, id);
        list.len += 1;
        if tail == NONE {
            list.head = id;
        } else {
            self.blocks[tail as usize].next = id;
        }
        let block = &mut self.blocks[id as usize];
        (block.prev, block.next) = (tail, NONE);
    }

    fn unlink(&mut self, id: u32) {
        let Block { prev, next, on_host, .. } = self.blocks[id as usize];
        let list = if on_host { &mut self.host } else { &mut self.idle };
        list.len -= 1;
        if prev == NONE {
            list.head = next;
        }
        if next == NONE {
            list.tail = prev;
        }
        if prev != NONE {
            self.blocks[prev as usize].next = next;
        }
        if next != NONE {
            self.blocks[next as usize].prev = prev;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_the_oldest_prompt_goes_first() {
        let mut cache = Cache::new(0);
        let mut found = Vec::new();
        let (mut a, mut b) = (Vec::new(), Vec::new());
        cache.acquire(&[1, 2, 3], &[], &mut a);
        cache.acquire(&[1, 9], &[], &mut b);
        assert_eq!((cache.held(), cache.resident()), (4, 4));
        cache.release(&mut a);
        assert_eq!((cache.held(), cache.resident()), (2, 4));
        assert!(cache.evict());
        assert_eq!(cache.look_up(&[1, 2, 3], &mut found), Hit { blocks: 2, host: 0, unheld: 1 });
        assert!(cache.evict());
        assert!(!cache.evict(), "what is held stays");
        cache.release(&mut b);
        assert_eq!(cache.look_up(&[1, 9], &mut found).blocks, 2);
        cache.clear();
        assert_eq!((cache.look_up(&[1], &mut found).blocks, cache.resident()), (0, 0));
    }

    #[test]
    fn what_leaves_the_accelerator_stays_on_the_host_while_there_is_room() {
        let mut cache = Cache::new(2);
        let mut found = Vec::new();
        cache.log = Some(Vec::new());
        let mut a = Vec::new();
        cache.acquire(&[1, 2, 3], &[], &mut a);
        cache.release(&mut a);
        for _ in 0..3 {
            assert!(cache.evict());
        }
        // Evicted 3, 2, 1; the host has room for two.
        assert_eq!(cache.look_up(&[1, 2, 3], &mut found), Hit { blocks: 2, host: 2, unheld: 2 });
        cache.acquire(&[1, 2], &[], &mut a);
        assert_eq!((cache.held(), cache.look_up(&[1, 2], &mut found).host), (2, 0));
        let log = cache.log.take().unwrap();
        assert!(log.contains(&Change::Dropped { hash: 3 }) && log.contains(&Change::Fetched { hash: 1 }));
    }
}
