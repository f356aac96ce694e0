//! The fleet: which endpoints there are and whether they can be used.
//!
//! This crate is the only writer of endpoint states. For now that means
//! readiness: one loop for each endpoint asks its health path, on a thread of
//! its own, so that neither a slow engine nor a busy worker delays a probe.
//!
//! A busy engine is not a dead one. Probes have long time limits and must fail
//! several times in a row; a real request that succeeds contradicts a probe
//! that fails; and a state only says whether new requests come, it never cuts
//! what is running.

mod fleet;
mod judge;
pub mod kv;
mod membership;
mod probe;
mod schedule;
mod scrape;
mod watch;

pub use fleet::{Fleet, Target};
pub use membership::{Identity, Membership, PageKind, Scraped};
pub use probe::{HttpProbe, Probe, ProbeFailure};
pub use scrape::{ScrapeFailure, ScrapeTarget};
pub use watch::Evidence;
