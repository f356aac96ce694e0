//! forebay-net

pub mod client;
