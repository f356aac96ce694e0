//! The control plane: health, readiness, metrics and status, on a port of its own.
//!
//! What it shows comes through [`StatusSource`], which the binary implements;
//! this crate knows how to say it and how not to be held up by who asks.

mod error;
mod model;
mod page;
mod process;
mod routes;
mod server;

pub use model::{
    BodyEdit, DecisionView, EndpointStatus, PoolReadiness, PoolStatus, Readiness, RequestTotals, Status,
};
pub use process::process_stats;
pub use server::serve;

/// Where the control plane gets what it shows.
///
/// Called for every request, on the control plane's own tasks; none of the
/// calls may block for longer than it takes to copy some figures.
pub trait StatusSource: Send + Sync + 'static {
    /// Everything about the running process.
    fn status(&self) -> Status;

    /// Whether traffic should be sent here. Cheaper than a whole status, and
    /// asked for often.
    fn ready(&self) -> Readiness;

    /// All metrics in the Prometheus text format, version 0.0.4.
    fn metrics(&self) -> String;
    /// The newest decisions, newest first, at most `last`.
    fn decisions(&self, last: usize) -> Vec<DecisionView>;
}
