//! The fleet: which endpoints there are, whether they can be used, and what
//! they tell of themselves.
//!
//! This crate is the only writer of endpoint states and of reports. For each
//! endpoint one loop asks its health path and another its load and its models,
//! on a thread of their own, so that neither a slow engine nor a busy worker
//! delays them.
//!
//! A busy engine is not a dead one. Probes have long time limits and must fail
//! several times in a row; a real request that succeeds contradicts a probe
//! that fails; and a state only says whether new requests come, it never cuts
//! what is running.

mod fleet;
mod judge;
mod key;
pub mod kv;
mod membership;
mod probe;
mod schedule;
mod scrape;
mod warm_up;
mod watch;

pub use fleet::{Fleet, Target};
pub use membership::{Identity, Membership, PageKind, Scraped};
pub use probe::{HttpProbe, Probe, ProbeFailure};
pub use scrape::{ScrapeFailure, ScrapeTarget};
pub use warm_up::{WarmUpEnd, WarmUpPlan, WarmUps};
pub use watch::Evidence;
