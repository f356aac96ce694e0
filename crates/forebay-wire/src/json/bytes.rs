//! Finding the bytes that matter inside a JSON string, many at a time.

const LOW: u64 = 0x0101_0101_0101_0101;
const HIGH: u64 = 0x8080_8080_8080_8080;
const BLOCK: usize = 32;

/// High bit of every byte that is `"`, `\` or below 0x20. Only the lowest set
/// bit is exact: a borrow can set bits above a true hit, never below.
fn special_bits(word: u64) -> u64 {
    let quote = word ^ (LOW * b'"' as u64);
    let slash = word ^ (LOW * b'\\' as u64);
    let hit = (quote.wrapping_sub(LOW) & !quote)
        | (slash.wrapping_sub(LOW) & !slash)
        | (word.wrapping_sub(LOW * 0x20) & !word);
    hit & HIGH
}

/// Offset of the first `"`, `\` or control byte at or after `from`, or the
/// length of `buf`. Sets `non_ascii` when a byte above 0x7F may have been
/// passed; it may look a little beyond the result.
#[inline]
pub(super) fn find_special(buf: &[u8], from: usize, non_ascii: &mut bool) -> usize {
    let mut pos = from;
    let mut high = 0u64;
    let mut rest = buf.get(from..).unwrap_or_default();
    // Short strings and text full of escapes end within the first words; the
    // wide loop below pays off only after that.
    for _ in 0..2 {
        let Some((head, tail)) = rest.split_first_chunk::<8>() else { break };
        let word = u64::from_le_bytes(*head);
        high |= word;
        let bits = special_bits(word);
        if bits != 0 {
            *non_ascii |= high & HIGH != 0;
            return pos + (bits.trailing_zeros() / 8) as usize;
        }
        (rest, pos) = (tail, pos + 8);
    }
    while let Some((block, tail)) = rest.split_first_chunk::<BLOCK>() {
        // Written so that the compiler turns it into vector compares.
        let (mut special, mut bits) = (0u8, 0u8);
        for &b in block {
            special |= u8::from(b == b'"') | u8::from(b == b'\\') | u8::from(b < 0x20);
            bits |= b;
        }
        high |= u64::from(bits & 0x80);
        if special != 0 {
            break;
        }
        (rest, pos) = (tail, pos + BLOCK);
    }
    while let Some((head, tail)) = rest.split_first_chunk::<8>() {
        let word = u64::from_le_bytes(*head);
        high |= word;
        let bits = special_bits(word);
        if bits != 0 {
            *non_ascii |= high & HIGH != 0;
            return pos + (bits.trailing_zeros() / 8) as usize;
        }
        (rest, pos) = (tail, pos + 8);
    }
    for &b in rest {
        if b == b'"' || b == b'\\' || b < 0x20 {
            break;
        }
        high |= u64::from(b & 0x80);
        pos += 1;
    }
    *non_ascii |= high & HIGH != 0;
    pos
}

#[cfg(test)]
mod tests {
    use super::find_special;

    #[test]
    fn every_special_byte_is_found_at_every_offset() {
        for special in [b'"', b'\\', 0, 0x0a, 0x1f] {
            for len in 0..100 {
                for at in 0..len {
                    let mut text = vec![b'a'; len];
                    text[at] = special;
                    assert_eq!(find_special(&text, 0, &mut false), at);
                    assert_eq!(find_special(&text, at + 1, &mut false), len);
                }
            }
        }
    }

    #[test]
    fn other_bytes_are_passed_and_non_ascii_is_told() {
        for byte in (0x20..=0xff).filter(|b| ![b'"', b'\\'].contains(b)) {
            for len in [1, 7, 8, 15, 16, 17, 40, 70] {
                let text = vec![byte; len];
                let mut non_ascii = false;
                assert_eq!(find_special(&text, 0, &mut non_ascii), len, "{byte:#x}");
                assert_eq!(non_ascii, byte >= 0x80, "{byte:#x} x {len}");
            }
        }
    }
}
