//! Units of 64 bytes in chunks that never move.

use std::sync::OnceLock;
use std::sync::atomic::{
    AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};

/// Words of a unit.
pub(crate) const WORDS: usize = 8;
const SHIFT: u32 = 11;
/// Units of a chunk.
pub(crate) const CHUNK: u32 = 1 << SHIFT;
/// Bytes of a chunk.
pub(crate) const CHUNK_BYTES: usize = CHUNK as usize * size_of::<Unit>();

/// One cache line of eight words. What they mean depends on who took the unit.
#[repr(align(64))]
pub(crate) struct Unit([AtomicU64; WORDS]);

/// What an id that was never given out leads to: a reader that followed a word
/// in change finds nothing there.
static NOWHERE: Unit = Unit::zero();

impl Unit {
    const fn zero() -> Unit {
        Unit([const { AtomicU64::new(0) }; WORDS])
    }

    #[inline]
    pub(crate) fn get(&self, word: usize) -> u64 {
        self.0[word].load(Relaxed)
    }

    #[inline]
    pub(crate) fn set(&self, word: usize, value: u64) {
        self.0[word].store(value, Relaxed);
    }

    #[inline]
    pub(crate) fn get_acquire(&self, word: usize) -> u64 {
        self.0[word].load(Acquire)
    }

    #[inline]
    pub(crate) fn set_release(&self, word: usize, value: u64) {
        self.0[word].store(value, Release);
    }

    /// Half number `half` of the unit's sixteen: the low half of a word comes first.
    #[inline]
    pub(crate) fn half(&self, half: usize) -> u32 {
        (self.get(half / 2) >> (half % 2 * 32)) as u32
    }

    #[inline]
    pub(crate) fn half_acquire(&self, half: usize) -> u32 {
        (self.get_acquire(half / 2) >> (half % 2 * 32)) as u32
    }

    /// Writer only: the other half of the word is read and written back. What
    /// the value leads to is seen by who acquires it.
    #[inline]
    pub(crate) fn set_half(&self, half: usize, value: u32) {
        let shift = half % 2 * 32;
        let other = self.get(half / 2) & !(0xFFFF_FFFF << shift);
        self.set_release(half / 2, other | u64::from(value) << shift);
    }

    pub(crate) fn clear(&self) {
        (0..WORDS).for_each(|word| self.set(word, 0));
    }

    pub(crate) fn is_clear(&self) -> bool {
        (0..WORDS).all(|word| self.get(word) == 0)
    }
}

/// Chunks of units, made as they are needed.
pub(crate) struct Arena {
    chunks: Box<[OnceLock<Box<[Unit]>>]>,
}

impl Arena {
    pub(crate) fn new(chunks: usize) -> Arena {
        Arena { chunks: (0..chunks).map(|_| OnceLock::new()).collect() }
    }

    #[inline]
    pub(crate) fn unit(&self, id: u32) -> &Unit {
        let chunk = self.chunks.get((id >> SHIFT) as usize).and_then(OnceLock::get);
        chunk.and_then(|chunk| chunk.get((id & (CHUNK - 1)) as usize)).unwrap_or(&NOWHERE)
    }

    /// Makes the chunk with number `chunk`; false when there is no place for it.
    pub(crate) fn make(&self, chunk: u32) -> bool {
        let Some(place) = self.chunks.get(chunk as usize) else { return false };
        place.get_or_init(|| (0..CHUNK).map(|_| Unit::zero()).collect());
        true
    }

    /// Bytes of the list of chunks itself.
    pub(crate) fn directory_bytes(chunks: usize) -> usize {
        chunks * size_of::<OnceLock<Box<[Unit]>>>()
    }
}
