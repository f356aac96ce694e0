//! Exact token prefixes: a request's prompt as the token ids that its engine
//! will see.
//!
//! A [`Model`] renders the body with the model's [`ChatTemplate`], as vLLM does,
//! and tokenises the text with its [`Tokenizer`]. Parts of a prompt that were
//! seen before are not tokenised again. A [`Pool`] does that on threads of its
//! own, within a time limit; over it the caller goes on with the text. The
//! engine's own counts tell, through [`Exactness`], when the files are not the
//! engine's. [`token_chain`] turns ids into what the index looks up.

mod chain;
mod cuts;
mod date;
mod exactness;
mod memo;
mod model;
mod parts;
mod pool;
mod python;
mod template;
mod tokenizer;

pub use chain::token_chain;
pub use date::utc_strftime;
pub use exactness::{Exactness, Mismatch};
pub use model::{Failure, Model, ModelLimits};
pub use pool::{NoTokens, Pool, PoolLimits};
pub use template::{
    ChatTemplate, ContentFormat, Prompt, RenderError, TemplateError, TemplateOptions, render,
};
pub use tokenizer::{Tokenizer, TokenizerError};
