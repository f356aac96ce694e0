//! How long the index's blocks are in each pool.

use std::collections::BTreeMap;

use forebay_core::PoolId;
use forebay_live::EndpointKey;
use parking_lot::Mutex;

/// What each endpoint's engine showed, and what its pools go by.
///
/// Prompts are hashed once, in blocks of one length; engines of a pool that have
/// others are not matched. What most of them have counts, and on a tie what
/// counted before.
#[derive(Default)]
pub(super) struct IndexBlocks(Mutex<BTreeMap<PoolId, Pool>>);

#[derive(Default)]
struct Pool {
    tokens: Option<u32>,
    shown: BTreeMap<EndpointKey, u32>,
}

/// What an endpoint's word makes of a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Counted {
    /// What the pool goes by now.
    pub(super) tokens: u32,
    /// It went by something else before.
    pub(super) is_new: bool,
    /// Endpoints that have something else, and are not matched.
    pub(super) others: usize,
}

impl IndexBlocks {
    /// An endpoint's engine showed what a block of the index has there.
    pub(super) fn show(&self, pool: PoolId, endpoint: EndpointKey, tokens: u32) -> Counted {
        let mut pools = self.0.lock();
        let pool = pools.entry(pool).or_default();
        pool.shown.insert(endpoint, tokens);
        let mut votes: BTreeMap<u32, usize> = BTreeMap::new();
        pool.shown.values().for_each(|tokens| *votes.entry(*tokens).or_default() += 1);
        let of = |tokens: u32| votes.get(&tokens).copied().unwrap_or_default();
        let before = pool.tokens;
        let mut counts = before.unwrap_or(tokens);
        for (&other, &votes) in &votes {
            if votes > of(counts) {
                counts = other;
            }
        }
        pool.tokens = Some(counts);
        Counted { tokens: counts, is_new: before != Some(counts), others: pool.shown.len() - of(counts) }
    }
}

#[cfg(test)]
mod tests {
    use forebay_core::EndpointId;

    use super::*;

    #[test]
    fn what_most_endpoints_have_counts_and_one_alone_changes_nothing() {
        let blocks = IndexBlocks::default();
        let show = |slot, tokens| {
            let endpoint = EndpointKey { gate: 0, id: EndpointId { slot, generation: 0 } };
            let Counted { tokens, is_new, others } = blocks.show(PoolId(1), endpoint, tokens);
            (tokens, is_new, others)
        };
        assert_eq!(show(0, 64), (64, true, 0));
        assert_eq!(show(1, 64), (64, false, 0));
        assert_eq!(show(2, 64), (64, false, 0));
        assert_eq!(show(3, 528), (64, false, 1));
        assert_eq!(show(2, 528), (64, false, 2), "a tie");
        assert_eq!(show(1, 528), (528, true, 1));
        assert_eq!(show(0, 528), (528, false, 0));
        let alone = EndpointKey { gate: 0, id: EndpointId { slot: 9, generation: 0 } };
        let expect = Counted { tokens: 80, is_new: true, others: 0 };
        assert_eq!(blocks.show(PoolId(2), alone, 80), expect, "another pool");
        let expect = Counted { tokens: 96, is_new: true, others: 0 };
        assert_eq!(blocks.show(PoolId(2), alone, 96), expect, "its only endpoint has another model now");
    }
}
