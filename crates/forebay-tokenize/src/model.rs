//! Everything that one model needs to turn requests into tokens.

use std::sync::Arc;

use forebay_wire::body::Api;
use parking_lot::Mutex;

use crate::parts::Parts;
use crate::{ChatTemplate, Exactness, Mismatch, Prompt, RenderError, Tokenizer, render};

/// Why a request has no tokens.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Failure {
    /// It was not rendered.
    #[error(transparent)]
    Render(#[from] RenderError),
    /// Its text was not tokenised.
    #[error("the tokenizer failed")]
    Encode,
    /// It is longer than this model's limit.
    #[error("the body is too long to be tokenised")]
    TooLong,
}

/// Bounds on what one model may take.
#[derive(Clone, Copy, Debug)]
pub struct ModelLimits {
    /// Bytes of tokens that are remembered.
    pub memo_bytes: usize,
    /// Bytes of a body; longer ones are not tokenised.
    pub body_bytes: usize,
}

impl Default for ModelLimits {
    /// 32 MiB of tokens, some eight million, and bodies of 4 MiB.
    fn default() -> Self {
        ModelLimits { memo_bytes: 32 << 20, body_bytes: 4 << 20 }
    }
}

/// The tokenizer and template of a model, what they made of earlier prompts,
/// and whether the engine agrees with them.
pub struct Model {
    tokenizer: Tokenizer,
    template: Option<ChatTemplate>,
    parts: Parts,
    exactness: Mutex<Exactness>,
    limits: ModelLimits,
}

impl Model {
    /// A model; without a template its chats have no tokens.
    pub fn new(tokenizer: Tokenizer, template: Option<ChatTemplate>, limits: ModelLimits) -> Model {
        let parts = Parts::new(limits.memo_bytes);
        Model { tokenizer, template, parts, exactness: Mutex::default(), limits }
    }

    /// The tokens of a request's prompt, as the engine counts them.
    ///
    /// Takes as long as it takes; ask a [`Pool`](crate::Pool) where time matters.
    ///
    /// # Errors
    /// See [`Failure`].
    pub fn tokens(&self, body: &[u8], api: Api) -> Result<Arc<[u32]>, Failure> {
        if body.len() > self.limits.body_bytes {
            return Err(Failure::TooLong);
        }
        let Prompt { text, add_special } = render(self.template.as_ref(), body, api)?;
        self.encode(&text, add_special).ok_or(Failure::Encode)
    }

    /// The ids of a text: those of parts that were seen before are remembered,
    /// and the same as if the whole were tokenised. `None` when it cannot be.
    pub fn encode(&self, text: &str, add_special: bool) -> Option<Arc<[u32]>> {
        self.parts.encode(&self.tokenizer, text, add_special)
    }

    /// Takes the prompt tokens that the engine counted for a request whose
    /// tokens were predicted. The mismatch, when this one was too much.
    pub fn observe(&self, predicted: u32, counted: u32) -> Option<Mismatch> {
        self.exactness.lock().observe(predicted, counted)
    }

    /// How well predictions and counts agree. While [`Exactness::off`] says
    /// something, tokens of this model are not to be used.
    pub fn exactness(&self) -> Exactness {
        self.exactness.lock().clone()
    }

    /// Bytes of remembered tokens, about.
    pub fn memo_bytes(&self) -> usize {
        self.parts.bytes()
    }
}
