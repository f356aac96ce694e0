//! A model's tokenizer.

use std::path::Path;

use crate::cuts::Cuts;

/// Why a tokenizer was not loaded.
#[derive(Debug, thiserror::Error)]
pub enum TokenizerError {
    /// The file cannot be read.
    #[error(transparent)]
    Read(#[from] std::io::Error),
    /// It is no tokenizer that this build knows.
    #[error("no tokenizer.json that can be used: {0}")]
    Format(String),
}

/// Turns texts into token ids.
pub struct Tokenizer {
    inner: tokenizers::Tokenizer,
    pub(crate) cuts: Cuts,
}

impl Tokenizer {
    /// Reads a `tokenizer.json`.
    ///
    /// # Errors
    /// A file that cannot be read, and what [`Tokenizer::from_json`] refuses.
    pub fn load(path: &Path) -> Result<Tokenizer, TokenizerError> {
        Tokenizer::from_json(&std::fs::read(path)?)
    }

    /// From the text of a `tokenizer.json`.
    ///
    /// # Errors
    /// What is no tokenizer.
    pub fn from_json(json: &[u8]) -> Result<Tokenizer, TokenizerError> {
        let bad = |error: tokenizers::Error| TokenizerError::Format(error.to_string());
        let mut inner = tokenizers::Tokenizer::from_bytes(json).map_err(bad)?;
        // The file may ask for both; engines switch them off.
        inner.with_truncation(None).map_err(bad)?;
        inner.with_padding(None);
        let cuts = Cuts::of(inner.get_added_tokens_decoder().into_iter());
        Ok(Tokenizer { inner, cuts })
    }

    /// The ids of `text`; with `add_special`, between the special tokens that
    /// the tokenizer puts around a prompt. `None` when it cannot be tokenised.
    pub fn encode(&self, text: &str, add_special: bool) -> Option<Vec<u32>> {
        Some(self.inner.encode_fast(text, add_special).ok()?.get_ids().to_vec())
    }
}
