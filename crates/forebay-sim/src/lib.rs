//! The simulator: state machines that are told the time and decide nothing by
//! themselves. Pure: no I/O, no clock, no unseeded randomness.

pub mod engine;
