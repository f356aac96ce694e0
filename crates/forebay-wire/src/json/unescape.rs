//! Decoding the escapes of JSON strings.

use super::bytes::{BLOCK, mask};
use super::extent::hex4;

/// Room that [`unescape_some`] wants: a block, and the longest escape.
pub(crate) const ROOM: usize = BLOCK + 4;

/// Decodes the beginning of `text`, a checked string from a place where no
/// escape began before: up to the end of its first escape, at most a block.
/// Returns how many bytes it has read, none only of an empty text, and how many
/// bytes of `out` it has decided; what lies behind these is anything.
#[inline(always)]
pub(crate) fn unescape_some(text: &[u8], out: &mut [u8; ROOM]) -> (usize, usize) {
    let Some(window) = text.first_chunk::<{ BLOCK + 2 }>() else {
        return unescape_tail(text, out);
    };
    let (block, _) = split(window);
    out[..BLOCK].copy_from_slice(block);
    let at = mask(&slashes(block)).trailing_zeros() as usize;
    // Without a branch on whether there is one: in prose in lines every second
    // block has an escape, and such a branch would often be taken wrongly.
    let found = at < BLOCK;
    let byte = SIMPLE[usize::from(window[at.min(BLOCK) + 1])];
    if found & (byte == 0) {
        return unescape_long(text, at, out);
    }
    out[at.min(BLOCK)] = byte;
    (at + 2 * usize::from(found), at + usize::from(found))
}

#[inline(always)]
fn split(window: &[u8; BLOCK + 2]) -> (&[u8; BLOCK], &[u8]) {
    window.split_first_chunk().unwrap_or((&[0; BLOCK], &[]))
}

/// 0xFF for every backslash, 0 for other bytes.
#[inline(always)]
fn slashes(block: &[u8; BLOCK]) -> [u8; BLOCK] {
    block.map(|b| 0u8.wrapping_sub(u8::from(b == b'\\')))
}

/// As [`unescape_some`], for what is left when no whole window is.
#[inline(never)]
fn unescape_tail(text: &[u8], out: &mut [u8; ROOM]) -> (usize, usize) {
    let block = &text[..text.len().min(BLOCK)];
    out[..block.len()].copy_from_slice(block);
    match memchr::memchr(b'\\', block) {
        Some(at) => unescape_long(text, at, out),
        None => (block.len(), block.len()),
    }
}

/// Decodes the escape at `at`, behind bytes that are in `out` already.
#[inline(never)]
fn unescape_long(text: &[u8], at: usize, out: &mut [u8; ROOM]) -> (usize, usize) {
    let mut utf8 = [0; 4];
    let (raw, len) = decode_escape(text.get(at..).unwrap_or_default(), &mut utf8);
    if let Some(room) = out.get_mut(at..at + 4) {
        room.copy_from_slice(&utf8);
    }
    (at + raw, at + len)
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

/// Decodes the checked escape that `text` starts with; returns its length as
/// written and decoded.
pub(super) fn decode_escape(text: &[u8], out: &mut [u8; 4]) -> (usize, usize) {
    match text.get(1) {
        Some(b'u') => return decode_unicode(text, out),
        Some(&letter) => out[0] = SIMPLE[usize::from(letter)],
        None => out[0] = b'\\',
    }
    (2, 1)
}

fn decode_unicode(text: &[u8], out: &mut [u8; 4]) -> (usize, usize) {
    let unit = |at: usize| text.get(at..at + 4).and_then(hex4);
    let first = unit(2).unwrap_or(0xfffd);
    if (0xd800..0xdc00).contains(&first)
        && text.get(6..8) == Some(b"\\u")
        && let Some(second @ 0xdc00..=0xdfff) = unit(8)
        && let Some(c) = char::from_u32(0x10000 + ((first - 0xd800) << 10) + (second - 0xdc00))
    {
        return (12, c.encode_utf8(out).len());
    }
    match char::from_u32(first) {
        Some(c) => (6, c.encode_utf8(out).len()),
        None => {
            *out = [
                0xe0 | (first >> 12) as u8,
                0x80 | (first >> 6 & 0x3f) as u8,
                0x80 | (first & 0x3f) as u8,
                0,
            ];
            (6, 3)
        }
    }
}
