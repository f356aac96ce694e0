//! What a pool's policy is given to decide by: signals, ramps and a rule of the user's own.

use std::time::Duration;

use forebay_gate::OrcaConfig;
use forebay_wire::signals::CustomSignal;

use crate::choices::OrcaAsk;

/// How endpoints are asked what they hold and do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Scrape {
    /// Whether they are asked at all.
    pub enabled: bool,
    /// Between the requests for the load of an endpoint with work.
    pub interval_min: Duration,
    /// The same without work or without an answer; not below `interval_min`.
    pub interval_max: Duration,
    /// How long one page may take.
    pub timeout: Duration,
    /// Between the requests for what changes seldom: models and GPUs.
    pub models_interval: Duration,
}

impl Default for Scrape {
    fn default() -> Self {
        Scrape {
            enabled: true,
            interval_min: Duration::from_millis(100),
            interval_max: Duration::from_secs(5),
            timeout: Duration::from_secs(2),
            models_interval: Duration::from_secs(10),
        }
    }
}

/// A metric of the user's choice, with a name of its own.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NamedSignal {
    /// The name in rules: a letter or `_`, then letters, digits and `_`.
    pub name: String,
    /// What is read.
    pub signal: CustomSignal,
}

/// Requests that the gateway itself sends to an endpoint before it gets others.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WarmUp {
    /// How many; 0 means none.
    pub requests: u32,
    /// How many of them at once; at least 1.
    pub concurrency: u32,
}

impl Default for WarmUp {
    fn default() -> Self {
        WarmUp { requests: 0, concurrency: 1 }
    }
}

/// Load reports in answers (ORCA).
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Orca {
    /// In which format engines are asked for a report.
    pub ask: OrcaAsk,
    /// The metrics that make up utilisation, the largest counts; none means the
    /// application's or the CPU's utilisation.
    pub metrics: Vec<String>,
    /// How reports become weights, for `orca_weighted_round_robin`.
    pub weights: OrcaConfig,
}

/// Expressions (CEL) over what is known of a candidate. At least one is there.
///
/// They are kept as text that is known to compile with the pool's signals.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Rule {
    /// Gives a boolean: an endpoint for which it is false is not picked, even
    /// when there is no other.
    pub filter: Option<String>,
    /// Gives a number: milliseconds that are added to a candidate's price.
    pub cost_ms: Option<String>,
}
