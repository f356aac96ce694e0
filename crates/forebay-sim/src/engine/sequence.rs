//! One sequence inside an engine.

use super::blocks::BlockId;
use super::event::{EngineRequest, SeqId};

/// Where a sequence stands in the queue: smaller first.
pub(super) type QueueKey = (i32, u64);

pub(super) struct Sequence {
    pub(super) id: SeqId,
    pub(super) request: EngineRequest,
    /// Tokens whose KV is computed.
    pub(super) computed: u32,
    /// Tokens generated so far.
    pub(super) generated: u32,
    /// Blocks held, in order of position.
    pub(super) table: Vec<BlockId>,
    pub(super) started: bool,
    pub(super) running: bool,
}

impl Sequence {
    pub(super) fn key(&self) -> QueueKey {
        (self.request.priority, self.id.number)
    }

    /// Tokens known: the prompt and what was generated.
    pub(super) fn known(&self) -> u32 {
        self.request.prompt_tokens + self.generated
    }

    /// Tokens known and not yet computed.
    pub(super) fn pending(&self) -> u32 {
        self.known() - self.computed
    }

    /// Whether the next step only extends the answer by one token.
    pub(super) fn decoding(&self) -> bool {
        self.generated > 0 && self.pending() == 1
    }

    /// The part of the chain that may be taken from the cache: the last known
    /// token is always computed, because its output is what comes next.
    pub(super) fn shareable(&self, block_size: u32) -> &[u64] {
        let full = (self.known().saturating_sub(1) / block_size) as usize;
        &self.request.chain[..full.min(self.request.chain.len())]
    }
}
