//! The rendered prompt in blocks of one size, each by its hash.

use xxhash_rust::xxh3::xxh3_64;

use crate::json::{ROOM, Str, Unescape};

/// Bytes of rendered prompt in one block of the text prefix index.
pub const BLOCK_BYTES: usize = 256;

/// A mark, and what is decoded at once.
const SPARE: usize = 1 + ROOM;

/// Strings up to this length are copied as if they had it.
const NEAR: usize = 64;

/// How much of one step can lie beyond a block's end, and a little: a mark and a
/// near string, or what is decoded at once.
const BEYOND: usize = 72;

/// Takes a text in pieces; what comes out depends on the text alone.
///
/// A block that lies in one piece is hashed where it lies. Others are put
/// together here: copying three pieces and hashing them at once takes two thirds
/// of what XXH3's own streaming state takes (17 to 26 ns).
pub(super) struct Blocks {
    hashes: Vec<u64>,
    /// The block that is not full yet, and room for writing beyond its end.
    open: [u8; BLOCK_BYTES + SPARE],
    len: usize,
}

impl Blocks {
    /// No text yet; `expected` bytes of it may come.
    pub(super) fn new(expected: usize) -> Blocks {
        let hashes = Vec::with_capacity((expected / BLOCK_BYTES).min(1024));
        Blocks { hashes, open: [0; BLOCK_BYTES + SPARE], len: 0 }
    }

    /// Bytes taken so far.
    pub(super) fn total(&self) -> usize {
        self.hashes.len() * BLOCK_BYTES + self.len
    }

    /// The hashes of all full blocks.
    pub(super) fn into_hashes(mut self) -> Vec<u64> {
        // A body of pictures has far less text than its size lets expect.
        self.hashes.shrink_to(2 * self.hashes.len());
        self.hashes
    }

    #[inline]
    pub(super) fn push_byte(&mut self, byte: u8) {
        self.open[self.len] = byte;
        self.len += 1;
        self.flush();
    }

    #[inline]
    pub(super) fn push_word(&mut self, word: [u8; 4]) {
        if let Some(room) = self.open[self.len..].first_chunk_mut() {
            *room = word;
            self.len += word.len();
            self.flush();
        }
    }

    #[inline]
    pub(super) fn push(&mut self, mut run: &[u8]) {
        if self.len > 0 || run.len() < BLOCK_BYTES {
            let room = BLOCK_BYTES - self.len;
            let Some((head, rest)) = run.split_at_checked(room) else {
                self.open[self.len..self.len + run.len()].copy_from_slice(run);
                self.len += run.len();
                return;
            };
            self.open[self.len..BLOCK_BYTES].copy_from_slice(head);
            self.len = BLOCK_BYTES;
            self.flush();
            run = rest;
        }
        let (blocks, rest) = run.as_chunks::<BLOCK_BYTES>();
        self.hashes.extend(blocks.iter().map(|block| xxh3_64(block)));
        self.open[..rest.len()].copy_from_slice(rest);
        self.len = rest.len();
    }

    /// `mark`, and the decoded text of a string in `buf`.
    #[inline]
    pub(super) fn push_marked(&mut self, mark: u8, buf: &[u8], text: Str) {
        // Most strings are short, and a copy of known length is fastest.
        let near = buf.get(text.start..).and_then(|near| near.first_chunk::<NEAR>());
        let room = self.open[self.len..].first_chunk_mut::<SPARE>();
        match (near, room, text.raw(buf).len()) {
            (Some(near), Some(room), len @ 0..=NEAR) if text.is_plain() => {
                room[0] = mark;
                room[1..1 + NEAR].copy_from_slice(near);
                self.len += 1 + len;
                self.flush();
            }
            _ => {
                self.push_byte(mark);
                self.push_text(buf, text);
            }
        }
    }

    /// The decoded text of a string in `buf`.
    pub(super) fn push_text(&mut self, buf: &[u8], text: Str) {
        let raw = text.raw(buf);
        if text.is_plain() {
            return self.push(raw);
        }
        let mut text = Unescape::new(buf.get(text.start..).unwrap_or_default(), raw.len());
        while let Some(room) = self.open[self.len..].first_chunk_mut()
            && let Some(written) = text.step(room)
        {
            self.len += written;
            self.flush();
        }
    }

    /// Hashes the open block when it is full; what was written beyond its end
    /// begins the next.
    #[inline]
    fn flush(&mut self) {
        let (block, beyond) = self.open.split_at_mut(BLOCK_BYTES);
        if self.len >= BLOCK_BYTES {
            self.hashes.push(xxh3_64(block));
            block[..BEYOND].copy_from_slice(&beyond[..BEYOND]);
            self.len -= BLOCK_BYTES;
        }
    }
}
