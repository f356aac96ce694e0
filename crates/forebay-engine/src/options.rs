//! What an engine is started with.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use forebay_sim::engine::Profile;

use crate::dialect::MetricsDialect;

/// The settings of one simulated model server.
#[derive(Clone, Debug)]
pub struct EngineOptions {
    /// Where to listen; port 0 takes a free one.
    pub listen: SocketAddr,
    /// The name of the model it serves.
    pub model: String,
    /// Speed and memory.
    pub profile: &'static Profile,
    /// Engine seconds for each real one: 10 runs ten times faster than life.
    /// Values that are not positive and finite count as 1.
    pub time_scale: f64,
    /// Chooses texts and lengths of the answers, together with the prompt.
    pub seed: u64,
    /// Names of LoRA adapters that are loaded at the start.
    pub adapters: Vec<String>,
    /// Adapters that fit into memory at a time, at least 1; all when None. A
    /// request for another waits until the one unused longest can make room.
    pub max_loras: Option<u32>,
    /// Engine time that it takes to load an adapter into memory, at its first
    /// use and after it has made room.
    pub adapter_load: Duration,
    /// Most sequences in one step, instead of the profile's.
    pub max_num_seqs: Option<u32>,
    /// KV cache capacity in tokens, instead of the profile's.
    pub kv_tokens: Option<u32>,
    /// Most tokens of prompt and answer together; the KV capacity bounds it too.
    pub max_model_len: u32,
    /// Requests are refused with 503 while this many wait; None never refuses.
    pub max_queued: Option<u32>,
    /// Whose names it uses for its load.
    pub dialect: MetricsDialect,
    /// Whether `POST /fault` works. Anyone who reaches the port can then break
    /// the engine, so it is for tests only.
    pub faults: bool,
    /// Publishes KV events over ZeroMQ from here; port 0 takes a free one.
    pub kv_events: Option<SocketAddr>,
    /// Answers from here who asks for KV events again; needs `kv_events`.
    pub kv_replay: Option<SocketAddr>,
    /// The first frame of every KV event message.
    pub kv_topic: String,
    /// Batches of KV events that can be asked for again.
    pub kv_buffer: usize,
}

impl EngineOptions {
    /// A free port of the loopback interface, and otherwise the defaults.
    pub fn new(model: impl Into<String>, profile: &'static Profile) -> EngineOptions {
        EngineOptions {
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
            model: model.into(),
            profile,
            time_scale: 1.0,
            seed: 0,
            adapters: Vec::new(),
            max_loras: None,
            adapter_load: Duration::ZERO,
            max_num_seqs: None,
            kv_tokens: None,
            max_model_len: 131_072,
            max_queued: None,
            dialect: MetricsDialect::Vllm,
            faults: false,
            kv_events: None,
            kv_replay: None,
            kv_topic: String::new(),
            kv_buffer: 10_000,
        }
    }

    /// The profile with the overrides applied.
    pub(crate) fn effective_profile(&self) -> Profile {
        Profile {
            max_num_seqs: self.max_num_seqs.unwrap_or(self.profile.max_num_seqs),
            kv_tokens: self.kv_tokens.unwrap_or(self.profile.kv_tokens),
            ..*self.profile
        }
    }
}
