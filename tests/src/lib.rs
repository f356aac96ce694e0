//! The rig of the end-to-end tests: a scripted raw-TCP backend, a raw-TCP
//! client with the same powers, and the real `forebay serve` between them.
//!
//! Neither side uses an HTTP library, because the tests are about exact bytes
//! in exact segments: a character cut in two, a connection that ends in the
//! middle of a chunk, two framing headers. Only the HTTP/2 halves ([`h2`])
//! use hyper, since frames written by hand would prove little.
//!
//! Every wait has a limit and is a wait for a condition. Everything the rig
//! starts ends when its handle is dropped.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "the rig fails a test by panicking, with what it was waiting for"
)]

pub mod backend;
pub mod bodies;
pub mod chunked;
pub mod client;
pub mod config;
pub mod exposition;
pub mod gateway;
pub mod gzip;
pub mod h2;
pub mod http1;
pub mod socket;
pub mod tempdir;
pub mod wait;

/// How long any single wait may take before the test fails.
///
/// Generous on purpose: it only bounds a failing run, and a machine that is
/// busy building is no failure of the gateway.
pub const LIMIT: std::time::Duration = std::time::Duration::from_secs(20);
