//! What goes into an engine and what comes out.

use forebay_core::Time;

/// Names one sequence of one engine, never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SeqId {
    // Ordered by number first, so that ids sort by arrival.
    pub(super) number: u64,
    pub(super) slot: u32,
}

/// One sequence to compute. (A request with `n` answers is `n` of them.)
#[derive(Clone, Debug, Default)]
pub struct EngineRequest {
    /// Chained hash of every full block of the prompt and of the answer after
    /// it (see [`block_chain`](super::block_chain)). The answer is known up
    /// front because its text is simulated too. May be shorter: blocks without
    /// a hash are computed but never shared.
    pub chain: Vec<u64>,
    /// Tokens of the prompt, at least 1.
    pub prompt_tokens: u32,
    /// Tokens to generate; 0 for a request that only computes its prompt.
    pub output_tokens: u32,
    /// Smaller goes first; equal ones in order of arrival.
    pub priority: i32,
}

/// Why a request cannot be taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EnqueueError {
    /// There is nothing to compute.
    #[error("the prompt is empty")]
    EmptyPrompt,
    /// It could not finish even if it had the engine alone.
    #[error("prompt and answer need {needed} KV blocks, the engine has {total}")]
    TooLarge {
        /// Blocks for the prompt and the whole answer.
        needed: u64,
        /// Blocks the engine has.
        total: u32,
    },
}

/// Something that happened inside an engine, with its exact time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EngineEvent {
    /// The sequence left the queue for the first time.
    Started {
        /// Which sequence.
        seq: SeqId,
        /// When its first step began.
        at: Time,
        /// Prompt tokens found in the prefix cache.
        cached_tokens: u32,
    },
    /// A token was generated.
    Token {
        /// Which sequence.
        seq: SeqId,
        /// The end of the step that made it.
        at: Time,
        /// 0 for the first token.
        index: u32,
    },
    /// The sequence is complete and its blocks are released.
    Finished {
        /// Which sequence.
        seq: SeqId,
        /// The end of its last step.
        at: Time,
    },
    /// The sequence lost its KV memory and waits to be recomputed.
    Preempted {
        /// Which sequence.
        seq: SeqId,
        /// The beginning of the step that needed the memory.
        at: Time,
    },
}

impl EngineEvent {
    /// When it happened.
    pub fn at(&self) -> Time {
        match *self {
            EngineEvent::Started { at, .. }
            | EngineEvent::Token { at, .. }
            | EngineEvent::Finished { at, .. }
            | EngineEvent::Preempted { at, .. } => at,
        }
    }

    /// The sequence it happened to.
    pub fn seq(&self) -> SeqId {
        match *self {
            EngineEvent::Started { seq, .. }
            | EngineEvent::Token { seq, .. }
            | EngineEvent::Finished { seq, .. }
            | EngineEvent::Preempted { seq, .. } => seq,
        }
    }
}

/// What an engine would report about itself: gauges, and totals since it began.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct EngineLoad {
    /// Sequences in the batch.
    pub running: u32,
    /// Sequences in the queue, preempted ones included.
    pub waiting: u32,
    /// Share of the KV blocks that sequences hold, 0 to 1.
    pub kv_usage: f64,
    /// Blocks that sequences hold.
    pub blocks_used: u32,
    /// Blocks there are.
    pub blocks_total: u32,
    /// Steps completed.
    pub steps: u64,
    /// Times a sequence lost its KV memory.
    pub preemptions: u64,
    /// Prompt tokens looked up in the prefix cache.
    pub prefix_queries: u64,
    /// Prompt tokens found there.
    pub prefix_hits: u64,
    /// Prompt tokens of the sequences whose prefill is complete.
    pub prompt_tokens: u64,
    /// Tokens generated, also for sequences cancelled later.
    pub generation_tokens: u64,
}
