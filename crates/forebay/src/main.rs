//! Forebay: a load balancer for AI inference.
//!
//! One module per subcommand; `gateway` wires the shells together.

use std::process::ExitCode;

use clap::Parser;

mod candidates;
mod check;
mod cli;
mod control;
mod decisions;
mod demo;
mod engine;
mod files;
mod gateway;
mod kv;
mod listening;
mod logging;
mod members;
mod pools;
mod prefix_snapshot;
mod replay;
mod schema;
mod screen;
mod serve;
mod signals;
mod signals_table;
mod simulate;
mod status;
mod tokenizers;
mod warming;

fn main() -> ExitCode {
    let cli = cli::Cli::parse();
    let result = match cli.command {
        cli::Command::Serve(options) => serve::run(&options),
        cli::Command::Check(options) => check::run(&options),
        cli::Command::Schema(options) => schema::run(&options),
        cli::Command::Engine(options) => engine::run(options),
        cli::Command::Demo(options) => demo::run(options),
        cli::Command::Replay(options) => replay::run(options),
        cli::Command::Decisions(options) => decisions::run(&options),
        cli::Command::Simulate(options) => simulate::run(&options),
    };
    match result {
        Ok(code) => code,
        Err(failure) => {
            eprintln!("forebay: {failure}");
            failure.code()
        }
    }
}
