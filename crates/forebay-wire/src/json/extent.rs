//! From the opening quote of a JSON string to its closing one.

use super::JsonError;
use super::bytes::{BLOCK, HIGH, mask, special_bits, special_bytes, union};

/// Where a string ends and what lies before.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Extent {
    /// Offset of the closing quote.
    pub(super) end: usize,
    /// How many bytes the escapes cost over the decoded text.
    pub(super) escape_cost: usize,
    /// A byte above 0x7F may have been passed. Not exact: bytes a little beyond
    /// the string count too.
    pub(super) non_ascii: bool,
}

/// The string whose first byte is at `start`, when it ends within two words
/// and has no escape: names and roles, most strings there are.
#[inline]
pub(super) fn short(buf: &[u8], start: usize) -> Option<Extent> {
    let (mut pos, mut high, mut rest) = (start, 0, buf.get(start..)?);
    for _ in 0..2 {
        let (head, tail) = rest.split_first_chunk::<8>()?;
        let word = u64::from_le_bytes(*head);
        high |= word;
        let bits = special_bits(word);
        if bits != 0 {
            let end = pos + (bits.trailing_zeros() / 8) as usize;
            let non_ascii = high & HIGH != 0;
            return (buf.get(end) == Some(&b'"')).then_some(Extent { end, escape_cost: 0, non_ascii });
        }
        (pos, rest) = (pos + 8, tail);
    }
    None
}

/// The string whose first byte is at `start`, of any length.
pub(super) fn long(buf: &[u8], start: usize) -> Result<Extent, JsonError> {
    // Blocks follow each other from `start` on, whatever is found in them: did
    // the place of one depend on the escapes of the last, the processor could
    // not work on several at once.
    let (mut base, mut high) = (start, 0);
    let mut before = Passed::default();
    while let Some(window) = buf.get(base..).and_then(|rest| rest.first_chunk::<WINDOW>()) {
        let [first, second] = blocks(window);
        let special = [special_bytes(first), special_bytes(second)];
        high |= union(first) | union(second);
        if union(&special[0]) | union(&special[1]) == 0 {
            base += 2 * BLOCK;
            before.over = 0;
            continue;
        }
        for (nth, special) in special.iter().enumerate() {
            let mask = mask(special) & !before.over;
            before = match simple_escapes(&window[nth * BLOCK..], mask, before.cost) {
                Some(passed) => passed,
                None => match each(buf, base, mask, before.cost)? {
                    Found::Passed(passed) => passed,
                    Found::End { at, cost } => return Ok(extent(at, cost, high)),
                },
            };
            base += BLOCK;
        }
    }
    tail(buf, base, before, high)
}

fn extent(end: usize, escape_cost: usize, high: u64) -> Extent {
    Extent { end, escape_cost, non_ascii: high & HIGH != 0 }
}

/// Two blocks, and two bytes because the one after an escape's backslash may be
/// among them. Two, because prose in lines has something in nearly every 128
/// bytes, and prose without has nothing in any: the processor can predict both,
/// and 64 bytes of the former it can not.
const WINDOW: usize = 2 * BLOCK + 2;

#[inline(always)]
fn blocks(window: &[u8; WINDOW]) -> [&[u8; BLOCK]; 2] {
    match window.as_chunks().0 {
        [first, second, ..] => [first, second],
        _ => [&[b' '; BLOCK]; 2],
    }
}

/// What is known at the end of a block.
#[derive(Clone, Copy, Default)]
struct Passed {
    /// What all escapes so far cost over the decoded text.
    cost: usize,
    /// One bit for each of the next block's first bytes that belong to an escape
    /// which began before it.
    over: u64,
}

enum Found {
    Passed(Passed),
    /// The closing quote.
    End {
        at: usize,
        cost: usize,
    },
}

/// Passes a block in which there is nothing but at most [`SLOTS`] escapes of two
/// bytes. Without a branch on where they are or how many: in prose with an
/// escape every 80 bytes such a branch is wrong for every third block, which
/// costs more than all the rest.
#[inline(always)]
fn simple_escapes(window: &[u8], mut mask: u64, mut cost: usize) -> Option<Passed> {
    let window = window.first_chunk::<{ BLOCK + 2 }>()?;
    let (mut over, mut odd) = (0, false);
    for _ in 0..SLOTS {
        let at = mask.trailing_zeros() as usize;
        let found = mask != 0;
        let rest = mask & mask.wrapping_sub(1);
        let bit = mask ^ rest;
        // What follows the backslash is not itself looked at.
        mask = rest & !(bit << 1);
        over |= bit >> (BLOCK - 1);
        cost += usize::from(found);
        let simple = (window[at] == b'\\') & SIMPLE[usize::from(window[at + 1])];
        odd |= found & !simple;
    }
    (!odd & (mask == 0)).then_some(Passed { cost, over })
}

/// Takes the special bytes of the block at `base` one by one.
#[inline(never)]
fn each(buf: &[u8], base: usize, mut mask: u64, mut cost: usize) -> Result<Found, JsonError> {
    let mut over = 0;
    while mask != 0 {
        let nth = mask.trailing_zeros();
        let at = base + nth as usize;
        match buf.get(at) {
            Some(b'"') => return Ok(Found::End { at, cost }),
            Some(b'\\') => {
                let (raw, decoded) = escape_len(buf, at)?;
                cost += raw - decoded;
                let bits = (1u64 << raw) - 1;
                mask &= !(bits << nth);
                over = bits.unbounded_shr(BLOCK as u32 - nth);
            }
            _ => return Err(JsonError { at, what: "an unescaped control character in a string" }),
        }
    }
    Ok(Found::Passed(Passed { cost, over }))
}

/// What is left when no whole window is.
fn tail(buf: &[u8], mut base: usize, mut before: Passed, mut high: u64) -> Result<Extent, JsonError> {
    while let Some(rest @ [_, ..]) = buf.get(base..) {
        let mut padded = [b' '; BLOCK];
        // The last block of the text again, less what lies before `base`: no
        // copy. Only a text shorter than a block is copied.
        let (block, shift) = match (rest.first_chunk(), buf.last_chunk()) {
            (Some(block), _) => (block, 0),
            (None, Some(last)) => (last, BLOCK - rest.len()),
            (None, None) => {
                padded[..rest.len()].copy_from_slice(rest);
                (&padded, 0)
            }
        };
        high |= union(block);
        let mask = mask(&special_bytes(block)) >> shift & !before.over;
        before = match each(buf, base, mask, before.cost)? {
            Found::Passed(passed) => passed,
            Found::End { at, cost } => return Ok(extent(at, cost, high)),
        };
        base += BLOCK;
    }
    Err(JsonError { at: buf.len(), what: "the end inside a string" })
}

/// Escapes that a block may have before they are taken one by one.
const SLOTS: usize = 2;

/// What makes an escape of two bytes.
static SIMPLE: [bool; 256] = {
    let mut table = [false; 256];
    let letters = b"\"\\/bfnrt";
    let mut nth = 0;
    while nth < letters.len() {
        table[letters[nth] as usize] = true;
        nth += 1;
    }
    table
};

/// Checks the escape at `at`; returns its length as written and decoded.
#[inline]
fn escape_len(buf: &[u8], at: usize) -> Result<(usize, usize), JsonError> {
    match buf.get(at + 1) {
        Some(b'u') => match buf.get(at + 2..).and_then(hex4) {
            // A surrogate counts as two: half of the four bytes of a pair.
            Some(unit) => {
                let three = unit >= 0x800 && !(0xd800..=0xdfff).contains(&unit);
                Ok((6, 1 + usize::from(unit >= 0x80) + usize::from(three)))
            }
            None => Err(JsonError { at, what: "a \\u escape without four hexadecimal digits" }),
        },
        Some(&other) if SIMPLE[usize::from(other)] => Ok((2, 1)),
        _ => Err(JsonError { at, what: "an escape that JSON does not have" }),
    }
}

/// The value of every hexadecimal digit; above 15 for what is none.
static DIGIT: [u8; 256] = {
    let mut table = [0xff; 256];
    let mut nth = 0;
    while nth < 16 {
        let digit = b"0123456789abcdef"[nth];
        table[digit as usize] = nth as u8;
        table[digit.to_ascii_uppercase() as usize] = nth as u8;
        nth += 1;
    }
    table
};

/// The value of the four hexadecimal digits that `text` begins with.
#[inline]
pub(super) fn hex4(text: &[u8]) -> Option<u32> {
    let digits = text.first_chunk::<4>()?.map(|d| DIGIT[usize::from(d)]);
    if digits.iter().fold(0, |all, d| all | d) > 15 {
        return None;
    }
    Some(digits.iter().fold(0, |value, d| value << 4 | u32::from(*d)))
}

#[cfg(test)]
mod tests;
