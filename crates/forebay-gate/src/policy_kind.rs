//! The names of the policies, as written in the configuration.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// How a pool chooses among its eligible endpoints.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PolicyKind {
    /// The least price in milliseconds of everything a request does at an
    /// endpoint: to itself, to those already there and to those to come.
    #[default]
    Predictive,
    /// `predictive` with prices that a bandit tunes while it runs: one request
    /// in twenty tries others, within a budget.
    Learned,
    /// The better of two drawn at random by the predicted time to the first
    /// token, times how late first tokens came there of late (peak-EWMA).
    LeastLatency,
    /// The soonest estimated completion of what is pending: prefill owed,
    /// output still to come, and this request's own prefill.
    LeastQueue,
    /// Prequal's rule, among five drawn at random: the least latency of those
    /// that are not hot; when all are, the fewest requests.
    Prequal,
    /// In proportion to requests per utilisation, as the endpoints report it (gRPC A58).
    OrcaWeightedRoundRobin,
    /// The longest held prefix, within a bound on load; else the least
    /// outstanding work.
    PrefixAffinity,
    /// The endpoint that served the session before, within a bound on load;
    /// else the least outstanding work.
    SessionAffinity,
    /// Each endpoint in turn.
    RoundRobin,
    /// Each endpoint in turn, in proportion to its weight, evenly interleaved.
    WeightedRoundRobin,
    /// Any endpoint, with a chance in proportion to its weight.
    Random,
    /// The fewest requests in flight per weight.
    LeastRequest,
    /// The better of two endpoints drawn at random, by requests in flight per weight.
    PowerOfTwo,
    /// The least outstanding work per weight, requests in flight weighed by
    /// their estimated tokens.
    LeastWork,
    /// The endpoint that the request's affinity key hashes to, unless it is
    /// loaded above a bound (consistent hashing with bounded loads).
    ConsistentHash,
}

impl PolicyKind {
    /// Every policy, in the order of the documentation.
    pub const ALL: [PolicyKind; 15] = [
        PolicyKind::Predictive,
        PolicyKind::Learned,
        PolicyKind::LeastLatency,
        PolicyKind::LeastQueue,
        PolicyKind::Prequal,
        PolicyKind::OrcaWeightedRoundRobin,
        PolicyKind::PrefixAffinity,
        PolicyKind::SessionAffinity,
        PolicyKind::RoundRobin,
        PolicyKind::WeightedRoundRobin,
        PolicyKind::Random,
        PolicyKind::LeastRequest,
        PolicyKind::PowerOfTwo,
        PolicyKind::LeastWork,
        PolicyKind::ConsistentHash,
    ];

    /// The name in configuration, metrics and logs.
    pub const fn as_str(self) -> &'static str {
        match self {
            PolicyKind::Predictive => "predictive",
            PolicyKind::Learned => "learned",
            PolicyKind::LeastLatency => "least_latency",
            PolicyKind::LeastQueue => "least_queue",
            PolicyKind::Prequal => "prequal",
            PolicyKind::OrcaWeightedRoundRobin => "orca_weighted_round_robin",
            PolicyKind::PrefixAffinity => "prefix_affinity",
            PolicyKind::SessionAffinity => "session_affinity",
            PolicyKind::RoundRobin => "round_robin",
            PolicyKind::WeightedRoundRobin => "weighted_round_robin",
            PolicyKind::Random => "random",
            PolicyKind::LeastRequest => "least_request",
            PolicyKind::PowerOfTwo => "power_of_two",
            PolicyKind::LeastWork => "least_work",
            PolicyKind::ConsistentHash => "consistent_hash",
        }
    }
}

impl fmt::Display for PolicyKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The text is not the name of a policy.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("not the name of a policy")]
pub struct UnknownPolicy;

impl FromStr for PolicyKind {
    type Err = UnknownPolicy;

    /// Reads a policy's name; `least_connections` is accepted for `least_request`.
    fn from_str(s: &str) -> Result<Self, Self::Err> {
        if s == "least_connections" {
            return Ok(PolicyKind::LeastRequest);
        }
        PolicyKind::ALL.into_iter().find(|p| p.as_str() == s).ok_or(UnknownPolicy)
    }
}
