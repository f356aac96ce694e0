//! What the control API says, as data. Field names are the JSON keys.

use serde::Serialize;

mod decision;
mod endpoint;
mod pool;

pub use decision::{CandidateView, DecisionView};
pub use endpoint::{
    AdapterStatus, EndpointStatus, GpuStatus, KvEventStatus, ScrapeStatus, SignalStatus, SpeedStatus,
};
pub use pool::{PoolStatus, PredictionError, PrefixIndexStatus, ShadowStatus};

/// `GET /api/v1/status`.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Status {
    /// The running version.
    pub version: String,
    /// Seconds since the process started.
    pub uptime_seconds: f64,
    /// The file that the configuration was read from; none when there is none, as in `demo`.
    pub config_file: Option<String>,
    /// The process is on its way out.
    pub draining: bool,
    /// What has been asked of it since it started.
    pub requests: RequestTotals,
    /// Every pool, in the order of the configuration.
    pub pools: Vec<PoolStatus>,
    /// Where a body is not passed on byte for byte; empty when it always is.
    pub body_edits: Vec<BodyEdit>,
}

/// Counts since the process started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct RequestTotals {
    /// Requests that have ended, whatever their end.
    pub total: u64,
    /// Of these, refused by the gateway itself.
    pub rejected: u64,
    /// Times a request was sent to another endpoint.
    pub retries: u64,
    /// Requests sent to an endpoint and not finished.
    pub in_flight: u64,
    /// Open connections of clients.
    pub client_connections: u64,
}

/// One named change to bodies on their way.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct BodyEdit {
    /// The name that clients ask for.
    pub model: String,
    /// The field that is changed, for example `model`.
    pub field: String,
    /// Where it comes from, for people: for example `alias of tide-7b`.
    pub reason: String,
}

/// What readiness is made of.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Readiness {
    /// The configuration is loaded and every listener is open.
    pub serving: bool,
    /// The process is on its way out.
    pub draining: bool,
    /// Every pool.
    pub pools: Vec<PoolReadiness>,
}

/// Whether one pool can serve.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PoolReadiness {
    /// Its name.
    pub name: String,
    /// How many of its endpoints may be picked.
    pub ready: usize,
}

/// The body of `GET /readyz`.
#[derive(Serialize)]
pub(crate) struct ReadinessBody<'a> {
    pub(crate) ready: bool,
    pub(crate) draining: bool,
    pub(crate) pools_without_ready_endpoint: Vec<&'a str>,
}

impl Readiness {
    /// As `/readyz` says it: of all pools together, where one that can serve
    /// is enough, or of one. None when there is no such pool.
    pub(crate) fn body(&self, pool: Option<&str>) -> Option<ReadinessBody<'_>> {
        let asked: Vec<_> = self.pools.iter().filter(|p| pool.is_none_or(|name| p.name == name)).collect();
        if pool.is_some() && asked.is_empty() {
            return None;
        }
        let some_ready = asked.iter().any(|p| p.ready > 0);
        Some(ReadinessBody {
            ready: self.serving && !self.draining && some_ready,
            draining: self.draining,
            pools_without_ready_endpoint: asked
                .iter()
                .filter(|p| p.ready == 0)
                .map(|p| p.name.as_str())
                .collect(),
        })
    }
}
