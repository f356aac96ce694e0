//! Request ids: unique, short, and not guessable from one another.

use std::sync::atomic::{AtomicU64, Ordering};

use http::HeaderValue;
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// Longest id that is taken over from a client.
const MAX_CLIENT_ID: usize = 128;

/// Makes ids from a counter and a seed.
#[derive(Debug)]
pub(crate) struct RequestIds {
    seed: u64,
    next: AtomicU64,
}

impl RequestIds {
    pub(crate) fn new(seed: u64) -> RequestIds {
        RequestIds { seed, next: AtomicU64::new(0) }
    }

    /// A number that no other request of this process has.
    pub(crate) fn draw(&self) -> u64 {
        let n = self.next.fetch_add(1, Ordering::Relaxed);
        // A bijection of 64 bits would be unique for certain; this hash of 8
        // bytes is one for a fixed seed as far as any request count can tell.
        xxh3_64_with_seed(&n.to_le_bytes(), self.seed)
    }
}

/// The id as a header: the client's own where it is sound, else the number in hex.
pub(crate) fn header_value(client: Option<&HeaderValue>, number: u64) -> HeaderValue {
    if let Some(id) = client
        && !id.is_empty()
        && id.len() <= MAX_CLIENT_ID
        && id.as_bytes().iter().all(u8::is_ascii_graphic)
    {
        return id.clone();
    }
    let mut hex = [0u8; 16];
    for (i, digit) in hex.iter_mut().enumerate() {
        let nibble = (number >> (60 - 4 * i)) & 0xF;
        *digit = b"0123456789abcdef"[nibble as usize];
    }
    // Hex digits are always a valid value.
    HeaderValue::from_bytes(&hex).unwrap_or(HeaderValue::from_static("0"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sound_client_ids_are_kept_and_others_replaced() {
        let keep = HeaderValue::from_static("req-1");
        assert_eq!(header_value(Some(&keep), 1), keep);
        for bad in ["", "a b", &"x".repeat(129)] {
            let bad = HeaderValue::from_str(bad).unwrap();
            assert_eq!(header_value(Some(&bad), 0xabc), "0000000000000abc");
        }
    }

    #[test]
    fn numbers_do_not_repeat() {
        let ids = RequestIds::new(7);
        let drawn: std::collections::BTreeSet<u64> = (0..10_000).map(|_| ids.draw()).collect();
        assert_eq!(drawn.len(), 10_000);
    }
}
