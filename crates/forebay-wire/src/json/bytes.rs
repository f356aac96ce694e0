//! Finding the bytes that matter inside a JSON string, many at a time.

use wide::u8x16;

const LOW: u64 = 0x0101_0101_0101_0101;
pub(super) const HIGH: u64 = 0x8080_8080_8080_8080;

/// How many bytes are looked at together: one bit each fills a word.
pub(super) const BLOCK: usize = 64;

/// High bit of every byte that is `"`, `\` or below 0x20. Only the lowest set
/// bit is exact: a borrow can set bits above a true hit, never below.
pub(super) fn special_bits(word: u64) -> u64 {
    let quote = word ^ (LOW * b'"' as u64);
    let slash = word ^ (LOW * b'\\' as u64);
    let hit = (quote.wrapping_sub(LOW) & !quote)
        | (slash.wrapping_sub(LOW) & !slash)
        | (word.wrapping_sub(LOW * 0x20) & !word);
    hit & HIGH
}

/// 0xFF for every byte that is `"`, `\` or below 0x20, 0 for the others.
///
/// Written, as all of this file, so that the compiler turns it into vector
/// instructions without intrinsics, and so without unsafe code.
#[inline(always)]
pub(super) fn special_bytes(block: &[u8; BLOCK]) -> [u8; BLOCK] {
    block.map(|b| {
        // The quote is the one byte that this puts right behind the controls.
        let special = ((b ^ 0x02) <= 0x20) | (b == b'\\');
        0u8.wrapping_sub(u8::from(special))
    })
}

/// One bit for each of [`special_bytes`], the first byte's lowest.
#[inline(always)]
pub(super) fn mask(bytes: &[u8; BLOCK]) -> u64 {
    let (chunks, _) = bytes.as_chunks::<16>();
    chunks.iter().rev().fold(0, |mask, &chunk| mask << 16 | u64::from(u8x16::new(chunk).to_bitmask()))
}

/// All bytes of the block in one, each at its place modulo 8.
#[inline(always)]
pub(super) fn union(block: &[u8; BLOCK]) -> u64 {
    block.as_chunks::<8>().0.iter().fold(0, |all, word| all | u64::from_le_bytes(*word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_is_told_apart_at_every_place() {
        for byte in 0..=255 {
            let special = byte == b'"' || byte == b'\\' || byte < 0x20;
            for at in 0..BLOCK {
                let mut block = [b'a'; BLOCK];
                block[at] = byte;
                assert_eq!(mask(&special_bytes(&block)), u64::from(special) << at, "{byte:#x} at {at}");
                assert_eq!(union(&block) & HIGH != 0, byte > 0x7f, "{byte:#x} at {at}");
            }
            let bits = special_bits(u64::from_le_bytes([b'a', b'a', byte, byte, b'a', b'"', b'a', b'a']));
            assert_eq!(bits.trailing_zeros() / 8, if special { 2 } else { 5 }, "{byte:#x}");
            assert_eq!(mask(&special_bytes(&[byte; BLOCK])), if special { u64::MAX } else { 0 });
        }
    }
}
