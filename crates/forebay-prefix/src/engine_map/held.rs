//! Which blocks of the index an endpoint holds, and how often.

use std::collections::BTreeMap;

use super::{IndexOp, tier_index};
use crate::Tier;

/// Bytes of one entry: a B-tree's leaves are two thirds full, about.
pub(super) const ENTRY: usize = (11 * (8 + 8) + 12) * 3 / 22 + 5;

/// Holders by tier of each hash. Two engine blocks may stand for one block of
/// the index: in two ranks, or under names that differ by what the engine
/// hashes besides.
#[derive(Debug, Default)]
pub(super) struct Held {
    counts: BTreeMap<u64, [u32; 2]>,
}

impl Held {
    pub(super) fn add(&mut self, hash: u64, parent: Option<u64>, tier: Tier, out: &mut Vec<IndexOp>) {
        let count = &mut self.counts.entry(hash).or_default()[tier_index(tier)];
        *count += 1;
        if *count == 1 {
            out.push(IndexOp::Confirm { hash, parent, tier });
        }
    }

    pub(super) fn take(&mut self, hash: u64, tier: Tier, out: &mut Vec<IndexOp>) {
        let Some(counts) = self.counts.get_mut(&hash) else { return };
        let count = &mut counts[tier_index(tier)];
        if *count == 0 {
            return;
        }
        *count -= 1;
        if *count > 0 {
            return;
        }
        if *counts == [0; 2] {
            self.counts.remove(&hash);
        }
        out.push(IndexOp::Remove { hash, tier });
    }

    pub(super) fn len(&self) -> usize {
        self.counts.len()
    }

    pub(super) fn bytes(&self) -> usize {
        self.counts.len() * ENTRY
    }
}
