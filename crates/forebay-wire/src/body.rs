//! Request bodies: finding what routing needs, checking the rest, changing
//! nothing.

mod blocks;
mod fields;
mod head;
mod ids;
mod json;
mod multipart;
mod order;
mod problem;
mod prompt;
mod render;
mod splice;
mod values;

use std::ops::Range;

pub use blocks::BLOCK_BYTES;
pub use ids::token_ids;
pub use json::scan_json;
pub use multipart::scan_multipart;
pub use problem::BodyError;
pub use splice::{splice_model, splice_model_parts};

/// What a path asks of its body.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Api {
    /// `/v1/chat/completions`
    Chat,
    /// `/v1/completions`
    Completions,
    /// `/v1/responses`
    Responses,
    /// `/v1/embeddings`
    Embeddings,
    /// Anthropic `/v1/messages`
    Messages,
    /// Anthropic `/v1/messages/count_tokens`
    CountTokens,
    /// `/v1/rerank`, `/v2/rerank`, `/rerank`
    Rerank,
    /// `/v1/score`, `/score`
    Score,
    /// `/pooling`, `/classify`
    Pooling,
    /// `/v1/images/…`: JSON or multipart
    Images,
    /// `/v1/audio/…`: multipart, or JSON for speech
    Audio,
    /// `/v1/moderations`
    Moderations,
    /// Any other path whose body carries a model
    Other,
}

impl Api {
    /// True where the answer is generated token by token, so that token limits
    /// and `n` say what it will cost.
    const fn generates(self) -> bool {
        matches!(self, Api::Chat | Api::Completions | Api::Responses | Api::Messages | Api::CountTokens)
    }
}

/// What routing needs of one body. Owned and small.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Scan {
    /// The requested model, decoded; never empty.
    pub model: String,
    /// Where the model's value lies in the body: the JSON string with its
    /// quotes, or the raw field value of a multipart body.
    pub model_span: Range<usize>,
    /// True for a multipart body.
    pub multipart: bool,
    /// The client asks for an event stream.
    pub stream: bool,
    /// Answers wanted per prompt: the larger of `n` and `best_of`, at least 1.
    pub choices: u32,
    /// The limit on generated tokens: `max_completion_tokens`, else
    /// `max_tokens`, else `max_output_tokens`; larger values are clamped.
    pub max_output_tokens: Option<u32>,
    /// Bytes of decoded prompt text: messages, prompt, input, system,
    /// instructions and tools. Media are not counted.
    pub prompt_bytes: usize,
    /// Prompt tokens that came as token ids.
    pub prompt_token_ids: usize,
    /// How many prompts an array of prompts holds; at least 1.
    pub prompts: u32,
    /// XXH3 of the decoded `user`.
    pub user_hash: Option<u64>,
    /// XXH3 of the first 1,024 bytes of prompt text in the order of a chat
    /// template (system first). Equal for equal texts, whatever their JSON
    /// spelling; token ids count as four bytes each.
    pub prompt_head_hash: u64,
    /// `stream_options.include_usage` is true.
    pub include_usage: bool,
    /// One XXH3-64 for every full block of [`BLOCK_BYTES`] bytes of the rendered
    /// prompt, each of its block alone: to say what a prompt begins with, chain
    /// them from a seed of model, adapter and salt.
    ///
    /// Rendered are the decoded texts in the order of a chat template: tools,
    /// system text, then every message with its role, its content and its tool
    /// calls. A picture, recording or file is there by the hash of its value, a
    /// token id by four little-endian bytes, and what parts two texts is no
    /// UTF-8. Escapes, white space and the order of top-level keys change
    /// nothing. Of an array of prompts only the first is rendered.
    pub text_blocks: Vec<u64>,
    /// Bytes of the rendered prompt, those behind the last full block included.
    pub rendered_bytes: usize,
    /// XXH3 of the decoded `cache_salt`: what engines keep apart in their
    /// prefix caches.
    pub cache_salt: Option<u64>,
    /// Where the first prompt lies in the body, brackets included, when it is
    /// an array that begins with a token id; [`token_ids`] reads it.
    pub token_ids_span: Option<Range<usize>>,
}

#[cfg(test)]
mod cases_tests;
#[cfg(test)]
mod multipart_tests;
#[cfg(test)]
mod properties_tests;
#[cfg(test)]
mod render_properties_tests;
#[cfg(test)]
mod render_tests;
