//! Decoding the escapes of JSON strings.

use super::bytes::{BLOCK, mask};
use super::extent::hex4;

/// Room that a step of [`Unescape`] wants: a block that begins behind another.
pub(crate) const ROOM: usize = 2 * BLOCK + 4;

/// What a step looks at: a block, and one that begins behind an escape at its end.
const WINDOW: usize = 2 * BLOCK + 2;

/// Decodes a checked string, a block as written at a step.
pub(crate) struct Unescape<'a> {
    /// The text from the next block on, with what stands behind the string.
    rest: &'a [u8],
    /// How much of `rest` is the string.
    left: usize,
    /// How much of the next block belongs to an escape that is decoded already.
    over: usize,
}

impl<'a> Unescape<'a> {
    /// `left` bytes, the beginning of `rest`, are the string.
    pub(crate) fn new(rest: &'a [u8], left: usize) -> Unescape<'a> {
        Unescape { rest, left, over: 0 }
    }

    /// Writes some of the decoded text to `out`; returns how many bytes, none at
    /// the end. What lies behind these is anything.
    ///
    /// As when a string is checked, blocks follow each other whatever is found in
    /// them, and two escapes of two bytes are taken without a branch on where or
    /// whether they are.
    #[inline(always)]
    pub(crate) fn step(&mut self, out: &mut [u8; ROOM]) -> Option<usize> {
        if self.left == 0 {
            return None;
        }
        let Some(window) = self.rest.first_chunk::<WINDOW>() else { return Some(self.near_end(out)) };
        let limit = self.left.min(BLOCK);
        let all = slashes(window) & u64::MAX >> (BLOCK - limit) & u64::MAX << self.over;
        let (mut mask, mut from, mut len, mut odd) = (all, self.over, 0, false);
        for _ in 0..2 {
            put(out, len, window, from);
            let found = mask != 0;
            let at = (mask.trailing_zeros() as usize).min(limit);
            let byte = SIMPLE[usize::from(window[at + 1])];
            odd |= found & (byte == 0);
            len += at.saturating_sub(from);
            out[len.min(ROOM - 1)] = byte;
            len += usize::from(found);
            from = at.max(from) + 2 * usize::from(found);
            let behind = mask & mask.wrapping_sub(1);
            // What follows the backslash is no escape of its own.
            mask = behind & !((mask ^ behind) << 1);
        }
        put(out, len, window, from);
        len += limit.saturating_sub(from);
        if odd | (mask != 0) {
            (len, from) = each(self.rest, window, all, limit, self.over, out);
        }
        self.rest = self.rest.get(limit..).unwrap_or_default();
        self.left -= limit;
        self.over = from.saturating_sub(limit);
        Some(len)
    }

    /// As [`Unescape::step`], where the text ends within a window: up to the end
    /// of the first escape.
    #[inline(never)]
    fn near_end(&mut self, out: &mut [u8; ROOM]) -> usize {
        let text = self.rest.get(self.over..self.left).unwrap_or_default();
        let block = &text[..text.len().min(BLOCK)];
        out[..block.len()].copy_from_slice(block);
        let (read, written) = match memchr::memchr(b'\\', block) {
            Some(at) => {
                let (raw, decoded) = one(text, at, at, out);
                (at + raw, at + decoded)
            }
            None => (block.len(), block.len()),
        };
        let read = (self.over + read).max(1);
        self.rest = self.rest.get(read..).unwrap_or_default();
        self.left = self.left.saturating_sub(read);
        self.over = 0;
        written
    }
}

/// One bit for every backslash of the first block.
#[inline(always)]
fn slashes(window: &[u8; WINDOW]) -> u64 {
    let block = window.first_chunk().unwrap_or(&[0; BLOCK]);
    mask(&block.map(|b| 0u8.wrapping_sub(u8::from(b == b'\\'))))
}

/// Copies a block of `window`, more than is needed, because its length is known.
#[inline(always)]
fn put(out: &mut [u8; ROOM], len: usize, window: &[u8; WINDOW], from: usize) {
    let (len, from) = (len.min(ROOM - BLOCK), from.min(WINDOW - BLOCK));
    out[len..len + BLOCK].copy_from_slice(&window[from..from + BLOCK]);
}

/// Takes the escapes of a block one by one; returns how much is written, and
/// where the last one ends. `text` begins with the window.
#[inline(never)]
fn each(
    text: &[u8],
    window: &[u8; WINDOW],
    mut mask: u64,
    limit: usize,
    over: usize,
    out: &mut [u8; ROOM],
) -> (usize, usize) {
    let (mut from, mut len) = (over, 0);
    while mask != 0 {
        let at = mask.trailing_zeros() as usize;
        // Texts of another script have nothing between their escapes.
        if at > from {
            put(out, len, window, from);
            len += at - from;
        }
        let (raw, decoded) = one(text, at, len, out);
        (from, len) = (at + raw, len + decoded);
        mask &= u64::MAX.unbounded_shl(from as u32);
    }
    put(out, len, window, from);
    (len + limit.saturating_sub(from), from)
}

/// Decodes the escape at `at`; returns its length as written and decoded.
#[inline(always)]
fn one(text: &[u8], at: usize, len: usize, out: &mut [u8; ROOM]) -> (usize, usize) {
    let Decoded { raw, utf8, len: decoded } = decode_escape(text.get(at..).unwrap_or_default());
    if let Some(room) = out.get_mut(len..len + 4) {
        room.copy_from_slice(&utf8);
    }
    (raw, decoded)
}

/// What an escape of two bytes stands for, by its second; 0 for other bytes.
static SIMPLE: [u8; 256] = {
    let mut table = [0; 256];
    let pairs = b"\"\"\\\\//b\x08f\x0cn\nr\rt\t";
    let mut nth = 0;
    while nth < pairs.len() {
        table[pairs[nth] as usize] = pairs[nth + 1];
        nth += 2;
    }
    table
};

/// A decoded escape.
pub(super) struct Decoded {
    /// Its length as written.
    pub(super) raw: usize,
    /// Its UTF-8, and zeros.
    pub(super) utf8: [u8; 4],
    pub(super) len: usize,
}

impl Decoded {
    /// From UTF-8 in one number, the first byte lowest: written to memory byte by
    /// byte it could not be read in one piece at once.
    #[inline(always)]
    fn new(raw: usize, utf8: u32, len: usize) -> Decoded {
        Decoded { raw, utf8: utf8.to_le_bytes(), len }
    }
}

/// Decodes the checked escape that `text` starts with. A lone surrogate becomes
/// the three bytes that UTF-8 would give it.
#[inline]
pub(super) fn decode_escape(text: &[u8]) -> Decoded {
    match text.get(1) {
        Some(b'u') => decode_unicode(text),
        Some(&letter) => Decoded::new(2, u32::from(SIMPLE[usize::from(letter)]), 1),
        None => Decoded::new(2, u32::from(b'\\'), 1),
    }
}

#[inline]
fn decode_unicode(text: &[u8]) -> Decoded {
    let unit = |at: usize| text.get(at..).and_then(hex4);
    let first = unit(2).unwrap_or(0xfffd);
    let tail = |bits: u32, shift: u32| 0x80 | (bits >> shift & 0x3f);
    match first {
        0..0x80 => Decoded::new(6, first, 1),
        0x80..0x800 => Decoded::new(6, 0xc0 | first >> 6 | tail(first, 0) << 8, 2),
        0xd800..0xdc00
            if text.get(6..8) == Some(b"\\u")
                && let Some(second @ 0xdc00..=0xdfff) = unit(8) =>
        {
            let c = 0x10000 + ((first - 0xd800) << 10) + (second - 0xdc00);
            let utf8 = 0xf0 | c >> 18 | tail(c, 12) << 8 | tail(c, 6) << 16 | tail(c, 0) << 24;
            Decoded::new(12, utf8, 4)
        }
        _ => Decoded::new(6, 0xe0 | first >> 12 | tail(first, 6) << 8 | tail(first, 0) << 16, 3),
    }
}
