//! What engines tell about their KV cache: blocks stored, blocks removed.
//!
//! vLLM and SGLang publish batches over ZeroMQ, as msgpack: [`parse_message`]
//! takes the frames of one message apart, [`decode_batch`] reads its payload.
//! TensorRT-LLM answers a poll with JSON: [`decode_trtllm`]. All three become
//! the same [`KvEvent`].
//!
//! The shapes differ by version, and one decoder takes them all: an event is an
//! array up to vLLM 0.23 and SGLang 0.5.19, and a map from then on; a hash is
//! an integer, signed or not, or bytes; fields were added at the end over time,
//! so missing ones have defaults and unknown ones are passed over.
//!
//! An engine's hashes are names and nothing more: their definition depends on
//! its version, its settings and sometimes on chance, so what a block holds is
//! told by its token ids alone.

mod batch;
mod event;
mod extra;
mod frames;
mod msgpack;
mod sources;
mod trtllm;

pub use batch::{Batch, decode_batch};
pub use event::{Attention, KvEvent, Removed, Stored, Tier};
pub use frames::{Message, parse_message, replay_request};
pub use sources::{EventSource, decode_sources};
pub use trtllm::{TrtllmEvent, decode_trtllm};

/// Why bytes are not KV events, and where.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KvEventError {
    /// A payload is not what an engine sends.
    #[error("KV event batch: byte {at}: {problem}")]
    Payload {
        /// Offset in the payload, from 0.
        at: usize,
        /// What is wrong there.
        problem: &'static str,
    },
    /// A message has other frames than a batch or a replay has.
    #[error("KV event message of {frames} frames: {problem}")]
    Frames {
        /// How many frames came.
        frames: usize,
        /// What is wrong with them.
        problem: &'static str,
    },
    /// JSON that cannot be read.
    #[error("KV events: {0}")]
    Json(String),
}

#[cfg(test)]
mod capture_tests;
#[cfg(test)]
mod tests;
