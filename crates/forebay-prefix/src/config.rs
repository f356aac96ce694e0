//! What the index may use, and what it assumes until it knows better.

use std::time::Duration;

/// Limits and assumptions of a [`PrefixIndex`](crate::PrefixIndex).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct IndexConfig {
    /// Most bytes that the index may hold, in every mode; from
    /// [`IndexConfig::MIN_BYTES`] to [`IndexConfig::MAX_BYTES`].
    pub max_bytes: usize,
    /// Committed blocks that an endpoint is thought to keep while its engine
    /// has not said its size.
    pub default_capacity_blocks: u32,
    /// What an entry read back from a snapshot is worth, 0 to 1, before any
    /// answer has confirmed or contradicted it.
    pub restored_confidence: f64,
    /// Time after which that worth has halved, if nothing is heard.
    pub restored_half_life: Duration,
}

impl IndexConfig {
    /// The least that an index is built with.
    pub const MIN_BYTES: usize = 1 << 20;
    /// The most that its ids reach: 4 GiB.
    pub const MAX_BYTES: usize = 1 << 32;
}

impl Default for IndexConfig {
    fn default() -> Self {
        IndexConfig {
            max_bytes: 256 << 20,
            // What an 80 GB accelerator has left for KV with an 8B model, about
            // 427,000 tokens, in blocks of 64.
            default_capacity_blocks: 6_672,
            restored_confidence: 0.5,
            restored_half_life: Duration::from_secs(300),
        }
    }
}
