//! Sets of lanes in one word: up to four in the word itself, more as a bit set
//! in units, with no unit where there never were bits.
//!
//! A member comes and goes with one store, so that readers see the set before or
//! after and need not be kept away. Units of a set go back only with the set.

use super::arena::{Arena, WORDS};
use super::memory::Memory;

/// Set in the word of a bit set.
const BITS: u64 = 1 << 63;
/// Lanes in the word itself, each as its number plus 1 in 15 bits.
const INLINE: u32 = 4;
const FIELD: u32 = 15;
const MASK: u64 = (1 << FIELD) - 1;
/// Two roots of 16 leaves each; a leaf is a unit of 512 bits.
const ROOT_BITS: u32 = 26;
const ROOT_MASK: u64 = (1 << ROOT_BITS) - 1;
const LEAVES: usize = 16;

/// Whether the word holds its members itself.
#[inline]
pub(crate) fn is_small(word: u64) -> bool {
    word & BITS == 0
}

/// The members of a word for which [`is_small`] is true.
#[inline]
pub(crate) fn small(word: u64) -> impl Iterator<Item = u16> {
    (0..INLINE).map(move |i| word >> (i * FIELD) & MASK).filter(|&field| field != 0).map(|f| (f - 1) as u16)
}

fn root(word: u64, lane: u16) -> u32 {
    (word >> (u32::from(lane >> 13) * ROOT_BITS) & ROOT_MASK) as u32
}

fn leaf_of(lane: u16) -> usize {
    usize::from(lane >> 9) % LEAVES
}

#[inline]
pub(crate) fn contains(arena: &Arena, word: u64, lane: u16) -> bool {
    if is_small(word) {
        return small(word).any(|l| l == lane);
    }
    let leaf = arena.unit(root(word, lane)).half_acquire(leaf_of(lane));
    arena.unit(leaf).get(usize::from(lane >> 6) % WORDS) >> (lane & 63) & 1 != 0
}

/// The word of the set with `lane` in it; `None` when there is no room, and the
/// set is as before.
pub(crate) fn insert(arena: &Arena, memory: &mut Memory, word: u64, lane: u16) -> Option<u64> {
    if is_small(word) {
        if small(word).any(|l| l == lane) {
            return Some(word);
        }
        if let Some(i) = (0..INLINE).find(|i| word >> (i * FIELD) & MASK == 0) {
            return Some(word | (u64::from(lane) + 1) << (i * FIELD));
        }
        let mut bits = BITS;
        for member in small(word).chain([lane]) {
            match set_bit(arena, memory, bits, member) {
                Some(word) => bits = word,
                None => {
                    free(arena, memory, bits);
                    return None;
                }
            }
        }
        return Some(bits);
    }
    set_bit(arena, memory, word, lane)
}

fn set_bit(arena: &Arena, memory: &mut Memory, mut word: u64, lane: u16) -> Option<u64> {
    let mut root_id = root(word, lane);
    if root_id == 0 {
        root_id = memory.take(arena)?;
        word |= u64::from(root_id) << (u32::from(lane >> 13) * ROOT_BITS);
    }
    let root = arena.unit(root_id);
    let mut leaf = root.half(leaf_of(lane));
    if leaf == 0 {
        let Some(taken) = memory.take(arena) else {
            return drop_root(arena, memory, word, lane);
        };
        leaf = taken;
        root.set_half(leaf_of(lane), leaf);
    }
    let (unit, at) = (arena.unit(leaf), usize::from(lane >> 6) % WORDS);
    unit.set(at, unit.get(at) | 1 << (lane & 63));
    Some(word)
}

/// A root that was taken just now and got no leaf goes back.
fn drop_root(arena: &Arena, memory: &mut Memory, word: u64, lane: u16) -> Option<u64> {
    let id = root(word, lane);
    if arena.unit(id).is_clear() {
        memory.give(arena, id);
    }
    None
}

/// The word of the set without `lane`.
pub(crate) fn remove(arena: &Arena, word: u64, lane: u16) -> u64 {
    if is_small(word) {
        let at = (0..INLINE).find(|i| word >> (i * FIELD) & MASK == u64::from(lane) + 1);
        return at.map_or(word, |i| word & !(MASK << (i * FIELD)));
    }
    let leaf = arena.unit(root(word, lane)).half(leaf_of(lane));
    if leaf != 0 {
        let (unit, at) = (arena.unit(leaf), usize::from(lane >> 6) % WORDS);
        unit.set(at, unit.get(at) & !(1 << (lane & 63)));
    }
    word
}

/// Gives the memory of a set back.
pub(crate) fn free(arena: &Arena, memory: &mut Memory, word: u64) {
    if is_small(word) {
        return;
    }
    for id in [word & ROOT_MASK, word >> ROOT_BITS & ROOT_MASK].map(|id| id as u32) {
        if id != 0 {
            let root = arena.unit(id);
            (0..LEAVES).for_each(|leaf| memory.give(arena, root.half(leaf)));
            memory.give(arena, id);
        }
    }
}

/// Overwrites `bits`, a multiple of 8 words, with the set.
pub(crate) fn copy(arena: &Arena, word: u64, bits: &mut [u64]) {
    if is_small(word) {
        bits.fill(0);
        for lane in small(word) {
            if let Some(bits) = bits.get_mut(usize::from(lane >> 6)) {
                *bits |= 1 << (lane & 63);
            }
        }
        return;
    }
    for (leaf, bits) in bits.chunks_exact_mut(WORDS).enumerate() {
        let root = (word >> ((leaf / LEAVES) as u32 * ROOT_BITS) & ROOT_MASK) as u32;
        let unit = match root {
            0 => 0,
            root => arena.unit(root).half_acquire(leaf % LEAVES),
        };
        if unit == 0 {
            bits.fill(0);
        } else {
            let unit = arena.unit(unit);
            bits.iter_mut().enumerate().for_each(|(i, bits)| *bits = unit.get(i));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::super::MAX_LANES;
    use super::*;

    #[test]
    fn agrees_with_a_plain_set() {
        let (arena, mut memory) = (Arena::new(8), Memory::new(8));
        let (mut word, mut expect) = (0, BTreeSet::new());
        // The first chunk is made, and its unit 0 set aside.
        let first = memory.take(&arena).unwrap();
        memory.give(&arena, first);
        let available = memory.available();
        let mut bits = vec![0; MAX_LANES / 64];
        for step in 0..6_000u64 {
            let lane = (step.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 40) as u16 % MAX_LANES as u16;
            let lane = if step % 2 == 0 { lane % 8 } else { lane };
            if step % 5 < 3 && step < 4_000 {
                word = insert(&arena, &mut memory, word, lane).unwrap();
                expect.insert(lane);
            } else if let Some(&lane) = expect.range(lane..).next() {
                word = remove(&arena, word, lane);
                expect.remove(&lane);
            }
            assert_eq!(contains(&arena, word, lane), expect.contains(&lane));
            if step % 100 == 0 {
                copy(&arena, word, &mut bits);
                let set = (0..MAX_LANES as u16).filter(|l| bits[usize::from(l >> 6)] >> (l & 63) & 1 != 0);
                assert!(set.eq(expect.iter().copied()), "step {step}");
            }
        }
        assert!(!is_small(word));
        free(&arena, &mut memory, word);
        assert_eq!(memory.available(), available, "all memory is back");
    }
}
