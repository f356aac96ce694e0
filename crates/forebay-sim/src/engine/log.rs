//! A record of what the prefix cache gains and loses.

use forebay_core::Time;

use super::event::SeqId;

/// One change of the prefix cache. Blocks go by their hash in the chain of the
/// request that computed them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlockChange {
    /// A full block can be found from now on.
    Stored {
        /// The sequence that computed it.
        seq: SeqId,
        /// Its place in that sequence, 0 for the first block of the prompt.
        index: u32,
        /// Its own hash.
        hash: u64,
        /// The hash of the block before it; None for the first.
        parent: Option<u64>,
    },
    /// The block's memory was needed for another.
    Removed {
        /// Its hash.
        hash: u64,
    },
    /// The whole cache was forgotten.
    Cleared,
}

/// The changes of one step, in order, as an engine announces them: together
/// and when the step ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlockChanges {
    /// The end of the step.
    pub at: Time,
    /// Never empty. A reset comes with the next step after it.
    pub changes: Vec<BlockChange>,
}
