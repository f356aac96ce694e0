//! Runs: up to 64 consecutive blocks of a chain, kept as one.
//!
//! A run's record is one unit:
//!
//! | word | content |
//! |---|---|
//! | 0 | version, odd while the writer changes the run |
//! | 1 | blocks (8 bits), partial holders (8 bits), id of the extra unit (high half) |
//! | 2–5 | ids of the units with the hashes, eight in each |
//! | 6 | set of the lanes that hold the whole run ready to use |
//! | 7 | for the writer: first hold (low half), number of holds (high half) |
//!
//! The extra unit is there only when needed: halves 0–13 are partial holders,
//! word 7 is the set of lanes that hold the whole run in host memory only.

use std::sync::atomic::{Ordering, fence};

use super::{Memory, Store, Unit};

/// Most blocks of a run. Also what is evicted at once, so not longer.
pub(crate) const MAX: usize = 64;
/// Partial holders that a run has room for.
pub(crate) const PARTIALS: usize = 14;

pub(crate) const SET: usize = 6;
pub(crate) const HOST_SET: usize = 7;
const HEAD: usize = 14;
const COUNT: usize = 15;

/// How many blocks from the start of a run a lane holds: ready to use, and in
/// either tier.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Cuts {
    pub(crate) ready: u8,
    pub(crate) any: u8,
}

/// A partial holder.
pub(crate) fn pack(lane: u16, cuts: Cuts) -> u32 {
    u32::from(lane) << 14 | u32::from(cuts.ready) << 7 | u32::from(cuts.any)
}

#[inline]
pub(crate) fn unpack(word: u32) -> (u16, Cuts) {
    ((word >> 14) as u16, Cuts { ready: (word >> 7 & 127) as u8, any: (word & 127) as u8 })
}

#[inline]
pub(crate) fn len(run: &Unit) -> usize {
    ((run.get(1) & 0xFF) as usize).min(MAX)
}

pub(crate) fn set_len(run: &Unit, len: usize) {
    run.set(1, run.get(1) & !0xFF | len as u64);
}

#[inline]
pub(crate) fn partials(run: &Unit) -> usize {
    ((run.get(1) >> 8 & 0xFF) as usize).min(PARTIALS)
}

pub(crate) fn set_partials(run: &Unit, count: usize) {
    run.set(1, run.get(1) & !0xFF00 | (count as u64) << 8);
}

#[inline]
pub(crate) fn extra(run: &Unit) -> u32 {
    run.half(3)
}

pub(crate) fn set_extra(run: &Unit, id: u32) {
    run.set_half(3, id);
}

pub(crate) fn head(run: &Unit) -> u32 {
    run.half(HEAD)
}

pub(crate) fn set_head(run: &Unit, hold: u32) {
    run.set_half(HEAD, hold);
}

pub(crate) fn count(run: &Unit) -> u32 {
    run.half(COUNT)
}

pub(crate) fn set_count(run: &Unit, count: u32) {
    run.set_half(COUNT, count);
}

/// Block `at` of the run; anything when there is none.
#[inline]
pub(crate) fn hash(store: &Store, run: &Unit, at: usize) -> u64 {
    store.unit(run.half(4 + at / 8 % 8)).get(at % 8)
}

/// Reads where the first and the last blocks of a full run are.
#[inline]
pub(crate) fn warm(store: &Store, run: &Unit) -> u64 {
    store.unit(run.half(4)).get(0) ^ store.unit(run.half(11)).get(0)
}

/// Whether block `at` of run `id` is `hash`.
#[inline]
pub(crate) fn holds(store: &Store, id: u32, at: u32, hash: u64) -> bool {
    let run = store.unit(id);
    (at as usize) < len(run) && self::hash(store, run, at as usize) == hash
}

/// Writer only: how many blocks from `at` on are the first of `chain`.
pub(crate) fn common(store: &Store, run: &Unit, at: usize, chain: &[u64]) -> usize {
    let most = len(run).saturating_sub(at).min(chain.len());
    (0..most).find(|&i| hash(store, run, at + i) != chain[i]).unwrap_or(most)
}

/// Writer only: how many of `hashes` follow each other in the run from `at` on,
/// upwards or, as engines evict, downwards, at least 1; and the lowest of them.
pub(crate) fn stretch(store: &Store, run: &Unit, at: usize, hashes: &[u64]) -> (u64, usize) {
    let up = common(store, run, at, hashes).max(1);
    if up > 1 {
        return (hashes[0], up);
    }
    let most = hashes.len().min(at + 1);
    let down = (1..most).find(|&i| hash(store, run, at - i) != hashes[i]).unwrap_or(most.max(1));
    (hashes[down - 1], down)
}

/// Writer only: changes a run so that no reader takes a mixture for a state.
pub(crate) fn write<R>(store: &Store, run: &Unit, change: impl FnOnce() -> R) -> R {
    run.set(0, run.get(0) | 1);
    fence(Ordering::Release);
    let result = change();
    run.set_release(0, store.next_version());
    result
}

/// Adds blocks behind the last one, as many as there are room and memory for;
/// the number of those added. Part of a [`write`].
pub(crate) fn push(store: &Store, memory: &mut Memory, run: &Unit, hashes: &[u64]) -> usize {
    let old = len(run);
    let mut at = old;
    for &hash in hashes.iter().take(MAX - old) {
        if at.is_multiple_of(8) {
            let Some(id) = memory.take(&store.arena) else { break };
            run.set_half(4 + at / 8, id);
        }
        store.unit(run.half(4 + at / 8)).set(at % 8, hash);
        at += 1;
    }
    set_len(run, at);
    at - old
}

/// Drops all blocks from `len` on. Part of a [`write`].
pub(crate) fn truncate(store: &Store, memory: &mut Memory, run: &Unit, len: usize) {
    for at in len.div_ceil(8)..self::len(run).div_ceil(8) {
        memory.give(&store.arena, run.half(4 + at));
        run.set_half(4 + at, 0);
    }
    set_len(run, len);
}
