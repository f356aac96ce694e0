//! JSON numbers: the grammar, and reading counts from them.

use std::ops::Range;

use super::JsonError;

/// Checks the number that starts at `at`; returns where it ends.
#[inline]
pub(super) fn lex(buf: &[u8], at: usize) -> Result<usize, JsonError> {
    let mut pos = at;
    if buf.get(pos) == Some(&b'-') {
        pos += 1;
    }
    pos = match buf.get(pos) {
        Some(b'0') => pos + 1,
        Some(b'1'..=b'9') => digits(buf, pos + 1),
        _ => return Err(JsonError { at: pos, what: "a number without digits" }),
    };
    if buf.get(pos) == Some(&b'.') {
        pos = some_digits(buf, pos + 1)?;
    }
    if let Some(b'e' | b'E') = buf.get(pos) {
        pos += 1;
        if let Some(b'+' | b'-') = buf.get(pos) {
            pos += 1;
        }
        pos = some_digits(buf, pos)?;
    }
    Ok(pos)
}

fn digits(buf: &[u8], mut pos: usize) -> usize {
    while buf.get(pos).is_some_and(u8::is_ascii_digit) {
        pos += 1;
    }
    pos
}

fn some_digits(buf: &[u8], pos: usize) -> Result<usize, JsonError> {
    let end = digits(buf, pos);
    if end == pos { Err(JsonError { at: pos, what: "a number without digits" }) } else { Ok(end) }
}

/// A checked number as a count: a non-negative whole number, however it is
/// spelled (`64`, `64.0`, `6.4e1`), clamped to the range of u32. None for
/// fractions and for negative numbers.
pub(crate) fn count_u32(text: &[u8]) -> Option<u32> {
    if text.iter().all(u8::is_ascii_digit) {
        return Some(u32::try_from(digits_u64(text)).unwrap_or(u32::MAX));
    }
    let value: f64 = std::str::from_utf8(text).ok()?.parse().ok()?;
    // A float-to-int cast saturates, so infinity (1e400) is the largest count.
    (value >= 0.0 && (value.fract() == 0.0 || value.is_infinite())).then_some(value as u32)
}

/// As [`count_u32`], of the number at `at` of `buf`: much faster for token ids, of
/// which a prompt may have many thousands.
#[inline]
pub(crate) fn count_at(buf: &[u8], at: Range<usize>) -> Option<u32> {
    let text = buf.get(at.clone())?;
    // The eight bytes up to its end at once, without a branch on how many are
    // its own: that would be wrong for every second id.
    let word = buf.get(..at.end).and_then(|before| before.last_chunk::<8>());
    if let (Some(word), 1..=8) = (word, text.len()) {
        let foreign = 64 - 8 * text.len();
        let digits = (u64::from_le_bytes(*word) ^ 0x3030_3030_3030_3030) >> foreign << foreign;
        if (digits | digits.wrapping_add(0x7676_7676_7676_7676)) & 0x8080_8080_8080_8080 == 0 {
            // Neighbours become numbers below 100, these below 10,000, and these one.
            let pairs = digits.wrapping_mul(10 << 8 | 1) >> 8 & 0x00ff_00ff_00ff_00ff;
            let fours = pairs.wrapping_mul(100 << 16 | 1) >> 16 & 0x0000_ffff_0000_ffff;
            return Some((fours.wrapping_mul(10_000 << 32 | 1) >> 32) as u32);
        }
    }
    count_u32(text)
}

/// A number that an engine reported, as a count: fractions are cut, what is
/// negative or not a number gives none.
pub(crate) fn lenient_u64(text: &[u8]) -> Option<u64> {
    if text.iter().all(u8::is_ascii_digit) {
        return Some(digits_u64(text));
    }
    let value: f64 = std::str::from_utf8(text).ok()?.parse().ok()?;
    (value >= 0.0).then_some(value as u64)
}

fn digits_u64(text: &[u8]) -> u64 {
    text.iter().fold(0u64, |n, d| n.saturating_mul(10).saturating_add(u64::from(d - b'0')))
}
