//! Why there is no text.

use minijinja::ErrorKind;

/// Why a body was not turned into the engine's prompt. No text of a prompt is
/// in it.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum RenderError {
    /// The body cannot be read as a request of its API.
    #[error("the body is no such request: {0}")]
    Body(&'static str),
    /// It has something that is not rendered here, such as a picture.
    #[error("not rendered here: {0}")]
    Unsupported(&'static str),
    /// The engine will refuse the request as well.
    #[error("the engine will refuse it: {0}")]
    Refused(&'static str),
    /// The template failed.
    #[error("the template failed: {kind} (line {line})")]
    Template {
        /// What went wrong.
        kind: ErrorKind,
        /// In which line of the template; 0 where that is not known.
        line: usize,
    },
}

/// Why a template was not loaded.
#[derive(Debug, thiserror::Error)]
pub enum TemplateError {
    /// The file cannot be read.
    #[error(transparent)]
    Read(#[from] std::io::Error),
    /// `tokenizer_config.json` is no JSON.
    #[error("the tokenizer's configuration: {0}")]
    Json(#[from] serde_json::Error),
    /// There is none, or it is neither a text nor a list of named texts.
    #[error(
        "there is no chat_template in it: a text, or a list of texts with names, one of them \"default\""
    )]
    Absent,
    /// Jinja cannot read it.
    #[error("the chat template: {0}")]
    Jinja(#[from] minijinja::Error),
}
