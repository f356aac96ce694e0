//! The control plane: health, readiness, metrics, status and changes while
//! running, on a port of its own.
//!
//! What it shows comes through [`StatusSource`] and what it changes goes
//! through [`FleetControl`], which the binary implements; this crate knows how
//! to say it and how not to be held up by who asks.

mod control;
mod error;
mod model;
mod page;
mod process;
mod routes;
mod server;

pub use control::{ControlError, EndpointPatch, FleetControl, OperatorState, PoolPatch};
pub use model::{
    AdapterStatus, BodyEdit, CandidateView, DecisionView, EndpointStatus, GpuStatus, KvEventStatus,
    PoolReadiness, PoolStatus, PredictionError, PrefixIndexStatus, Readiness, RequestTotals, ScrapeStatus,
    ShadowStatus, SignalStatus, SpeedStatus, Status,
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

/// Everything that the control plane needs of its process.
pub trait ControlPlane: StatusSource + FleetControl {}

impl<P: StatusSource + FleetControl> ControlPlane for P {}
