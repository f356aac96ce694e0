//! The names of the policies, as written in the configuration.

use std::fmt;
use std::str::FromStr;

/// How a pool chooses among its eligible endpoints.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Hash)]
pub enum PolicyKind {
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
    #[default]
    LeastWork,
    /// The endpoint that the request's affinity key hashes to, unless it is
    /// loaded above a bound (consistent hashing with bounded loads).
    ConsistentHash,
}

impl PolicyKind {
    /// Every policy, in the order of the documentation.
    pub const ALL: [PolicyKind; 7] = [
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
