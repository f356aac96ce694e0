//! Tokenizers of pools, where the configuration names them.

use forebay_config::Config;
use forebay_metrics::Metrics;
use forebay_proxy::Registry;

use crate::cli::Failure;

/// Loads the tokenizer of every pool that has one.
///
/// # Errors
/// A file that cannot be read or makes no sense, or a build without tokenizers.
#[cfg(not(feature = "tokenizer"))]
pub(crate) fn load(config: &Config, _registry: &Registry, _metrics: &Metrics) -> Result<(), Failure> {
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
    use forebay_metrics::{PoolMetrics, Tokenized};
    use forebay_proxy::{PromptTokens, TokensFuture};
    use forebay_tokenize::{
        ChatTemplate, Model, ModelLimits, NoTokens, Pool, PoolLimits, TemplateOptions, Tokenizer,
        utc_strftime,
    };
    use forebay_wire::body::Api;

    use super::{Config, Failure, Metrics, Registry};

    pub(crate) fn load(config: &Config, registry: &Registry, metrics: &Metrics) -> Result<(), Failure> {
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
            let metrics = metrics.pool(&pool.name);
            metrics.has_tokenizer();
            let tokens = Tokens { name, model, threads, metrics, failed: AtomicU64::new(0) };
            registry.set_tokens(PoolId(i as u32), Arc::new(tokens));
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
        metrics: PoolMetrics,
        failed: AtomicU64,
    }

    /// What to count.
    fn result<T>(told: &Result<T, NoTokens>) -> Tokenized {
        match told {
            Ok(_) => Tokenized::Tokens,
            Err(NoTokens::Slow) => Tokenized::Slow,
            Err(NoTokens::Busy) => Tokenized::Busy,
            Err(NoTokens::Failed(_)) => Tokenized::Failed,
            Err(NoTokens::Off) => Tokenized::Off,
        }
    }

    impl PromptTokens for Tokens {
        fn tokens(&self, body: Bytes, api: Api) -> TokensFuture<'_> {
            Box::pin(async move {
                let told = self.threads.tokens(&self.model, body, api).await;
                self.metrics.tokenized(result(&told));
                match told {
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

    #[cfg(test)]
    mod tests {
        use std::time::Duration;

        use super::*;

        #[test]
        fn every_reason_is_counted_as_itself() {
            for (told, counted) in [
                (Ok(()), Tokenized::Tokens),
                (Err(NoTokens::Slow), Tokenized::Slow),
                (Err(NoTokens::Busy), Tokenized::Busy),
                (Err(NoTokens::Off), Tokenized::Off),
            ] {
                assert_eq!(result(&told), counted);
            }
        }

        #[tokio::test]
        async fn what_comes_of_prompts_is_counted() {
            let file = include_bytes!("../../forebay-tokenize/tests/data/bpe.json");
            let model = Model::new(Tokenizer::from_json(file).unwrap(), None, ModelLimits::default());
            let limits = PoolLimits { timeout: Duration::from_secs(60), ..PoolLimits::default() };
            let metrics = Metrics::new("test");
            let tokens = Tokens {
                name: "tide-7b".to_owned(),
                model: Arc::new(model),
                threads: Pool::start(limits).unwrap(),
                metrics: metrics.pool("chat"),
                failed: AtomicU64::new(0),
            };
            for (body, there) in [(r#"{"prompt":"hello"}"#, true), ("{", false)] {
                assert_eq!(tokens.tokens(Bytes::from(body), Api::Completions).await.is_some(), there);
            }
            let page = metrics.render();
            for (result, count) in [("tokens", 1), ("failed", 1), ("slow", 0)] {
                let line =
                    format!("forebay_tokenizer_prompts_total{{pool=\"chat\",result=\"{result}\"}} {count}\n");
                assert!(page.contains(&line), "{line}{page}");
            }
        }
    }
}
