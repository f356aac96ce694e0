//! The fleet simulator: endpoints, gateways and traffic in simulated time.
//!
//! Every gateway is the very [`forebay_gate::Gate`] that production runs, told
//! by the same calls; only time, engines and clients are simulated. Equal
//! arguments give equal results.

mod engine_fast;
mod gateway;
mod measure;
mod queue;
mod result;
mod run;
mod spec;

#[cfg(test)]
mod run_tests;

pub use result::{EndpointResult, Parts, SimResult, Times};
pub use run::{PolicySpec, RunOptions, run};
pub use spec::{EndpointSpec, Fleet, FleetChange, FleetError, FleetEvent};
