//! The identity of KV blocks.

use xxhash_rust::xxh3::xxh3_64_with_seed;

/// One hash for every full block of `tokens`, each over its own tokens and the
/// hash before it, so that equal hashes mean equal text from the beginning.
///
/// `salt` keeps caches apart that must not share (another adapter, a
/// `cache_salt`). Tokens that do not fill a block have no hash.
///
/// ```
/// use forebay_sim::engine::block_chain;
/// let a = block_chain(&[1, 2, 3, 4, 5], 2, 0);
/// let b = block_chain(&[1, 2, 9, 4, 5], 2, 0);
/// assert_eq!((a.len(), a[0] == b[0], a[1] == b[1]), (2, true, false));
/// ```
pub fn block_chain(tokens: &[u32], block_size: u32, salt: u64) -> Vec<u64> {
    let mut parent = salt;
    let mut bytes = Vec::with_capacity(block_size as usize * 4);
    tokens
        .chunks_exact((block_size as usize).max(1))
        .map(|block| {
            bytes.clear();
            bytes.extend(block.iter().flat_map(|t| t.to_le_bytes()));
            parent = xxh3_64_with_seed(&bytes, parent);
            parent
        })
        .collect()
}
