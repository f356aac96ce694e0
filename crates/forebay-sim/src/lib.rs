//! The simulator: state machines that are told the time and decide nothing by
//! themselves. Pure: no I/O, no clock, no unseeded randomness.
//!
//! [`engine`] is one model server, step by step; [`fleet`] is many of them with
//! gateways before them, fast; [`workload`] is what is sent; [`baselines`] are other
//! routers' rules.

pub mod baselines;
pub mod engine;
pub mod fleet;
pub mod workload;
