//! Pools and their endpoints, as the program uses them.

use std::time::Duration;

use forebay_gate::{PolicyKind, Profile, SlowStart};

use crate::choices::{Engine, Protocol};
use crate::endpoint_url::{EndpointUrl, Host};
use crate::prefix::{KvEvents, Tokenizer};
use crate::routing::{NamedSignal, Orca, Rule, Scrape, WarmUp};
use crate::secret::Secret;
use crate::sections::{Health, Retry, Timeouts};

/// Endpoints that can stand in for each other, because they serve the same model.
#[derive(Clone, PartialEq, Debug)]
pub struct Pool {
    /// Its name in metrics, logs and the control plane.
    pub name: String,
    /// The model that clients ask for.
    pub model: String,
    /// LoRA adapters that the same endpoints serve; clients ask for them by name.
    pub adapters: Vec<String>,
    /// The software at the endpoints.
    pub engine: Engine,
    /// What the engines want to be shown by whoever asks them.
    pub engine_key: Option<Secret>,
    /// Whether adapters that the endpoints name themselves can be asked for, too.
    pub discover_adapters: bool,
    /// How an endpoint is chosen.
    pub policy: PolicyKind,
    /// What the terms of `predictive` count for.
    pub profile: Profile,
    /// A second policy that is asked about every request and not obeyed.
    pub shadow_policy: Option<PolicyKind>,
    /// Whether `predictive` gives way to `least_work` while its predictions fail.
    pub fallback: bool,
    /// Whether weights follow the observed speeds instead of the endpoints' `weight`.
    pub dynamic_weights: bool,
    /// Expressions that filter candidates or add to their price.
    pub rule: Option<Rule>,
    /// How new and returned endpoints get their share.
    pub slow_start: SlowStart,
    /// What an endpoint is sent before that.
    pub warm_up: WarmUp,
    /// How endpoints are asked what they hold and do.
    pub scrape: Scrape,
    /// The user's own signals, in the file's order; at most 8, no name twice.
    pub signals: Vec<NamedSignal>,
    /// Load reports in answers.
    pub orca: Orca,
    /// How prompts become tokens; without it, prefixes are compared as text.
    pub tokenizer: Option<Tokenizer>,
    /// Where the engines publish their caches' changes; see [`Pool::kv_events_of`].
    pub kv_events: Option<KvEvents>,
    /// How the endpoints are spoken to.
    pub protocol: Protocol,
    /// What a good answer is.
    pub slo: Slo,
    /// The endpoints; at least one, no two the same.
    pub endpoints: Vec<Endpoint>,
    /// The pool's own time limits over the global ones.
    pub timeouts: Timeouts,
    /// The pool's own probes over the global ones.
    pub health: Health,
    /// The pool's own second attempts over the global ones.
    pub retry: Retry,
    /// Whether the client's `Host` is passed on; if not, `Host` is the endpoint's authority.
    pub preserve_host: bool,
    /// `consistent_hash` only: how far above the mean one endpoint may be loaded
    /// before its keys go to the next; at least 1.
    pub hash_balance_factor: f64,
    /// `h2c` only: connections that each worker holds to each endpoint; at least 1.
    pub h2_connections: u32,
    /// Connections being established to one endpoint at once; at least 1.
    pub max_dials: u32,
    /// Requests of this pool at once; `None` means no limit of its own.
    pub in_flight: Option<u32>,
}

impl Pool {
    /// A pool with every documented default and no endpoint.
    pub fn new(name: impl Into<String>, model: impl Into<String>) -> Pool {
        Pool {
            name: name.into(),
            model: model.into(),
            adapters: Vec::new(),
            engine: Engine::default(),
            engine_key: None,
            discover_adapters: true,
            policy: PolicyKind::default(),
            profile: Profile::default(),
            shadow_policy: None,
            fallback: true,
            dynamic_weights: false,
            rule: None,
            slow_start: SlowStart::default(),
            warm_up: WarmUp::default(),
            scrape: Scrape::default(),
            signals: Vec::new(),
            orca: Orca::default(),
            tokenizer: None,
            kv_events: None,
            protocol: Protocol::default(),
            slo: Slo::default(),
            endpoints: Vec::new(),
            timeouts: Timeouts::default(),
            health: Health::default(),
            retry: Retry::default(),
            preserve_host: false,
            hash_balance_factor: 1.25,
            h2_connections: 4,
            max_dials: 16,
            in_flight: None,
        }
    }

    /// Where one endpoint publishes its cache's changes: its own addresses over the
    /// pool's, with its host put in. `None` where neither has any.
    pub fn kv_events_of(&self, endpoint: &Endpoint) -> Option<KvEvents> {
        if self.kv_events.is_none() && endpoint.kv_events.is_none() {
            return None;
        }
        let host = match &endpoint.url.host {
            Host::Ip(ip) => ip.to_string(),
            Host::Scoped(ip, zone) => format!("{ip}%{zone}"),
            Host::Name(name) => name.clone(),
        };
        let mut events = self.kv_events.clone().unwrap_or_default();
        if let Some(url) = &endpoint.kv_events {
            events.url.clone_from(url);
            // The pool's replay address belongs to the pool's publisher address.
            events.replay = None;
        }
        if endpoint.kv_replay.is_some() {
            events.replay.clone_from(&endpoint.kv_replay);
        }
        Some(events.at(&host))
    }

    /// Whether an endpoint's publisher is where engines have it by default, and the
    /// file does not say so otherwise.
    pub(crate) fn is_default_publisher(&self, endpoint: &Endpoint) -> bool {
        let by_default = |events: &KvEvents| events.url == KvEvents::default().url && !events.bind;
        endpoint.kv_events.is_none() && self.kv_events.as_ref().is_some_and(by_default)
    }

    /// Whether an endpoint is asked for its cache's changes at its own URL, as
    /// TensorRT-LLM wants it, and publishes none: no address of a publisher was given.
    pub fn polls_kv_events(&self, endpoint: &Endpoint) -> bool {
        self.engine == Engine::Trtllm && self.is_default_publisher(endpoint)
    }
}

/// What a good answer is: a request meets its SLO when both are kept.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Slo {
    /// Time to the first token.
    pub ttft: Duration,
    /// Time per token after the first.
    pub tpot: Duration,
}

impl Default for Slo {
    fn default() -> Self {
        Slo { ttft: Duration::from_secs(2), tpot: Duration::from_millis(50) }
    }
}

/// One address that serves the pool's model.
#[derive(Clone, PartialEq, Debug)]
pub struct Endpoint {
    /// Where it is.
    pub url: EndpointUrl,
    /// Its name in metrics, logs and answers: the canonical URL.
    pub name: String,
    /// Relative capacity when nothing has been learned yet; above 0.
    pub weight: f64,
    /// Its GPU class, as the user calls it.
    pub accelerator: Option<String>,
    /// Where it runs, as the user calls it.
    pub zone: Option<String>,
    /// What it runs, as the user calls it: splits by version go by it.
    pub version: Option<String>,
    /// Its Prometheus page, where that is not at the engine's usual place.
    pub metrics_url: Option<String>,
    /// The page of NVIDIA's DCGM exporter on its node.
    pub dcgm_url: Option<String>,
    /// Its GPUs on that page, by index or UUID; all when empty.
    pub gpus: Vec<String>,
    /// Its own address for KV-cache events, instead of the pool's.
    pub kv_events: Option<String>,
    /// Its own address for missed events, instead of the pool's.
    pub kv_replay: Option<String>,
}

impl Endpoint {
    /// An endpoint with every documented default.
    pub fn new(url: EndpointUrl) -> Endpoint {
        Endpoint {
            name: url.to_string(),
            url,
            weight: 1.0,
            accelerator: None,
            zone: None,
            version: None,
            metrics_url: None,
            dcgm_url: None,
            gpus: Vec::new(),
            kv_events: None,
            kv_replay: None,
        }
    }
}
