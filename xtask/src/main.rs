//! The repository's own chores: `cargo xtask tidy`, `gendocs`, `bench` and
//! `evaluate`.

mod bench;
mod evaluate;
mod gendocs;
mod tidy;

use std::process::ExitCode;

const USAGE: &str = "\
usage: cargo xtask COMMAND

  tidy                          check layers, purity, file sizes, links and the like
  gendocs [--check]             write the generated docs anew, or only compare them
  bench [ARGUMENT...]           build in release mode and compare with other proxies
  evaluate [--quick] [--out DIR] [--cells DIR] [--jobs N] [--seeds N] [SECTION...]
                                compare policies in simulation; without options it writes
                                docs/evaluation.md anew and takes an hour or so, in as many
                                sittings as you like

example: cargo xtask bench --quick --out bench.json";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = args.iter().map(String::as_str).collect();
    let done = match words.as_slice() {
        ["tidy"] => tidy::run(),
        ["gendocs"] => gendocs::run(false),
        ["gendocs", "--check"] => gendocs::run(true),
        ["bench", rest @ ..] => bench::run(rest),
        ["evaluate", rest @ ..] => evaluate::run(rest),
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
