//! From a hash to a unit: linear hashing that grows one bucket at a time, so
//! that neither reader nor writer ever waits for a whole table to be copied.

use std::sync::atomic::{
    AtomicU32,
    Ordering::{Acquire, Relaxed, Release},
};

use super::arena::{Arena, CHUNK, Unit};
use super::memory::Memory;

/// Entries of a bucket; its last word leads to more of them.
const ENTRIES: usize = 7;
const OVERFLOW: usize = 7;
/// Entries per bucket, on average, before the table grows: overflow stays rare.
const LOAD: u32 = 4;
/// A chain this long is a reader gone astray in memory that was used again.
const LONGEST: usize = 64;
/// Times that a reader starts again because the table grew meanwhile.
const RETRIES: usize = 4;
const ID_BITS: u32 = 26;
const AT_BITS: u32 = 6;
/// Largest unit id that an entry has room for.
pub(crate) const MAX_ID: u32 = (1 << ID_BITS) - 1;

/// Entries are one word: 32 bits of the mixed hash, of which the low ones also
/// choose the bucket, so that a bucket is split without knowing whole hashes;
/// 6 bits of place within a run; 26 bits of unit id. Whoever asks compares the
/// rest of the hash with what the id leads to.
pub(crate) struct Table {
    buckets: Arena,
    count: AtomicU32,
    /// Written by the writer alone.
    entries: AtomicU32,
}

fn mixed(hash: u64) -> u32 {
    let product = hash.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    (product ^ (product >> 32)) as u32
}

fn entry(hash: u64, id: u32, at: u32) -> u64 {
    u64::from(mixed(hash)) << 32 | u64::from(at) << ID_BITS | u64::from(id)
}

/// The bucket of `print` when there are `count`.
fn bucket(print: u32, count: u32) -> u32 {
    let mask = count.next_power_of_two() - 1;
    let place = print & mask;
    if place < count { place } else { place & (mask >> 1) }
}

impl Table {
    pub(crate) fn new(chunks: usize) -> Table {
        Table { buckets: Arena::new(chunks), count: AtomicU32::new(0), entries: AtomicU32::new(0) }
    }

    /// How many entries there are.
    pub(crate) fn len(&self) -> u32 {
        self.entries.load(Relaxed)
    }

    /// The entry of `hash` that `check(id, at)` agrees to.
    #[inline]
    pub(crate) fn find(
        &self,
        arena: &Arena,
        hash: u64,
        mut check: impl FnMut(u32, u32) -> bool,
    ) -> Option<(u32, u32)> {
        let print = mixed(hash);
        for _ in 0..RETRIES {
            let count = self.count.load(Acquire);
            if count == 0 {
                return None;
            }
            let mut unit = self.buckets.unit(bucket(print, count));
            for _ in 0..LONGEST {
                for word in 0..ENTRIES {
                    let entry = unit.get_acquire(word);
                    if (entry >> 32) as u32 == print && entry != 0 {
                        let id = entry as u32 & MAX_ID;
                        let at = (entry >> ID_BITS) as u32 & ((1 << AT_BITS) - 1);
                        if check(id, at) {
                            return Some((id, at));
                        }
                    }
                }
                let next = unit.get_acquire(OVERFLOW) as u32;
                if next == 0 {
                    break;
                }
                unit = arena.unit(next);
            }
            // Moved to another bucket just now?
            if self.count.load(Acquire) == count {
                return None;
            }
        }
        None
    }

    /// Reads the bucket of `hash` and gives a word of it, so that it is near when
    /// it is asked for. Calls for several hashes wait for memory together.
    #[inline]
    pub(crate) fn warm(&self, hash: u64) -> u64 {
        let count = self.count.load(Acquire);
        if count == 0 { 0 } else { self.buckets.unit(bucket(mixed(hash), count)).get(0) }
    }

    /// The unit that `hash` leads to, most likely; 0 for none.
    #[inline]
    pub(crate) fn guess(&self, hash: u64) -> u32 {
        let (print, count) = (mixed(hash), self.count.load(Acquire));
        if count == 0 {
            return 0;
        }
        let unit = self.buckets.unit(bucket(print, count));
        let entry = (0..ENTRIES).map(|word| unit.get(word)).find(|entry| (entry >> 32) as u32 == print);
        entry.unwrap_or(0) as u32 & MAX_ID
    }

    /// Writer only. False when there is no room for it.
    pub(crate) fn insert(&self, arena: &Arena, memory: &mut Memory, hash: u64, id: u32, at: usize) -> bool {
        debug_assert!(id != 0 && id <= MAX_ID && at < 1 << AT_BITS);
        if self.len() >= self.count.load(Relaxed).saturating_mul(LOAD) {
            self.grow(arena, memory);
        }
        let count = self.count.load(Relaxed);
        if count == 0 {
            return false;
        }
        let first = self.buckets.unit(bucket(mixed(hash), count));
        if !put(arena, memory, first, entry(hash, id, at as u32)) {
            return false;
        }
        self.entries.store(self.len() + 1, Relaxed);
        true
    }

    /// Writer only: the entry of `hash` now leads elsewhere.
    pub(crate) fn replace(&self, arena: &Arena, hash: u64, from: (u32, usize), to: (u32, usize)) {
        if let Some((unit, word, _)) = self.locate(arena, entry(hash, from.0, from.1 as u32)) {
            unit.set_release(word, entry(hash, to.0, to.1 as u32));
        }
    }

    /// Writer only.
    pub(crate) fn remove(&self, arena: &Arena, memory: &mut Memory, hash: u64, id: u32, at: usize) {
        let Some((unit, word, before)) = self.locate(arena, entry(hash, id, at as u32)) else { return };
        unit.set_release(word, 0);
        self.entries.store(self.len().saturating_sub(1), Relaxed);
        if let Some(before) = before {
            unlink_if_empty(arena, memory, before);
        }
    }

    /// Unit and word of an entry, and the unit before it unless it is in the bucket itself.
    fn locate<'a>(&'a self, arena: &'a Arena, entry: u64) -> Option<(&'a Unit, usize, Option<&'a Unit>)> {
        let count = self.count.load(Relaxed);
        if count == 0 {
            return None;
        }
        let mut unit = self.buckets.unit(bucket((entry >> 32) as u32, count));
        let mut before = None;
        loop {
            if let Some(word) = (0..ENTRIES).find(|&word| unit.get(word) == entry) {
                return Some((unit, word, before));
            }
            let next = unit.get(OVERFLOW) as u32;
            if next == 0 {
                return None;
            }
            before = Some(unit);
            unit = arena.unit(next);
        }
    }

    /// Adds one bucket and moves to it what belongs there. Readers find an
    /// entry at every moment: first it is in both places, then the new count is
    /// seen, then it leaves the old one.
    fn grow(&self, arena: &Arena, memory: &mut Memory) {
        let count = self.count.load(Relaxed);
        if count.is_multiple_of(CHUNK) && (!memory.take_chunk() || !self.buckets.make(count / CHUNK)) {
            return;
        }
        if count == 0 {
            self.count.store(CHUNK, Release);
            return;
        }
        let new = self.buckets.unit(count);
        let old = self.buckets.unit(count & ((count + 1).next_power_of_two() / 2 - 1));
        let mut moved = 0;
        let mut unit = old;
        loop {
            for word in 0..ENTRIES {
                let entry = unit.get(word);
                if entry != 0 && bucket((entry >> 32) as u32, count + 1) == count {
                    if !put(arena, memory, new, entry) {
                        clear(arena, memory, new);
                        return;
                    }
                    moved += 1;
                }
            }
            let next = unit.get(OVERFLOW) as u32;
            if next == 0 {
                break;
            }
            unit = arena.unit(next);
        }
        self.count.store(count + 1, Release);
        let mut unit = old;
        while moved > 0 {
            for word in 0..ENTRIES {
                let entry = unit.get(word);
                if entry != 0 && bucket((entry >> 32) as u32, count + 1) == count {
                    unit.set_release(word, 0);
                    moved -= 1;
                }
            }
            match unit.get(OVERFLOW) as u32 {
                0 => break,
                next => unit = arena.unit(next),
            }
        }
        let mut unit = old;
        loop {
            unlink_if_empty(arena, memory, unit);
            match unit.get(OVERFLOW) as u32 {
                0 => break,
                next => unit = arena.unit(next),
            }
        }
    }
}

/// Writes `entry` into the first free word from `first` on.
fn put(arena: &Arena, memory: &mut Memory, first: &Unit, entry: u64) -> bool {
    let mut unit = first;
    loop {
        if let Some(word) = (0..ENTRIES).find(|&word| unit.get(word) == 0) {
            unit.set_release(word, entry);
            return true;
        }
        let next = unit.get(OVERFLOW) as u32;
        if next == 0 {
            break;
        }
        unit = arena.unit(next);
    }
    let Some(id) = memory.take(arena) else { return false };
    arena.unit(id).set(0, entry);
    unit.set_release(OVERFLOW, u64::from(id));
    true
}

/// Takes out the unit after `before` when it has no entry left.
fn unlink_if_empty(arena: &Arena, memory: &mut Memory, before: &Unit) {
    let id = before.get(OVERFLOW) as u32;
    let unit = arena.unit(id);
    if id != 0 && (0..ENTRIES).all(|word| unit.get(word) == 0) {
        before.set_release(OVERFLOW, unit.get(OVERFLOW));
        memory.give(arena, id);
    }
}

fn clear(arena: &Arena, memory: &mut Memory, bucket: &Unit) {
    let mut next = bucket.get(OVERFLOW) as u32;
    while next != 0 {
        let after = arena.unit(next).get(OVERFLOW) as u32;
        memory.give(arena, next);
        next = after;
    }
    bucket.clear();
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn finds_what_was_put_in_while_it_grows_and_shrinks() {
        let (arena, mut memory, table) = (Arena::new(64), Memory::new(64), Table::new(64));
        let mut expect = BTreeMap::new();
        let hash = |n: u64| n.wrapping_mul(0xD6E8_FEB8_6659_FD93) ^ n;
        for n in 1..40_000u64 {
            assert!(table.insert(&arena, &mut memory, hash(n), n as u32, (n % 64) as usize));
            expect.insert(n, (n as u32, (n % 64) as u32));
            if n % 3 == 0 {
                let gone = n / 2 + 1;
                if let Some((id, at)) = expect.remove(&gone) {
                    table.remove(&arena, &mut memory, hash(gone), id, at as usize);
                }
            }
        }
        assert_eq!(table.len() as usize, expect.len());
        for n in 1..40_000u64 {
            let found = table.find(&arena, hash(n), |id, _| id == n as u32);
            assert_eq!(found, expect.get(&n).copied(), "{n}");
        }
    }

    #[test]
    fn equal_prints_are_told_apart_and_room_runs_out_cleanly() {
        let (arena, mut memory, table) = (Arena::new(2), Memory::new(2), Table::new(2));
        let mut stored = 0;
        while table.insert(&arena, &mut memory, 7, stored + 1, 0) {
            stored += 1;
        }
        // One chunk of buckets, one of overflow units, all behind one bucket.
        assert!(stored > 10_000, "{stored}");
        assert_eq!(table.find(&arena, 7, |id, _| id == 3), Some((3, 0)));
        (1..=stored).for_each(|id| table.remove(&arena, &mut memory, 7, id, 0));
        assert_eq!((table.len(), table.find(&arena, 7, |_, _| true)), (0, None));
        assert!(table.insert(&arena, &mut memory, 7, 1, 0));
    }
}
