//! The evaluation of policies: `cargo xtask evaluate` builds and runs this.

mod args;
mod capacity;
mod cell;
mod contenders;
mod context;
mod doc;
mod plot;
mod progress;
mod report;
mod runner;
mod scenario;
mod sections;
mod stats;
mod store;
mod sweep;
mod traces;
mod tune;
mod workloads;

use std::process::ExitCode;

use crate::args::Args;
use crate::context::Context;
use crate::runner::Runner;
use crate::store::Store;

/// `forebay-evaluate [--quick] [--seeds N] [--jobs N] [--cells DIR] [--out DIR]
/// [--code HASH] [--date DAY] [--commit COMMIT] [SECTION…]`
fn main() -> ExitCode {
    match Args::parse(std::env::args().skip(1)).and_then(|args| evaluate(&args)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("error: {message}");
            ExitCode::FAILURE
        }
    }
}

fn evaluate(args: &Args) -> Result<(), String> {
    let runner = Runner::new(Store::open(args.cells.as_deref(), &args.code)?, args.jobs, args.quick);
    // First, whatever was asked for: all sections compare with the tuned.
    let tuning = tune::tune(&runner, args.quick)?;
    let seeds: Vec<u64> = if args.quick { vec![1] } else { (1..=args.seeds).collect() };
    let mut context = Context { runner: &runner, quick: args.quick, seeds, tuned: tuning.tuned };
    let all = context.seeds.clone();
    let mut rest = tuning.doc;
    let mut doc = report::front(&context, args);
    for (name, section) in sections::ALL.iter().filter(|(name, _)| args.wants(name)) {
        context.seeds.clone_from(&all);
        if *name != sections::HEADLINE {
            context.seeds.truncate(Args::FURTHER_SEEDS);
        }
        rest.append(section(&context)?);
        context.seeds.clone_from(&all);
        doc = report::front(&context, args);
        doc.append(rest.clone());
        // What is there is worth reading before the last section is done.
        if let Some(dir) = &args.out {
            report::write(dir, &doc)?;
        }
    }
    eprintln!("{} cells, {} of them run now", runner.asked(), runner.ran());
    if args.out.is_none() {
        println!("{}", doc.text());
    }
    Ok(())
}
