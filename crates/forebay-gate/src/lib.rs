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
mod gate;
mod pick;
mod policy_kind;
mod pool;
mod ticket;
mod verdict;

pub use admit::AdmissionConfig;
pub use endpoints::EndpointLoad;
pub use event::{Effects, Event, Progress};
pub use gate::Gate;
pub use pick::WORK_PER_OUTPUT_TOKEN;
pub use policy_kind::{PolicyKind, UnknownPolicy};
pub use pool::PoolConfig;
pub use verdict::{Decision, Explanation, Refusal, RefuseReason, RepickReason, Verdict};

#[cfg(test)]
mod tests;
