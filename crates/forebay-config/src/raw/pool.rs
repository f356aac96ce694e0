//! `pools`.

use forebay_gate::PolicyKind;
use schemars::JsonSchema;
use serde::Deserialize;

use super::{Field, Later, RawHealth, RawRetry, RawTimeouts};
use crate::choices::{Engine, Protocol};
use crate::kinds::{AtLeastOne, Flag, Int, Name, Positive, Span, UrlText, Word};
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

    /// How an endpoint is chosen. `least_work`: the least outstanding work per weight, requests
    /// weighed by their estimated tokens. `least_request` (also `least_connections`): the fewest
    /// requests in flight per weight. `power_of_two`: the better of two drawn at random.
    /// `consistent_hash`: the same session, user or prompt start goes to the same endpoint unless
    /// that is loaded above a bound. `round_robin`, `weighted_round_robin` and `random` look at no load.
    #[schemars(extend("default" = "predictive"))]
    pub(crate) policy: Field<Word<PolicyKind>>,

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

    /// For `consistent_hash`: how far above the mean one endpoint may be loaded before its keys
    /// go to the next. Lower values balance better, higher ones keep keys in place.
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

    /// Relative capacity when nothing has been learned yet.
    #[schemars(extend("default" = 1.0))]
    pub(crate) weight: Field<Positive>,

    /// The GPU class, in your own words.
    pub(crate) accelerator: Field<Name>,

    /// Where it runs, in your own words.
    pub(crate) zone: Field<Name>,
}
