//! What a pool is for: one word that sets what the terms of a price count for.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::pick::cost::Weights;

/// A set of prices for `predictive`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Profile {
    /// People wait for first tokens and read the rest: both count, and so do limits.
    #[default]
    Balanced,
    /// The first token as soon as possible; whole answers may take longer.
    Lean,
    /// As many requests as possible within their limits.
    Goodput,
    /// The least total time; nobody waits for a first token.
    Batch,
}

impl Profile {
    /// Every profile, in the order of the documentation.
    pub const ALL: &'static [Profile] = &[Profile::Balanced, Profile::Lean, Profile::Goodput, Profile::Batch];

    /// The word in configuration, metrics and logs.
    pub const fn as_str(self) -> &'static str {
        match self {
            Profile::Balanced => "balanced",
            Profile::Lean => "lean",
            Profile::Goodput => "goodput",
            Profile::Batch => "batch",
        }
    }

    /// What the terms count for.
    pub const fn weights(self) -> Weights {
        let balanced = Weights {
            ttft: 3.0,
            decode: 1.0,
            harm: 0.6,
            miss: 2.5,
            overtime: 0.0,
            width: 0.15,
            max_price: 20.0,
        };
        match self {
            Profile::Balanced => balanced,
            Profile::Lean => Weights { decode: 0.0, harm: 0.0, ..balanced },
            Profile::Goodput => Weights { miss: 10.0, width: 0.1, ..balanced },
            Profile::Batch => Weights { ttft: 1.0, harm: 1.0, miss: 0.0, ..balanced },
        }
    }
}

impl fmt::Display for Profile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The text is not the name of a profile.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("not the name of a profile")]
pub struct UnknownProfile;

impl FromStr for Profile {
    type Err = UnknownProfile;

    fn from_str(s: &str) -> Result<Self, Self::Err> {
        Profile::ALL.iter().copied().find(|p| p.as_str() == s).ok_or(UnknownProfile)
    }
}
