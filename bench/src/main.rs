//! What Forebay costs, next to other proxies and the floor, in one run.
//!
//! The stub backend and the load generator share one core, the proxy under
//! test has the other to itself. See `README.md` for what is measured and how.

mod copy;
mod cores;
mod http;
mod load;
mod machine;
mod measure;
mod process;
mod program;
mod report;
mod run;
mod scratch;
mod settings;
mod stub;
mod temp;

use std::process::ExitCode;

use settings::Settings;

const USAGE: &str = "\
usage: forebay-bench run [--quick] [--only MEASURE,...] [--programs NAME,...] [--out FILE.json]
       forebay-bench copy ADDRESS...      a bare byte-copying proxy before these backends

example: forebay-bench run --quick --out bench.json";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = args.iter().map(String::as_str).collect();
    let done = match words.as_slice() {
        ["run", rest @ ..] => Settings::parse(rest).and_then(run::run),
        ["copy", backends @ ..] if !backends.is_empty() => copy::run(backends),
        ["help" | "--help" | "-h"] => {
            println!("{USAGE}");
            Ok(())
        }
        _ => {
            eprintln!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("error: {message}");
            ExitCode::FAILURE
        }
    }
}
