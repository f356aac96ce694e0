//! Tokenizers of pools, where the configuration names them.

use forebay_config::Config;
use forebay_proxy::Registry;

use crate::cli::Failure;

/// Loads the tokenizer of every pool that has one.
///
/// # Errors
/// A file that cannot be read or makes no sense, or a build without tokenizers.
#[cfg(not(feature = "tokenizer"))]
pub(crate) fn load(config: &Config, _registry: &Registry) -> Result<(), Failure> {
    check(config)
}

/// Refuses a configuration that this build cannot serve.
///
/// # Errors
/// A tokenizer in a build without tokenizers.
pub(crate) fn check(config: &Config) -> Result<(), Failure> {
    let missing = !cfg!(feature = "tokenizer");
    match config.pools.iter().find(|pool| missing && pool.tokenizer.is_some()) {
        Some(pool) => Err(Failure::Usage(format!(
            "pool {}: tokenizer: this build has no tokenizers; build it with --features tokenizer",
            pool.name
        ))),
        None => Ok(()),
    }
}

#[cfg(feature = "tokenizer")]
pub(crate) use with::load;

#[cfg(feature = "tokenizer")]
mod with {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::time::{SystemTime, UNIX_EPOCH};

    use bytes::Bytes;
    use forebay_core::PoolId;
    use forebay_proxy::{PromptTokens, TokensFuture};
    use forebay_tokenize::{
        ChatTemplate, Model, ModelLimits, NoTokens, Pool, PoolLimits, TemplateOptions, Tokenizer,
        utc_strftime,
    };
    use forebay_wire::body::Api;

    use super::{Config, Failure, Registry};

    pub(crate) fn load(config: &Config, registry: &Registry) -> Result<(), Failure> {
        for (i, pool) in config.pools.iter().enumerate() {
            let Some(wanted) = &pool.tokenizer else { continue };
            let bad = |what: &str, path: &std::path::Path, why: String| {
                Failure::Usage(format!("pool {}: {what} {}: {why}", pool.name, path.display()))
            };
            let tokenizer =
                Tokenizer::load(&wanted.file).map_err(|e| bad("tokenizer", &wanted.file, e.to_string()))?;
            let options = TemplateOptions::default().clock(now);
            let template = match &wanted.chat_template {
                Some(path) => Some(
                    ChatTemplate::load(path, options)
                        .map_err(|e| bad("tokenizer: chat_template", path, e.to_string()))?,
                ),
                None => None,
            };
            let limits = PoolLimits {
                workers: wanted.workers.max(1),
                timeout: wanted.timeout,
                ..PoolLimits::default()
            };
            let threads = Pool::start(limits).map_err(Failure::doing("cannot start a tokenizer"))?;
            let model = Arc::new(Model::new(tokenizer, template, ModelLimits::default()));
            let name = pool.model.clone();
            registry.set_tokens(
                PoolId(i as u32),
                Arc::new(Tokens { name, model, threads, failed: AtomicU64::new(0) }),
            );
        }
        Ok(())
    }

    #[expect(clippy::disallowed_methods, reason = "chat templates may write today's date")]
    fn now(format: &str) -> Option<String> {
        let seconds = SystemTime::now().duration_since(UNIX_EPOCH).ok()?.as_secs();
        utc_strftime(format, seconds)
    }

    struct Tokens {
        name: String,
        model: Arc<Model>,
        threads: Pool,
        failed: AtomicU64,
    }

    impl PromptTokens for Tokens {
        fn tokens(&self, body: Bytes, api: Api) -> TokensFuture<'_> {
            Box::pin(async move {
                match self.threads.tokens(&self.model, body, api).await {
                    Ok(ids) => Some(ids),
                    Err(NoTokens::Failed(failure)) => {
                        // Said once: what cannot be rendered is found as text.
                        if self.failed.fetch_add(1, Ordering::Relaxed) == 0 {
                            tracing::info!(
                                model = self.name,
                                why = %failure,
                                "a prompt could not be rendered as its engine does; it is found as text"
                            );
                        }
                        None
                    }
                    Err(_) => None,
                }
            })
        }

        fn counted(&self, predicted: u32, counted: u64) {
            let counted = u32::try_from(counted).unwrap_or(u32::MAX);
            if let Some(mismatch) = self.model.observe(predicted, counted) {
                tracing::warn!(
                    model = self.name,
                    why = ?mismatch,
                    "the tokenizer does not reproduce the engine's prompts: they are found as text from now on"
                );
            }
        }
    }
}
