//! What an endpoint last said of its own load.

use serde::{Deserialize, Serialize};

use crate::Time;

/// How many signals an operator may name for one pool.
pub const CUSTOM_SIGNALS: usize = 8;

/// One load report. Every field but the time may be unknown: an engine that
/// does not publish a figure is not an idle engine.
#[derive(Clone, Copy, Debug, PartialEq, Default, Serialize, Deserialize)]
pub struct LoadReport {
    /// When the figures were true, as far as known.
    pub at: Time,
    /// Requests in the running batch.
    pub running: Option<u32>,
    /// Requests in the engine's own queue.
    pub waiting: Option<u32>,
    /// Share of the KV memory in use, 0 to 1.
    pub kv_usage: Option<f32>,
    /// Tokens that the KV memory holds in all.
    pub kv_tokens: Option<u32>,
    /// Prompt tokens in the engine's queue that it must still compute.
    pub waiting_tokens: Option<u64>,
    /// Tokens generated per second.
    pub throughput: Option<f32>,
    /// The operator's own signals, in the order of the configuration.
    pub custom: [Option<f32>; CUSTOM_SIGNALS],
}

/// A load report that came with an answer (ORCA).
#[derive(Clone, Copy, Debug, PartialEq, Default, Serialize, Deserialize)]
pub struct OrcaLoad {
    /// Utilisation by the operator's rule: the application's own, else the
    /// largest of the configured metrics, else the CPU's; may exceed 1.
    pub utilization: Option<f32>,
    /// Requests per second.
    pub qps: Option<f32>,
    /// Errors per second.
    pub eps: Option<f32>,
    /// Share of the KV memory in use, 0 to 1.
    pub kv_usage: Option<f32>,
    /// Requests in the engine's own queue.
    pub waiting: Option<u32>,
}
