//! What the user writes: version 1 of the file, field by field.
//!
//! The doc comments here are the reference page and the descriptions in the schema; each
//! `default` is checked by a test against what the program really uses.

mod listen;
mod pool;
mod prefix;
mod routing;
mod sections;
mod signals;

use schemars::JsonSchema;
use serde::Deserialize;

pub(crate) use listen::{RawListener, RawListeners};
pub(crate) use pool::{RawEndpoint, RawPool, RawPoolLimits, RawSlo};
pub(crate) use prefix::{RawDecisionLog, RawKvEvents, RawPrefixIndex, RawTokenizer};
pub(crate) use routing::{RawOrca, RawRule, RawScrape, RawSlowStart, RawWarmUp};
pub(crate) use sections::{
    Later, RawDrain, RawHealth, RawLimits, RawLog, RawResponseHeaders, RawRetry, RawTimeouts,
};
pub(crate) use signals::{Named, RawSignal};

use crate::choices::{LogFormat, LogLevel};
use crate::kinds::{Address, Flag, Int, Name, Share, Word};
use crate::scalar::Scalar;
use crate::schema::order;

/// A value of kind `K` that may be absent.
pub(crate) type Field<K> = Option<Scalar<K>>;

/// Forebay's configuration: one YAML file.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Configuration", transform = order::<RawConfig>)]
pub(crate) struct RawConfig {
    /// The version of this format.
    #[schemars(required)]
    pub(crate) version: Field<Int<1, 1>>,

    /// Where clients connect: one address, or a list of addresses. An item of the list can
    /// also be a mapping with `address` and `client_half_close`. Port 0 takes any free port.
    #[schemars(extend("default" = "127.0.0.1:8080"))]
    pub(crate) listen: Option<RawListeners>,

    /// Where the control plane listens: health, metrics, status. It has no access control:
    /// keep it on the loopback address, or on a network that only operators reach.
    #[schemars(extend("default" = "127.0.0.1:9090"))]
    pub(crate) admin: Field<Address>,

    /// Groups of endpoints that can stand in for each other. At least one. Two pools may name
    /// the same endpoint, which then has one load and one health for both.
    #[schemars(required)]
    pub(crate) pools: Option<Vec<RawPool>>,

    /// Names that stand for other models: aliases, and splits by weight or version.
    pub(crate) models: Option<Vec<RawModel>>,

    /// Time limits of a request to an endpoint. A pool can override each.
    pub(crate) timeouts: Option<RawTimeouts>,

    /// When a request is tried on another endpoint. A pool can override each field.
    pub(crate) retry: Option<RawRetry>,

    /// How endpoints are probed. A pool can override each field.
    pub(crate) health: Option<RawHealth>,

    /// What one client, and all clients together, may use.
    pub(crate) limits: Option<RawLimits>,

    /// How the program ends after SIGTERM.
    pub(crate) drain: Option<RawDrain>,

    /// What is remembered of who holds which prompt prefix.
    pub(crate) prefix_index: Option<RawPrefixIndex>,

    /// Writes every decision to a file. Off unless it is there.
    pub(crate) decision_log: Option<RawDecisionLog>,

    /// What is logged, and how.
    pub(crate) log: Option<RawLog>,

    /// Worker threads; 0 means one per processor core.
    #[schemars(extend("default" = 0))]
    pub(crate) workers: Field<Int<0, 1024>>,

    /// Optional headers on answers.
    pub(crate) response_headers: Option<RawResponseHeaders>,

    /// Whether the `x-forebay-*` request headers (priority, session, SLO) are believed,
    /// whoever sends them. They are never forwarded. Switch it on only where every client is
    /// trusted, such as behind another gateway that sets them.
    #[schemars(extend("default" = false))]
    pub(crate) trust_control_headers: Field<Flag>,

    /// Routing by host, path and header. Not in this version: must be absent or empty.
    pub(crate) routes: Option<Later>,

    /// Who may use the gateway, and how much. Not in this version: must be absent.
    pub(crate) tenants: Option<Later>,

    /// Where usage is stored. Not in this version: must be absent or empty.
    pub(crate) ledger: Option<Later>,

    /// The endpoint picker for Kubernetes gateways. Not in this version: must be absent or empty.
    pub(crate) epp: Option<Later>,

    /// Certificates for clients' connections. Not in this version: must be absent or empty.
    pub(crate) tls: Option<Later>,
}

/// A name that stands for one model (`target`), or for several by weight (`targets`).
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Model", transform = order::<RawModel>)]
pub(crate) struct RawModel {
    /// The name that clients ask for; no model, adapter or other alias may have it.
    #[schemars(required)]
    pub(crate) name: Field<Name>,

    /// The one model or adapter that it stands for. Either this or `targets`.
    pub(crate) target: Field<Name>,

    /// The models or adapters that it stands for, each with its share. Either this or `target`.
    pub(crate) targets: Option<Vec<RawTarget>>,
}

/// One share of a split.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Target", transform = order::<RawTarget>)]
pub(crate) struct RawTarget {
    /// A model or adapter of some pool; not an alias.
    #[schemars(required)]
    pub(crate) model: Field<Name>,

    /// Only the pool's endpoints with this `version`. A request of the same session goes to the same
    /// target. Default: every endpoint.
    pub(crate) version: Field<Name>,

    /// Its share of the requests, relative to the other targets. At least one must be above 0.
    #[schemars(extend("default" = 1.0))]
    pub(crate) weight: Field<Share>,
}

/// A level.
pub(crate) type Level = Word<LogLevel>;
/// A format.
pub(crate) type Format = Word<LogFormat>;
