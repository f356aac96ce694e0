//! Drives Gates with the real clock.
//!
//! The one place where a decision's time and randomness come from. Verdicts
//! become futures and [`Ticket`]s; what a ticket holds is released by dropping
//! it, so that no path can forget to. A request that was let go but never
//! settled counts as cancelled.

mod clock;
mod decisions;
mod live;
mod ticket;

pub use clock::Clock;
pub use decisions::DecisionRecord;
pub use live::{EndpointKey, EndpointView, Live, PoolView};
pub use ticket::{Ticket, Waiting};

#[cfg(test)]
mod tests;
