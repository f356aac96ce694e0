//! End-to-end tests: the real gateway between a scripted backend and a raw client.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    unreachable_pub,
    reason = "test helpers fail by panicking"
)]

mod rig;
