//! What a decision needs to know of a request and of an endpoint.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::{EndpointId, ModelId, PoolId, TenantId, VersionId};

/// Who goes first when not all can: higher is more important.
///
/// The three names are the usual classes; any other integer orders between
/// them. Negative values are sheddable, as in the Gateway API Inference
/// Extension.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct Priority(pub i32);

impl Priority {
    /// Served before everything else.
    pub const CRITICAL: Priority = Priority(100);
    /// The class of a request that says nothing.
    pub const STANDARD: Priority = Priority(0);
    /// The first to be refused when the fleet is full.
    pub const SHEDDABLE: Priority = Priority(-100);

    /// True for every negative priority.
    pub const fn is_sheddable(self) -> bool {
        self.0 < 0
    }
}

impl Default for Priority {
    fn default() -> Self {
        Priority::STANDARD
    }
}

/// What a good answer is, as one request asks for it; an absent limit cannot be missed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Slo {
    /// Time to the first token, in milliseconds; above 0.
    pub ttft_ms: Option<f32>,
    /// Time per output token after the first, in milliseconds; above 0.
    pub tpot_ms: Option<f32>,
}

/// How much of a prompt one endpoint holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PrefixMatch {
    /// Which endpoint.
    pub endpoint: EndpointId,
    /// Prompt tokens that it need not compute.
    pub tokens: u32,
}

/// The prompt as the prefix index sees it, and what the index said of it.
///
/// The look-up happens before the Gate's lock is taken; its answer is an input
/// of the decision like any other.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Prefix {
    /// One hash for each full block of the prompt, each of the whole prompt up
    /// to and with that block.
    pub chain: Arc<[u64]>,
    /// Tokens in one block, on average.
    pub block_tokens: f32,
    /// The blocks are of token ids, as engines have them, and not of text.
    pub exact: bool,
    /// What each endpoint holds; those that hold nothing are left out.
    pub matches: Vec<PrefixMatch>,
}

/// What the operator's own rule says of one endpoint for one request.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct CandidateCost {
    /// Which endpoint.
    pub endpoint: EndpointId,
    /// Milliseconds to add to its price; none when it may not be picked.
    pub cost_ms: Option<f32>,
}

/// What the Gate knows of one request: ids and numbers, no borrow of the body.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RequestFacts {
    /// The pool that serves the requested model.
    pub pool: PoolId,
    /// The model the client asked for.
    pub model: ModelId,
    /// The LoRA adapter it names, where it is one.
    pub adapter: Option<ModelId>,
    /// The only version it may go to.
    pub version: Option<VersionId>,
    /// Who pays.
    pub tenant: TenantId,
    /// Its class.
    pub priority: Priority,
    /// What a good answer is to it.
    pub slo: Slo,
    /// Estimated prompt tokens, from the size of the prompt text; at least 1.
    pub prompt_tokens: u32,
    /// Estimated tokens to generate over all choices: the request's own limit
    /// where it is small, else what such requests usually take.
    pub output_tokens: u32,
    /// The client asked for an event stream.
    pub stream: bool,
    /// Hash of what keeps related requests together: the session header, the
    /// `user` field or the start of the prompt, in this order.
    pub affinity: u64,
    /// Hash of the session, where the request names one.
    pub session: Option<u64>,
    /// Its prompt in the prefix index.
    pub prefix: Prefix,
    /// What the operator's own rule says of each endpoint; those it says
    /// nothing of are left out.
    pub costs: Vec<CandidateCost>,
}

/// What an operator says of one endpoint.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EndpointFacts {
    /// Canonical address as shown to people and in labels, for example `http://127.0.0.1:8001`.
    pub name: String,
    /// Relative capacity while nothing has been learned; above 0.
    pub weight: f64,
    /// Its GPU class in the operator's words, for the first guess of its speed.
    pub accelerator: Option<String>,
    /// The version of what it serves.
    pub version: Option<VersionId>,
}

impl EndpointFacts {
    /// An endpoint of which nothing but the name is known.
    pub fn named(name: impl Into<String>) -> EndpointFacts {
        EndpointFacts { name: name.into(), weight: 1.0, accelerator: None, version: None }
    }
}

/// Whether an endpoint may be picked.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, Serialize, Deserialize)]
pub enum EndpointState {
    /// Known, and no probe has succeeded yet: not picked.
    Starting,
    /// Picked.
    Ready,
    /// Fails its probes or refuses connections: not picked until a probe succeeds.
    Unready,
    /// Taken out by an operator: gets nothing new, keeps what it has.
    Draining,
    /// Taken out by an operator and not probed.
    Disabled,
}

impl EndpointState {
    /// The word used in the API, in metrics and in logs.
    pub const fn as_str(self) -> &'static str {
        match self {
            EndpointState::Starting => "starting",
            EndpointState::Ready => "ready",
            EndpointState::Unready => "unready",
            EndpointState::Draining => "draining",
            EndpointState::Disabled => "disabled",
        }
    }

    /// Every state, for one metric series each.
    pub const ALL: [EndpointState; 5] = [
        EndpointState::Starting,
        EndpointState::Ready,
        EndpointState::Unready,
        EndpointState::Draining,
        EndpointState::Disabled,
    ];
}
