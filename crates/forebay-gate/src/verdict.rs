//! What the Gate answers.

use std::time::Duration;

use forebay_core::{EndpointId, PoolId, TicketId};
use serde::{Deserialize, Serialize};

use crate::PolicyKind;

/// The answer to one request.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub enum Verdict {
    /// Send it now.
    Go(Decision),
    /// Keep it; an effect of a later event lets it go or refuses it.
    Wait(TicketId),
    /// Refuse it.
    Refuse(Refusal),
}

/// One request's way to one endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Decision {
    /// Whom to settle the request with.
    pub ticket: TicketId,
    /// Where to send it.
    pub endpoint: EndpointId,
    /// Why there.
    pub explanation: Explanation,
}

/// Why an endpoint was picked, kept as numbers and rendered when read.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Explanation {
    /// The pool that was asked.
    pub pool: PoolId,
    /// The policy that chose.
    pub policy: PolicyKind,
    /// How many endpoints were eligible.
    pub candidates: u32,
    /// What the policy minimised, at the chosen endpoint, in the policy's own
    /// unit; zero for policies that do not compare.
    pub score: f64,
    /// Requests in flight at the chosen endpoint before this one.
    pub in_flight: u32,
}

/// Why and for how long a request is turned away.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refusal {
    /// Why.
    pub reason: RefuseReason,
    /// When asking again makes sense.
    pub retry_after: Duration,
}

/// Why a request is turned away.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum RefuseReason {
    /// No endpoint of the pool is ready.
    NoneReady,
    /// The pool is full and so is its queue.
    QueueFull,
    /// It waited in the queue as long as it may.
    QueueTimeout,
    /// Every endpoint that could have served it was tried.
    Exhausted,
    /// The Gate does not have that pool.
    UnknownPool,
}

impl RefuseReason {
    /// The word used in metrics and logs.
    pub const fn as_str(self) -> &'static str {
        match self {
            RefuseReason::NoneReady => "none_ready",
            RefuseReason::QueueFull => "queue_full",
            RefuseReason::QueueTimeout => "queue_timeout",
            RefuseReason::Exhausted => "exhausted",
            RefuseReason::UnknownPool => "unknown_pool",
        }
    }
}

/// Why a request needs a second choice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum RepickReason {
    /// No connection could be made, so nothing was sent.
    Connect,
    /// A reused connection was closed before it took the request.
    Reset,
    /// The endpoint does not have the adapter that was asked for.
    ModelMissing,
}

impl RepickReason {
    /// The word used in metrics and logs.
    pub const fn as_str(self) -> &'static str {
        match self {
            RepickReason::Connect => "connect",
            RepickReason::Reset => "reset",
            RepickReason::ModelMissing => "model_missing",
        }
    }
}
