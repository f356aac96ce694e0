//! The decision core: which request goes now, and to which endpoint.
//!
//! A [`Gate`] is a state machine. It is told the time, does no I/O, and draws
//! randomness only from the seed it was made with, so that the same calls give
//! the same decisions in production, in the endpoint picker and in the
//! simulator. Admission and pick are one transition, [`Gate::submit`];
//! everything that happens later is [`Gate::apply`]; a second choice for a
//! request that could not be delivered is [`Gate::repick`].

mod admit;
mod endpoints;
mod event;
mod explain;
mod gate;
mod learned;
mod peers;
mod pick;
mod place;
mod policy_kind;
mod pool;
mod profile;
mod residents;
mod row;
mod runs;
mod settle;
mod slow_start;
mod ticket;
mod verdict;
mod without;

pub use admit::AdmissionConfig;
pub use endpoints::{EndpointLoad, EndpointStanding, SpeedView};
pub use event::{Effects, Event, Progress};
pub use explain::{Candidate, DecisionRecord};
pub use forebay_predict::ErrorSummary;
pub use gate::Gate;
pub use peers::{PeerLoad, PeerWord};
pub use pick::WORK_PER_OUTPUT_TOKEN;
pub use pick::cost::{SloClass, Terms, Weights};
pub use policy_kind::{PolicyKind, UnknownPolicy};
pub use pool::{OrcaConfig, PoolConfig, PoolLoad};
pub use profile::{Profile, UnknownProfile};
pub use slow_start::SlowStart;
pub use verdict::{Decision, Explanation, Refusal, RefuseReason, RepickReason, Verdict};
pub use without::Without;

#[cfg(test)]
mod fleet_tests;
#[cfg(test)]
mod peers_tests;
#[cfg(test)]
mod pool_tests;
#[cfg(test)]
mod tests;
