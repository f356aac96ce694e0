//! What a decision needs to know of a request and of an endpoint.

use crate::{ModelId, PoolId};

/// Who goes first when not all can: higher is more important.
///
/// The three names are the usual classes; any other integer orders between
/// them. Negative values are sheddable, as in the Gateway API Inference
/// Extension.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
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

/// What the Gate knows of one request: ids and numbers, no borrow of the body.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RequestFacts {
    /// The pool that serves the requested model.
    pub pool: PoolId,
    /// The model the client asked for.
    pub model: ModelId,
    /// Its class.
    pub priority: Priority,
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
}

/// What an operator says of one endpoint.
#[derive(Clone, Debug, PartialEq)]
pub struct EndpointFacts {
    /// Canonical address as shown to people and in labels, for example `http://127.0.0.1:8001`.
    pub name: String,
    /// Relative capacity while nothing has been learned; above 0.
    pub weight: f64,
}

/// Whether an endpoint may be picked.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
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
