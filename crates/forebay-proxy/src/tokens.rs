//! Prompts as their engine's own tokens, where somebody can tell.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use bytes::Bytes;
use forebay_wire::body::Api;

/// What [`PromptTokens::tokens`] gives.
pub type TokensFuture<'a> = Pin<Box<dyn Future<Output = Option<Arc<[u32]>>> + Send + 'a>>;

/// Renders and tokenises prompts as an engine does.
pub trait PromptTokens: Send + Sync {
    /// The token ids of a body's prompt; none when it cannot be told, or not
    /// soon enough. Must not block.
    fn tokens(&self, body: Bytes, api: Api) -> TokensFuture<'_>;

    /// An engine counted so many tokens in a prompt that was taken to have so many.
    fn counted(&self, predicted: u32, counted: u64);
}
