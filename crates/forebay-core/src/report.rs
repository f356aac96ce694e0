//! What an endpoint last said of its own load.

use crate::Time;

/// One load report. Every field but the time may be unknown: an engine that
/// does not publish a figure is not an idle engine.
#[derive(Clone, Copy, Debug, PartialEq, Default)]
pub struct LoadReport {
    /// When the figures were true, as far as known.
    pub at: Time,
    /// Requests in the running batch.
    pub running: Option<u32>,
    /// Requests in the engine's own queue.
    pub waiting: Option<u32>,
    /// Share of the KV memory in use, 0 to 1.
    pub kv_usage: Option<f32>,
}
