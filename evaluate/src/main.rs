//! The evaluation of policies: `cargo xtask evaluate` builds and runs this.

mod cell;
mod runner;
mod scenario;
mod store;
mod traces;

fn main() {}
