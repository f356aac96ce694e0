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

pub use facts::{EndpointFacts, EndpointState, Priority, RequestFacts};
pub use id::{EndpointId, ModelId, PoolId, TicketId};
pub use outcome::{EndKind, Failure, Outcome, Usage};
pub use report::LoadReport;
pub use time::Time;
