//! How a request ended.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Token counts of one request, as the engine stated them or as counted here.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// Prompt tokens, cached ones included.
    pub prompt_tokens: u64,
    /// Prompt tokens that came from the engine's prefix cache.
    pub cached_tokens: u64,
    /// The engine stated how many came from its cache, be it none.
    pub cached_known: bool,
    /// Generated tokens.
    pub completion_tokens: u64,
    /// False when the engine stated the figures; true when they are a lower
    /// bound counted from the events that passed.
    pub estimated: bool,
}

/// Why a request that was sent to an endpoint did not succeed.
///
/// The four kinds of bad answer that invariant 8 keeps apart are the client's
/// mistake ([`EndKind::Finished`] with a 4xx status), backpressure, faults and
/// cancellation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Failure {
    /// No connection: refused, unreachable, or not established in time.
    Connect,
    /// The connection broke before the first byte of an answer.
    Reset,
    /// The answer was not HTTP that can be passed on.
    Protocol,
    /// The answer began and broke off.
    Truncated,
    /// The engine answered with a 5xx that is not backpressure.
    Status,
    /// An error object inside a 200 stream, or `finish_reason` "abort".
    StreamError,
    /// No first event or no answer within the limit.
    FirstByteTimeout,
    /// Silence between two bytes beyond the limit.
    IdleTimeout,
    /// The whole request took longer than its limit.
    TotalTimeout,
}

impl Failure {
    /// The word used in metrics and logs.
    pub const fn as_str(self) -> &'static str {
        match self {
            Failure::Connect => "connect",
            Failure::Reset => "reset",
            Failure::Protocol => "protocol",
            Failure::Truncated => "upstream_truncated",
            Failure::Status => "status",
            Failure::StreamError => "stream_error",
            Failure::FirstByteTimeout => "timeout_first_byte",
            Failure::IdleTimeout => "timeout_idle",
            Failure::TotalTimeout => "timeout_total",
        }
    }

    /// True when it counts against the endpoint's health. A request that ran
    /// out of its own total time says nothing of the endpoint.
    pub const fn is_fault(self) -> bool {
        !matches!(self, Failure::TotalTimeout)
    }
}

/// The way a request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum EndKind {
    /// A whole answer went to the client, whatever its status (a 4xx is the client's mistake).
    Finished,
    /// The engine said that it cannot take the request now (429, or 503).
    Backpressure,
    /// It failed at the endpoint.
    Failed(Failure),
    /// The client went away, or the gateway withdrew it.
    Cancelled,
}

/// What the Gate is told when a request ends.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// How it ended.
    pub end: EndKind,
    /// From being forwarded to the first token event; none when none came.
    pub ttft: Option<Duration>,
    /// From being forwarded to the end.
    pub duration: Duration,
    /// Token counts, when known.
    pub usage: Option<Usage>,
}

impl Outcome {
    /// The outcome of a request that ended before anything came back.
    pub const fn without_answer(end: EndKind, duration: Duration) -> Outcome {
        Outcome { end, ttft: None, duration, usage: None }
    }
}
