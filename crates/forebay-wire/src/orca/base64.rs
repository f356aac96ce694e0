//! Base64 of RFC 4648, with or without padding.

use super::OrcaError;

pub(super) fn decode(text: &[u8]) -> Result<Vec<u8>, OrcaError> {
    let padding = text.iter().rev().take_while(|&&b| b == b'=').count();
    let letters = &text[..text.len() - padding];
    // Padding fills the last group of four, or is left out.
    let full = padding == 0 || (padding <= 2 && text.len().is_multiple_of(4));
    if !full || letters.len() % 4 == 1 {
        return Err(OrcaError::Base64 { at: letters.len() });
    }
    let mut out = Vec::with_capacity(letters.len() / 4 * 3 + 2);
    for (group, chunk) in letters.chunks(4).enumerate() {
        let mut bits = 0;
        for (at, &letter) in chunk.iter().enumerate() {
            let six = six_bits(letter).ok_or(OrcaError::Base64 { at: group * 4 + at })?;
            bits |= six << (18 - 6 * at);
        }
        out.extend_from_slice(&bits.to_be_bytes()[1..chunk.len()]);
    }
    Ok(out)
}

fn six_bits(letter: u8) -> Option<u32> {
    let value = match letter {
        b'A'..=b'Z' => letter - b'A',
        b'a'..=b'z' => letter - b'a' + 26,
        b'0'..=b'9' => letter - b'0' + 52,
        b'+' => 62,
        b'/' => 63,
        _ => return None,
    };
    Some(value.into())
}
