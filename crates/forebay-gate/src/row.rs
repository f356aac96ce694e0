//! One endpoint's load and speed, as the policies read them.
//!
//! One row of two or three cache lines for each endpoint, not one array for
//! each field: a pick reads every field of every candidate, so that rows touch
//! fewer lines than arrays and candidates need not lie side by side.

use serde::{Deserialize, Serialize};

use crate::pick::cost::SLO_CLASSES;

/// Over how many seconds an endpoint's usual load is taken.
const USUAL_S: f32 = 20.0;

/// What is in flight at an endpoint and how fast it is taken to be.
///
/// Sums that are added to and taken from are whole numbers, so that an idle
/// endpoint reads exactly zero again.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Row {
    /// Prefill sent whose first token has not been seen, in microseconds of
    /// the class's own speed.
    pub(crate) owed_us: u64,
    /// Prompt tokens of the requests in flight.
    pub(crate) context: u64,
    /// Prompt tokens in flight that no block of the prefix index covers.
    pub(crate) tail: u64,
    /// Distinct blocks in flight.
    pub(crate) blocks: u64,
    /// Estimated outstanding work, in prompt-token equivalents.
    pub(crate) work: u64,
    /// Prefill milliseconds sent, decayed; scaled to the epoch of the table.
    pub(crate) dispatched: f64,
    /// Requests in flight.
    pub(crate) requests: u32,
    /// Streams past their first token.
    pub(crate) streams: u32,
    /// Thousands of prompt tokens in flight as they usually are, over the last
    /// 20 s or so. Requests would not do: a few long ones are as much as many short ones.
    pub(crate) usual: f32,
    /// When that was last brought up to date.
    pub(crate) usual_at: forebay_core::Time,
    /// When the last request there stopped waiting for its first token.
    pub(crate) waited_until: forebay_core::Time,
    /// Requests in flight by SLO class.
    pub(crate) classes: [u32; SLO_CLASSES],
    /// Requests there that this gateway did not send, as reported.
    pub(crate) foreign_requests: f32,
    /// Those of them that wait in the engine's queue.
    pub(crate) foreign_waiting: f32,
    /// The prefill of those, in milliseconds at the class's own speed.
    pub(crate) foreign_owed_ms: f32,
    /// Their tokens of KV memory.
    pub(crate) foreign_tokens: f32,
    /// Requests of ours in flight when the last report was taken in.
    pub(crate) reported_requests: u32,
    /// Network time there and back, in milliseconds.
    pub(crate) network_ms: f32,
    /// How much slower than its class it computes prompts; 1 = as the class.
    pub(crate) prefill_factor: f32,
    /// … and decodes.
    pub(crate) decode_factor: f32,
    /// The constants of [`super::pick::cost::Block`], at its own speed.
    pub(crate) step: f32,
    pub(crate) per_stream: f32,
    pub(crate) per_context: f32,
    pub(crate) per_token: f32,
    pub(crate) per_pair: f32,
    pub(crate) budget: f32,
    pub(crate) inverse_memory: f32,
}

impl Default for Row {
    fn default() -> Row {
        Row {
            owed_us: 0,
            context: 0,
            tail: 0,
            blocks: 0,
            work: 0,
            dispatched: 0.0,
            requests: 0,
            streams: 0,
            usual: 0.0,
            usual_at: forebay_core::Time::ZERO,
            waited_until: forebay_core::Time::ZERO,
            classes: [0; SLO_CLASSES],
            foreign_requests: 0.0,
            foreign_waiting: 0.0,
            foreign_owed_ms: 0.0,
            foreign_tokens: 0.0,
            reported_requests: 0,
            network_ms: 0.0,
            prefill_factor: 1.0,
            decode_factor: 1.0,
            step: 0.0,
            per_stream: 0.0,
            per_context: 0.0,
            per_token: 0.0,
            per_pair: 0.0,
            budget: 0.0,
            inverse_memory: 0.0,
        }
    }
}

impl Row {
    /// Everything in flight is zero.
    #[cfg(test)]
    pub(crate) fn is_idle(&self) -> bool {
        self.owed_us == 0
            && self.context == 0
            && self.tail == 0
            && self.blocks == 0
            && self.work == 0
            && self.requests == 0
            && self.streams == 0
            && self.classes == [0; SLO_CLASSES]
    }

    /// Moves what is usually in flight towards what it was until now; to be
    /// called before that changes.
    pub(crate) fn pass(&mut self, now: forebay_core::Time) {
        let seconds = now.since(self.usual_at).as_secs_f32();
        self.usual_at = now;
        self.usual += (self.context as f32 * 1e-3 - self.usual) * (1.0 - (-seconds / USUAL_S).exp());
    }

    /// No request there is waiting for its first token, nor was any since
    /// `since`: what its streams did meanwhile was decoding alone.
    pub(crate) fn only_decoded(&self, since: forebay_core::Time) -> bool {
        self.requests == self.streams && self.waited_until <= since && self.foreign_requests == 0.0
    }

    /// What others have there counts only so much of what it did.
    pub(crate) fn fade_foreign(&mut self, kept: f32) {
        self.foreign_requests *= kept;
        self.foreign_waiting *= kept;
        self.foreign_owed_ms *= kept;
        self.foreign_tokens *= kept;
    }

    /// Prefill of this gateway's requests owed, in milliseconds at its own speed.
    pub(crate) fn owed_ms(&self) -> f32 {
        self.owed_us as f32 * 1e-3 * self.prefill_factor
    }

    /// The same with what is reported of others.
    pub(crate) fn all_owed_ms(&self) -> f32 {
        (self.owed_us as f32 * 1e-3 + self.foreign_owed_ms) * self.prefill_factor
    }

    /// Requests there, this gateway's and others'.
    pub(crate) fn all_requests(&self) -> f32 {
        self.requests as f32 + self.foreign_requests
    }

    /// Streams past their first token, with those of others: of these the
    /// running ones are taken to be.
    pub(crate) fn all_streams(&self) -> f32 {
        self.streams as f32 + (self.foreign_requests - self.foreign_waiting).max(0.0)
    }

    /// Context of everything in flight.
    pub(crate) fn all_context(&self) -> f32 {
        self.context as f32 + self.foreign_tokens
    }

    /// Distinct tokens of KV memory in flight; blocks have `block_tokens` each.
    pub(crate) fn pinned(&self, block_tokens: f32) -> f32 {
        self.blocks as f32 * block_tokens + self.tail as f32 + self.foreign_tokens
    }
}

/// What one request put on its endpoint and what must be taken back.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Charge {
    /// Work not yet taken back.
    pub(crate) work_left: u64,
    /// Prefill, in microseconds of the class's own speed.
    pub(crate) prefill_us: u64,
    /// Prompt tokens.
    pub(crate) prompt: u32,
    /// Prompt tokens outside full blocks.
    pub(crate) tail: u32,
    /// Its chain among those in flight.
    pub(crate) leaf: crate::runs::Leaf,
    /// SLO class.
    pub(crate) class: u8,
    /// Its first token was seen, or is taken to have come.
    pub(crate) decoding: bool,
}
