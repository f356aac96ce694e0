//! What the default policy is held to, on live simulated engines behind the
//! real gateway: beside other policies, with engines that are slow, with one
//! that comes back empty, and with one that was cut off.
//!
//! These are ratios of behaviour in engine time, which a debug build or a busy
//! machine distorts, and they take five minutes, so they are not among the
//! quick tests:
//!
//! ```sh
//! cargo test --release -p forebay-tests --test routing -- --ignored --nocapture
//! ```
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    unreachable_pub,
    reason = "test helpers fail by panicking"
)]

#[path = "../e2e/common.rs"]
#[expect(dead_code, reason = "shared with the quick tests")]
mod common;
mod demo;
mod faults;
mod fleet;
mod groups;
#[path = "../e2e/sim.rs"]
#[expect(dead_code, reason = "shared with the quick tests")]
mod sim;
mod table;
#[path = "../e2e/traffic.rs"]
#[expect(dead_code, reason = "shared with the quick tests")]
mod traffic;
