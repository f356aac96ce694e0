//! End-to-end tests: the real gateway between a scripted backend and a raw client.
//!
//! Tests whose names begin with a letter and a number rebuild a failure that
//! users of other gateways have reported; the rest cover what is promised in
//! the documentation. Where a test departs from the report it says so.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    unreachable_pub,
    reason = "test helpers fail by panicking"
)]

mod adapter_names;
mod adapters;
mod address_reuse;
mod cancel;
mod common;
mod compression;
mod connections;
mod decisions;
mod distribution;
mod drain;
mod engine_stops;
mod fleet;
mod framing;
mod hostile;
mod http2;
mod ipv6;
mod kv_events;
mod limits;
mod models;
mod odd_pages;
mod orca;
mod orca_trailers;
mod prefix_index;
mod privacy;
mod request_bodies;
mod rig;
mod rule;
mod settling;
mod sim;
mod stream;
mod timeouts;
mod traffic;
mod upstream;
mod vanish;
mod versions;
mod warm_up;
