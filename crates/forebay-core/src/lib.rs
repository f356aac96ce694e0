//! The vocabulary of Forebay: ids, time, units and the plain facts that the
//! other crates exchange.
//!
//! Nothing here does I/O, reads a clock or draws randomness. Every type is
//! small, owned and cheap to copy, because most of them cross the Gate's lock.

mod facts;
mod id;
mod outcome;
mod report;
mod time;

pub use facts::{
    CandidateCost, EndpointFacts, EndpointState, Prefix, PrefixMatch, Priority, RequestFacts, Slo,
};
pub use id::{EndpointId, ModelId, PoolId, TenantId, TicketId, VersionId};
pub use outcome::{EndKind, Failure, Outcome, Usage};
pub use report::{CUSTOM_SIGNALS, LoadReport, OrcaLoad};
pub use time::Time;
