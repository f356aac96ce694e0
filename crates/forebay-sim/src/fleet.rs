//! The fleet simulator: endpoints, gateways and traffic in simulated time.
//!
//! Every gateway is the very [`forebay_gate::Gate`] that production runs, told
//! by the same calls; only time, engines and clients are simulated. Equal
//! arguments give equal results.

mod engine_fast;
mod gateway;
mod measure;
mod policy;
mod queue;
mod result;
mod run;
mod spec;
mod timeline;

#[cfg(test)]
mod run_tests;

pub use policy::{PolicySpec, RunOptions};
pub use result::{EndpointResult, Parts, SimResult, Times};
pub use run::run;
pub use spec::{EndpointSpec, Fleet, FleetChange, FleetError, FleetEvent};
pub use timeline::TimelinePoint;
