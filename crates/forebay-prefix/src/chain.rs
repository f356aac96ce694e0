//! The identity of a prompt: a chain of hashes in which every element stands
//! for the whole prefix that ends there.

use std::sync::Arc;

use xxhash_rust::xxh3::xxh3_64;

/// What the blocks of a chain were cut from.
///
/// Chains of both kinds live in one index and never meet, because the kind is
/// part of the [`seed`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// Fixed blocks of prompt text.
    Text,
    /// Blocks of token ids.
    Tokens,
}

/// Where the chains of one model, adapter, isolation salt and kind begin.
///
/// Prompts share entries only when all four are equal: an engine reuses no KV
/// blocks across adapters or salts either. The parts are framed by their
/// lengths, so no two different inputs are written to the same bytes.
pub fn seed(model: &str, adapter: Option<&str>, salt: Option<u64>, kind: Kind) -> u64 {
    let mut framed = Vec::with_capacity(model.len() + adapter.map_or(0, str::len) + 32);
    framed.push(match kind {
        Kind::Text => 1,
        Kind::Tokens => 2,
    });
    framed.extend_from_slice(&(model.len() as u64).to_le_bytes());
    framed.extend_from_slice(model.as_bytes());
    framed.push(u8::from(adapter.is_some()));
    framed.extend_from_slice(&(adapter.map_or(0, str::len) as u64).to_le_bytes());
    framed.extend_from_slice(adapter.unwrap_or_default().as_bytes());
    framed.push(u8::from(salt.is_some()));
    framed.extend_from_slice(&salt.unwrap_or_default().to_le_bytes());
    xxh3_64(&framed)
}

/// The chain of a prompt from the hashes of its blocks, in order:
/// `h[0] = next(seed, blocks[0])`, `h[i] = next(h[i-1], blocks[i])`.
pub fn chain(seed: u64, blocks: &[u64]) -> Arc<[u64]> {
    let mut last = seed;
    blocks
        .iter()
        .map(|&block| {
            last = next(last, block);
            last
        })
        .collect()
}

/// The chain element that follows `parent` (or a seed) when the prompt goes on
/// with `block`.
///
/// XXH3 over the 16 bytes of both: it takes one 64×64→128 multiplication with
/// both halves folded, about 3 ns, and unlike a plain `parent * K ^ block` it
/// has no pairs that cancel. A collision costs a wrong guess of what is cached
/// and nothing else, so nothing stronger is needed.
#[inline]
pub fn next(parent: u64, block: u64) -> u64 {
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&parent.to_le_bytes());
    bytes[8..].copy_from_slice(&block.to_le_bytes());
    xxh3_64(&bytes)
}

/// The hash of each full block of `block` token ids, independent of what
/// precedes it; ids after the last full block are left out. No blocks when
/// `block` is 0.
pub fn token_blocks(ids: &[u32], block: usize) -> Vec<u64> {
    if block == 0 {
        return Vec::new();
    }
    let mut bytes = Vec::with_capacity(block.min(ids.len()) * 4);
    ids.chunks_exact(block)
        .map(|block| {
            bytes.clear();
            block.iter().for_each(|id| bytes.extend_from_slice(&id.to_le_bytes()));
            xxh3_64(&bytes)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_part_of_a_seed_counts() {
        let seeds = [
            seed("m", None, None, Kind::Text),
            seed("m", None, None, Kind::Tokens),
            seed("m", Some(""), None, Kind::Text),
            seed("m", Some("a"), None, Kind::Text),
            seed("ma", None, None, Kind::Text),
            seed("m", None, Some(0), Kind::Text),
            seed("m", None, Some(1), Kind::Text),
            seed("", Some("m"), None, Kind::Text),
        ];
        for (i, a) in seeds.iter().enumerate() {
            assert!(seeds[i + 1..].iter().all(|b| a != b), "seed {i} is not its own");
        }
    }

    #[test]
    fn an_element_stands_for_the_whole_prefix() {
        let (a, b) = (chain(1, &[10, 20, 30]), chain(1, &[10, 21, 30]));
        assert_eq!(a[0], b[0]);
        assert!(a[1] != b[1] && a[2] != b[2]);
        assert_eq!(next(a[1], 30), a[2]);
        assert_eq!(*chain(1, &[10, 20]), a[..2]);
        assert!(chain(1, &[]).is_empty());
        assert_ne!(chain(2, &[10])[0], a[0]);
    }

    #[test]
    fn only_full_token_blocks_count() {
        let ids: Vec<u32> = (0..10).collect();
        let blocks = token_blocks(&ids, 4);
        assert_eq!(blocks.len(), 2);
        assert_eq!(blocks, token_blocks(&ids[..8], 4));
        assert_ne!(blocks[0], blocks[1]);
        assert!(token_blocks(&ids, 0).is_empty() && token_blocks(&ids[..3], 4).is_empty());
    }
}
