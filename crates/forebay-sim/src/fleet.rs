//! The fleet simulator: endpoints, gateways and traffic in simulated time.
//!
//! Every gateway is the very [`forebay_gate::Gate`] that production runs, told
//! by the same calls; only time, engines and clients are simulated. Equal
//! arguments give equal results.
//!
//! ```
//! use forebay_gate::PoolConfig;
//! use forebay_sim::baselines::{BaselineKind, Knobs};
//! use forebay_sim::engine::Profile;
//! use forebay_sim::fleet::{Fleet, PolicySpec, RunOptions, run};
//! use forebay_sim::workload::{Groups, GroupsSpec};
//!
//! let fleet = Fleet::uniform(4, Profile::by_name("h100-8b").ok_or("no such profile")?);
//! let policies = [
//!     PolicySpec::Ours(PoolConfig::default()),
//!     PolicySpec::Baseline(BaselineKind::RoundRobin, Knobs::default()),
//! ];
//! let mut hits = Vec::new();
//! for policy in &policies {
//!     let mut workload = Groups::new(GroupsSpec { conversations: 100, ..GroupsSpec::default() }, 7);
//!     let result = run(&fleet, &mut workload, policy, &RunOptions::default())?;
//!     assert_eq!(result.requests, 200);
//!     hits.push(result.prefix_hit);
//! }
//! assert!(hits[0] > hits[1]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

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
pub use result::{ClassResult, EndpointResult, Parts, SimResult, Times};
pub use run::run;
pub use spec::{EndpointSpec, Fleet, FleetChange, FleetError, FleetEvent, OutputKnowledge};
pub use timeline::TimelinePoint;
