//! Drives Gates with the real clock.
//!
//! The one place where a decision's time and randomness come from. Verdicts
//! become futures and [`Ticket`]s; what a ticket holds is released by dropping
//! it, so that no path can forget to. A request that was let go but never
//! settled counts as cancelled.

mod cell;
mod clock;
mod held;
mod live;
mod log;
mod ticket;

pub use clock::Clock;
pub use held::EngineCaches;
pub use live::{EndpointKey, EndpointView, GateDecision, Live, LogCounts};
pub use log::{LogError, LogOptions, ReplayReport, build, replay};
pub use ticket::{Ticket, Waiting};

#[cfg(test)]
mod prefix_tests;
#[cfg(test)]
mod tests;
