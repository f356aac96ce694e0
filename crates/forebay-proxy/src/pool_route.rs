//! What the data plane needs to know of a pool.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};

use forebay_config::{OrcaAsk, Pool, Slo, Timeouts};
use forebay_core::PoolId;
use forebay_predict::OutputLengths;
use forebay_rule::Rule;
use forebay_wire::body::BLOCK_BYTES;
use parking_lot::Mutex;

use crate::learned::{BytesPerToken, TokensPerEvent};
use crate::tokens::PromptTokens;

/// Tokens in a block of the index where engines tell nothing of theirs.
pub(crate) const OWN_BLOCK: u32 = 64;

/// What the data plane needs to know of a pool.
pub(crate) struct PoolRoute {
    pub(crate) id: PoolId,
    pub(crate) name: String,
    pub(crate) timeouts: Timeouts,
    /// What a good answer is, unless the request says otherwise.
    pub(crate) slo: Slo,
    /// Other endpoints tried when nothing was sent.
    pub(crate) connect_retries: u32,
    pub(crate) preserve_host: bool,
    /// Engines tell of their caches: token ids can be found there exactly.
    pub(crate) kv_events: bool,
    /// Tokens in a block of the index, as the engines' own blocks are; 0 while
    /// none has shown them.
    pub(crate) index_block: AtomicU32,
    /// Adapters have their base model's tokenizer, so that it is one for all.
    pub(crate) bytes_per_token: BytesPerToken,
    /// What an event of a stream stands for.
    pub(crate) tokens_per_event: TokensPerEvent,
    /// How long answers of its model and adapters usually are. Locked for a
    /// look-up at each request and a step at its end, never while waiting.
    pub(crate) outputs: Mutex<OutputLengths>,
    /// Who can tell prompts as tokens; set once, before the first request.
    pub(crate) tokens: OnceLock<Arc<dyn PromptTokens>>,
    /// Metrics of load reports that utilisation is computed from.
    pub(crate) orca_metrics: Vec<String>,
    /// In which form endpoints are asked for load reports.
    pub(crate) orca_ask: OrcaAsk,
    /// The operator's own say in which endpoint a request gets.
    pub(crate) rule: Option<Rule>,
}

impl PoolRoute {
    pub(crate) fn new(id: PoolId, pool: &Pool) -> PoolRoute {
        PoolRoute {
            id,
            name: pool.name.clone(),
            timeouts: pool.timeouts,
            slo: pool.slo,
            connect_retries: pool.retry.connect,
            preserve_host: pool.preserve_host,
            kv_events: pool.endpoints.iter().any(|endpoint| pool.kv_events_of(endpoint).is_some()),
            index_block: AtomicU32::new(0),
            bytes_per_token: BytesPerToken::default(),
            tokens_per_event: TokensPerEvent::default(),
            outputs: Mutex::default(),
            tokens: OnceLock::new(),
            orca_metrics: pool.orca.metrics.clone(),
            orca_ask: pool.orca.ask,
            rule: rule(pool),
        }
    }

    /// Tokens in a block of the index, where prompts can be found there as
    /// tokens; none while that is not known or not asked for.
    pub(crate) fn token_block(&self) -> Option<u32> {
        if self.kv_events {
            return Some(self.index_block.load(Ordering::Relaxed)).filter(|block| *block > 0);
        }
        self.tokens.get().map(|_| OWN_BLOCK)
    }

    /// Tokens that a block of the index stands for, as prompts are found there.
    pub(crate) fn block_tokens(&self) -> f32 {
        let text = || BLOCK_BYTES as f32 / self.bytes_per_token.mean();
        self.token_block().map_or_else(text, |tokens| tokens as f32)
    }
}

/// The pool's rule. That it compiles was seen when the configuration was read.
fn rule(pool: &Pool) -> Option<Rule> {
    let rule = pool.rule.as_ref()?;
    let signals: Vec<&str> = pool.signals.iter().map(|signal| &*signal.name).collect();
    match Rule::compile(rule.filter.as_deref(), rule.cost_ms.as_deref(), &signals) {
        Ok(rule) => Some(rule),
        Err(error) => {
            tracing::error!(pool = pool.name, %error, "the pool's rule does not compile and is not used");
            None
        }
    }
}
