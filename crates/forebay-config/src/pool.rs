//! Pools and their endpoints, as the program uses them.

use std::time::Duration;

use forebay_gate::PolicyKind;

use crate::choices::{Engine, Protocol};
use crate::endpoint_url::EndpointUrl;
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
    /// How an endpoint is chosen.
    pub policy: PolicyKind,
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
            policy: PolicyKind::default(),
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
}

impl Endpoint {
    /// An endpoint with every documented default.
    pub fn new(url: EndpointUrl) -> Endpoint {
        Endpoint { name: url.to_string(), url, weight: 1.0, accelerator: None, zone: None }
    }
}
