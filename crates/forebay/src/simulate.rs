//! `forebay simulate`: policies against a described fleet, in simulated time.

mod args;
mod capacity;
mod execute;
mod fleet;
mod made;
mod near;
mod page;
mod plan;
mod policies;
mod pools;
mod refine;
mod report;
mod rows;
mod stats;
mod table;
mod timeline;
mod trace_file;
mod traffic;
mod written;

use std::io::{ErrorKind, Write};
use std::process::ExitCode;

pub(crate) use args::{SimulateArgs, help};

use crate::cli::Failure;

/// Plays the workload under every policy and reports.
pub(crate) fn run(args: &SimulateArgs) -> Result<ExitCode, Failure> {
    let plan = plan::make(args)?;
    for remark in &plan.remarks {
        eprintln!("{remark}");
    }
    if let Some(directory) = &plan.out {
        written::prepare(directory)?;
    }
    let player = execute::Player::new(&plan);
    let results = execute::all(&player)?;
    let mut report = report::Report::new(&plan, &results);
    report.refine(&plan, refine::rows(&player, &report.rows)?);
    drop(player);
    for warning in report.unreached() {
        eprintln!("{warning}");
    }
    if plan.out.is_some() {
        report.timelines = timeline::all(&plan, &report, &results)?;
    }
    // First, and whether it can be or not: a long run must not have been in vain.
    let printed = print(args, &report);
    if let Some(directory) = &plan.out {
        written::write(&report, directory)?;
        eprintln!("written to {}: report.html, report.json, report.csv", directory.display());
    }
    printed.map(|()| ExitCode::SUCCESS)
}

fn print(args: &SimulateArgs, report: &report::Report) -> Result<(), Failure> {
    let text = if args.json {
        serde_json::to_string(report).map_err(Failure::doing("cannot write the report"))? + "\n"
    } else {
        table::Table(report).to_string()
    };
    match std::io::stdout().write_all(text.as_bytes()) {
        // Whoever read it has enough.
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        other => other.map_err(Failure::doing("cannot print the report")),
    }
}
