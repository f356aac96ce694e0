//! Which units are free, and how many more may be made.

use super::arena::{Arena, CHUNK};

/// The writer's side of an [`Arena`]. Unit 0 is never given out: it means none.
pub(crate) struct Memory {
    /// First of the free units, which are linked through their word 1.
    free: u32,
    free_count: u32,
    /// Units of the arena that have been given out at least once.
    next: u32,
    /// Units of the arena that have been made.
    made: u32,
    /// Chunks that may still be made, here or in a table.
    chunks_left: u32,
    chunks_made: u32,
}

/// Where a free unit keeps the id of the next one. Not word 0: a run keeps its
/// version there, and a reader must see that it has changed.
const LINK: usize = 1;

impl Memory {
    pub(crate) fn new(chunks: u32) -> Memory {
        Memory { free: 0, free_count: 0, next: 1, made: 0, chunks_left: chunks, chunks_made: 0 }
    }

    /// Units that can still be taken.
    pub(crate) fn available(&self) -> usize {
        self.free_count as usize
            + self.made.saturating_sub(self.next) as usize
            + self.chunks_left as usize * CHUNK as usize
    }

    pub(crate) fn chunks_made(&self) -> usize {
        self.chunks_made as usize
    }

    /// Permission to make one more chunk; the caller makes it.
    pub(crate) fn take_chunk(&mut self) -> bool {
        if self.chunks_left == 0 {
            return false;
        }
        self.chunks_left -= 1;
        self.chunks_made += 1;
        true
    }

    /// A unit of zeros.
    pub(crate) fn take(&mut self, arena: &Arena) -> Option<u32> {
        if self.free != 0 {
            let id = self.free;
            let unit = arena.unit(id);
            self.free = unit.get(LINK) as u32;
            self.free_count -= 1;
            unit.clear();
            return Some(id);
        }
        if self.next >= self.made {
            if !self.take_chunk() || !arena.make(self.made / CHUNK) {
                return None;
            }
            self.made += CHUNK;
        }
        self.next += 1;
        Some(self.next - 1)
    }

    pub(crate) fn give(&mut self, arena: &Arena, id: u32) {
        if id == 0 {
            return;
        }
        arena.unit(id).set(LINK, u64::from(self.free));
        self.free = id;
        self.free_count += 1;
    }
}
