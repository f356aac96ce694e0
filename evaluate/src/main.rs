//! The evaluation of policies: `cargo xtask evaluate` builds and runs this.
#![allow(dead_code)]

mod cell;
mod contenders;
mod context;
mod doc;
mod runner;
mod scenario;
mod sections;
mod stats;
mod store;
mod traces;
mod workloads;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::ExitCode;

use crate::context::Context;
use crate::runner::Runner;
use crate::store::Store;

/// `forebay-evaluate [--quick] [--jobs N] [--cells DIR] [--code HASH] [SECTION…]`
fn main() -> ExitCode {
    match evaluate() {
        Ok(text) => {
            println!("{text}");
            ExitCode::SUCCESS
        }
        Err(message) => {
            eprintln!("error: {message}");
            ExitCode::FAILURE
        }
    }
}

fn evaluate() -> Result<String, String> {
    let (mut quick, mut jobs, mut cells, mut code) = (false, 2, None, String::new());
    let mut wanted: Vec<String> = Vec::new();
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        let mut value = || args.next().ok_or_else(|| format!("{arg} needs a value"));
        match arg.as_str() {
            "--quick" => quick = true,
            "--jobs" => jobs = value()?.parse().map_err(|e| format!("--jobs: {e}"))?,
            "--cells" => cells = Some(PathBuf::from(value()?)),
            "--code" => code = value()?,
            name if sections::ALL.iter().any(|(known, _)| *known == name) => wanted.push(arg),
            other => return Err(format!("no section or option {other}")),
        }
    }
    let runner = Runner::new(Store::open(cells.as_deref(), &code)?, jobs);
    let seeds = if quick { vec![1] } else { vec![1, 2, 3, 4, 5] };
    let context = Context { runner: &runner, quick, seeds, tuned: BTreeMap::new() };
    let mut doc = doc::Doc::new();
    for (name, section) in sections::ALL {
        if wanted.is_empty() || wanted.iter().any(|w| w == name) {
            doc.append(section(&context)?);
        }
    }
    Ok(doc.text().to_owned())
}
