//! From token ids to the index's chain.

use std::sync::Arc;

use forebay_prefix::{chain, token_blocks};

/// The chain of a prompt of token ids in blocks of `block` ids, the block of
/// the token index ([`forebay_prefix::engine_map::index_block`] of the engine's). `seed` is
/// that of the model, adapter and salt, of kind
/// [`Tokens`](forebay_prefix::Kind::Tokens). Ids after the last full block are
/// left out.
pub fn token_chain(seed: u64, ids: &[u32], block: u32) -> Arc<[u64]> {
    chain(seed, &token_blocks(ids, block as usize))
}

#[cfg(test)]
mod tests {
    use forebay_prefix::{Kind, seed};

    use super::*;

    #[test]
    fn prompts_that_begin_alike_have_chains_that_begin_alike() {
        let seed = seed("m", None, None, Kind::Tokens);
        let ids: Vec<u32> = (0..200).collect();
        let whole = token_chain(seed, &ids, 64);
        assert_eq!(whole.len(), 3);
        assert_eq!(*token_chain(seed, &ids[..130], 64), whole[..2]);
        let mut other = ids.clone();
        other[70] = 9;
        let other = token_chain(seed, &other, 64);
        assert!(other[0] == whole[0] && other[1] != whole[1] && other[2] != whole[2]);
        assert!(token_chain(seed, &ids, 0).is_empty());
    }
}
