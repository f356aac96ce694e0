//! `pools`.

use forebay_gate::{PolicyKind, Profile};
use schemars::JsonSchema;
use serde::Deserialize;

use super::{
    Field, Later, Named, RawHealth, RawKvEvents, RawOrca, RawRetry, RawRule, RawScrape, RawSignal,
    RawSlowStart, RawTimeouts, RawTokenizer, RawWarmUp,
};
use crate::choices::{Engine, Protocol};
use crate::kinds::{
    AtLeastOne, Flag, Int, Key, Name, PageUrl, Positive, Publisher, Span, UrlText, WeightSource, Word,
};
use crate::scalar::Scalar;
use crate::schema::order;

/// Endpoints that can stand in for each other, because they serve the same model.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Pool", transform = order::<RawPool>)]
pub(crate) struct RawPool {
    /// The pool's name in metrics, logs and the control plane. Unique.
    #[schemars(required)]
    pub(crate) name: Field<Name>,

    /// The model that clients ask for. No other pool may serve it: one pool with all the
    /// endpoints is what balances among them, and `models` splits a name over several.
    #[schemars(required)]
    pub(crate) model: Field<Name>,

    /// LoRA adapters that the same endpoints serve. Clients ask for them by name.
    pub(crate) adapters: Option<Vec<Scalar<Name>>>,

    /// The software at the endpoints. It decides which metrics and error shapes are expected
    /// there. `auto` finds out; `openai` is anything else that speaks the OpenAI API.
    #[schemars(extend("default" = "auto"))]
    pub(crate) engine: Field<Word<Engine>>,

    /// The key that the engines ask for (vLLM and SGLang: `--api-key`), best as `${NAME}`. It is sent
    /// to the pool's endpoints, as `Authorization: Bearer KEY`, with what the gateway asks them itself:
    /// probes, load, lists of models, warm-up, TensorRT-LLM's KV events. Clients' requests are passed on as they come: a client
    /// must send the key itself.
    pub(crate) engine_key: Field<Key>,

    /// Whether LoRA adapters that the endpoints name themselves can be asked for as well, once one
    /// has it.
    #[schemars(extend("default" = true))]
    pub(crate) discover_adapters: Field<Flag>,

    /// How an endpoint is chosen; docs/routing.md has more on each.
    ///
    /// By price in milliseconds: `predictive`, from learned speeds, held prefixes and limits, and
    /// `learned`, the same with prices tuned while it runs.
    ///
    /// By load: `least_latency` (observed over predicted time, the better of two), `least_queue` (soonest
    /// done with what is pending), `prequal` (the fastest that is not hot), `orca_weighted_round_robin` (by
    /// reported utilisation), `least_work` (least outstanding tokens per weight), `least_request` (also
    /// `least_connections`: fewest requests per weight), `power_of_two` (the better of two drawn at random).
    ///
    /// By affinity, unless the endpoint is loaded above a bound: `prefix_affinity` (the longest held
    /// prefix), `session_affinity` (the session's endpoint), `consistent_hash` (the hash of session, user or
    /// prompt start).
    ///
    /// By no load at all: `round_robin`, `weighted_round_robin`, `random`.
    #[schemars(extend("default" = "predictive"))]
    pub(crate) policy: Field<Word<PolicyKind>>,

    /// What `predictive` and `learned` aim at. `balanced`: first tokens, whole answers and limits.
    /// `lean`: first tokens. `goodput`: as many requests within `slo` as possible. `batch`: least total
    /// time.
    #[schemars(extend("default" = "balanced"))]
    pub(crate) profile: Field<Word<Profile>>,

    /// A second policy that is asked about every request and not obeyed; metrics tell how often it
    /// agrees and what its choices would have cost.
    pub(crate) shadow_policy: Field<Word<PolicyKind>>,

    /// Whether `predictive` and `learned` give way to `least_work` with held prefixes while their
    /// predictions fail.
    #[schemars(extend("default" = true))]
    pub(crate) fallback: Field<Flag>,

    /// `static`: the endpoints' `weight`. `dynamic`: as the speeds say that are learned from their
    /// answers. For the policies that go by weights always; see `weight`.
    #[schemars(extend("default" = "static"))]
    pub(crate) weights: Field<Word<WeightSource>>,

    /// Your own condition and cost for an endpoint.
    pub(crate) rule: Option<RawRule>,

    /// Your own signals from the endpoints' metrics, by name, for use in `rule` and in status.
    pub(crate) signals: Option<Named<RawSignal>>,

    /// How an endpoint that is new, or was away, gets its share.
    pub(crate) slow_start: Option<RawSlowStart>,

    /// What an endpoint is sent before it becomes ready.
    pub(crate) warm_up: Option<RawWarmUp>,

    /// How endpoints are asked what they hold and do.
    pub(crate) scrape: Option<RawScrape>,

    /// Load reports in answers.
    pub(crate) orca: Option<RawOrca>,

    /// Turns prompts into tokens. Off unless it is there.
    pub(crate) tokenizer: Option<RawTokenizer>,

    /// Follows the engines' prefix caches. Off unless it is there.
    pub(crate) kv_events: Option<RawKvEvents>,

    /// How the endpoints are spoken to: HTTP/1.1, or HTTP/2 without TLS by prior knowledge.
    /// It is never probed: an endpoint that does not speak it fails.
    #[schemars(extend("default" = "http1"))]
    pub(crate) protocol: Field<Word<Protocol>>,

    /// What a good answer is.
    pub(crate) slo: Option<RawSlo>,

    /// The addresses that serve the model. At least one, no two the same in any spelling.
    #[schemars(required)]
    pub(crate) endpoints: Option<Vec<RawEndpoint>>,

    /// Whether the client's `Host` header is passed on. If not, `Host` is the endpoint's own
    /// host and port.
    #[schemars(extend("default" = false))]
    pub(crate) preserve_host: Field<Flag>,

    /// For `consistent_hash`, `prefix_affinity` and `session_affinity`: how far above the mean one endpoint may be loaded before its keys
    /// go to another. Lower values balance better, higher ones keep keys in place.
    #[schemars(extend("default" = 1.25))]
    pub(crate) hash_balance_factor: Field<AtLeastOne>,

    /// For `protocol: h2c`: connections that each worker holds to each endpoint.
    #[schemars(extend("default" = 4))]
    pub(crate) h2_connections: Field<Int<1, 64>>,

    /// Connections that may be being established to one endpoint at once. Requests above it wait
    /// for a connection to become free.
    #[schemars(extend("default" = 16))]
    pub(crate) max_dials: Field<Int<1, 1024>>,

    /// Limits of this pool alone.
    pub(crate) limits: Option<RawPoolLimits>,

    /// Time limits of this pool; what is not set here is as in the top-level `timeouts`.
    pub(crate) timeouts: Option<RawTimeouts>,

    /// Second attempts of this pool; what is not set here is as in the top-level `retry`.
    pub(crate) retry: Option<RawRetry>,

    /// Probes of this pool; what is not set here is as in the top-level `health`.
    pub(crate) health: Option<RawHealth>,

    /// Draining of one pool. Not in this version: must be absent or empty.
    pub(crate) drain: Option<Later>,
}

/// What a good answer is. A request meets its SLO when both are kept.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Slo", transform = order::<RawSlo>)]
pub(crate) struct RawSlo {
    /// Time to the first token.
    #[schemars(extend("default" = "2s"))]
    pub(crate) ttft: Field<Span<1, 3_600_000>>,

    /// Time per output token after the first.
    #[schemars(extend("default" = "50ms"))]
    pub(crate) tpot: Field<Span<1, 60_000>>,
}

/// Limits of one pool.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "PoolLimits", transform = order::<RawPoolLimits>)]
pub(crate) struct RawPoolLimits {
    /// Requests of this pool at once; 0 means no limit of its own.
    #[schemars(extend("default" = 0))]
    pub(crate) in_flight: Field<Int<0, 1_000_000>>,
}

/// One address that serves the pool's model.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Endpoint", transform = order::<RawEndpoint>)]
pub(crate) struct RawEndpoint {
    /// Where it is: an address or a name, the port (80 if it has none), and a path only if the
    /// engine's own paths stand behind one. Without `/v1`. A link-local IPv6 address carries its
    /// zone: `http://[fe80::1%25eth0]:8000`.
    #[schemars(required)]
    pub(crate) url: Field<UrlText>,

    /// Relative capacity. The policies that learn speeds (`predictive`, `learned`, `least_latency`,
    /// `least_queue`) begin by it, against the mean of those with the same `accelerator`, until an
    /// endpoint has shown its own; `weighted_round_robin`, `random`, `least_request`, `power_of_two`,
    /// `least_work` and those of affinity go by it always; the others ignore it.
    #[schemars(extend("default" = 1.0))]
    pub(crate) weight: Field<Positive>,

    /// The GPU class, in your own words.
    pub(crate) accelerator: Field<Name>,

    /// Where it runs, in your own words.
    pub(crate) zone: Field<Name>,

    /// What it runs, in your own words, for splits by version under `models`.
    pub(crate) version: Field<Name>,

    /// Its Prometheus page, where that is not at the engine's usual place. Without a path, `/metrics`.
    pub(crate) metrics_url: Field<PageUrl>,

    /// The page of NVIDIA's DCGM exporter on its node, for GPU load, heat and throttling. Without a
    /// path, `/metrics`.
    pub(crate) dcgm_url: Field<PageUrl>,

    /// Its GPUs on that page, by index or UUID. Default: all of them.
    pub(crate) gpus: Option<Vec<Scalar<Name>>>,

    /// Its own publisher of KV-cache events, instead of the pool's `kv_events.url`.
    pub(crate) kv_events: Field<Publisher>,

    /// Its own address for missed events, instead of the pool's `kv_events.replay`.
    pub(crate) kv_replay: Field<Publisher>,
}
