//! Prompts of an exact number of tokens, shared where the trace says so.

use std::fmt::Write as _;

use rand::RngExt;
use rand_pcg::Pcg64;

use crate::error::LoadError;
use crate::seed::{Stream, generator};
use crate::trace::{BLOCK_TOKENS, TraceRequest};

#[cfg(test)]
#[path = "prompt_tests.rs"]
mod tests;

/// Token ids below this one are left alone: tokenizers keep their special
/// tokens and single bytes there.
pub(crate) const FIRST_ID: u32 = 256;

/// How a prompt of known length is written down.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PromptForm {
    /// As an array of token ids: the length is exact on every engine that
    /// takes ids.
    #[default]
    Ids,
    /// As text with four bytes for a token: exact only where the engine counts
    /// so, as the simulated one does.
    Text,
}

/// Builds the prompts of one trace.
#[derive(Clone, Debug)]
pub(crate) struct Prompts {
    form: PromptForm,
    vocab: u32,
    seed: u64,
}

impl Prompts {
    /// Ids are drawn from 256 up to `vocab`.
    ///
    /// # Errors
    /// `vocab` leaves too few ids.
    pub(crate) fn new(form: PromptForm, vocab: u32, seed: u64) -> Result<Prompts, LoadError> {
        if vocab < FIRST_ID * 2 {
            let why = format!("{vocab} leaves too few token ids, it must be at least {}", FIRST_ID * 2);
            return Err(LoadError::Option { name: "vocab", why });
        }
        Ok(Prompts { form, vocab, seed })
    }

    /// The token ids of request number `index`: equal blocks where the trace
    /// has equal block ids, and otherwise a prompt that no other request has.
    pub(crate) fn ids(&self, index: u64, request: &TraceRequest) -> Vec<u32> {
        let total = request.input_tokens as usize;
        let mut ids = Vec::with_capacity(total);
        if request.blocks.is_empty() {
            self.draw(&mut ids, generator(self.seed, Stream::Prompt, index), total);
        }
        for &block in &request.blocks {
            let n = (total - ids.len()).min(BLOCK_TOKENS as usize);
            self.draw(&mut ids, generator(self.seed, Stream::Block, block), n);
        }
        ids
    }

    fn draw(&self, ids: &mut Vec<u32>, mut rng: Pcg64, n: usize) {
        ids.extend((0..n).map(|_| rng.random_range(FIRST_ID..self.vocab)));
    }

    /// The body of a streamed completion of exactly the trace's lengths.
    pub(crate) fn body(&self, index: u64, request: &TraceRequest, model: &str) -> String {
        let ids = self.ids(index, request);
        let mut body = String::with_capacity(ids.len() * 6 + model.len() + 200);
        // A string always serialises.
        let model = serde_json::to_string(model).unwrap_or_default();
        let _ = write!(body, "{{\"model\":{model},\"prompt\":");
        match self.form {
            PromptForm::Ids => {
                let mut separator = '[';
                for id in ids {
                    let _ = write!(body, "{separator}{id}");
                    separator = ',';
                }
                body.push(']');
            }
            PromptForm::Text => {
                body.push('"');
                ids.into_iter().for_each(|id| push_word(&mut body, id));
                body.push('"');
            }
        }
        let n = request.output_tokens;
        let _ = write!(
            body,
            ",\"max_tokens\":{n},\"min_tokens\":{n},\"ignore_eos\":true,\"stream\":true,\
             \"stream_options\":{{\"include_usage\":true}}}}"
        );
        body
    }
}

/// One token as three letters and a space, different for the first 17,576 ids.
fn push_word(text: &mut String, id: u32) {
    for divisor in [1, 26, 676] {
        text.push(char::from(b'a' + (id / divisor % 26) as u8));
    }
    text.push(' ');
}
