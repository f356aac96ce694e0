//! `cargo xtask bench`: builds what is compared, then hands over to the harness.

use std::path::Path;
use std::process::Command;

use crate::tidy::tree::{program, root};

/// The harness and every program it starts need two descriptors for each of
/// 1,000 streams; the usual soft limit is 1,024, the hard one far higher.
const WITH_ALL_DESCRIPTORS: &str = "ulimit -Sn \"$(ulimit -Hn)\" && exec \"$@\"";

/// Builds the gateway and the harness as they are put into service and runs the harness
/// with `args`. The comparison's speed never makes this fail; a program that
/// cannot be built or does not answer does.
pub(crate) fn run(args: &[&str]) -> Result<(), String> {
    let root = root()?;
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
    run_in(
        &root,
        Command::new(cargo).args(["build", "--profile", "dist", "-p", "forebay", "-p", "forebay-bench"]),
        "the build",
    )?;
    let harness = program(&root, "dist", "forebay-bench");
    let mut command = Command::new("sh");
    command.args(["-c", WITH_ALL_DESCRIPTORS, "bench"]).arg(harness).arg("run").args(args);
    // Relative paths (`--out`) mean the caller's directory, so no `current_dir` here.
    check(&mut command, "the bench harness")
}

fn run_in(dir: &Path, command: &mut Command, what: &str) -> Result<(), String> {
    check(command.current_dir(dir), what)
}

fn check(command: &mut Command, what: &str) -> Result<(), String> {
    let status = command.status().map_err(|e| format!("cannot start {what}: {e}"))?;
    if status.success() { Ok(()) } else { Err(format!("{what} failed ({status})")) }
}
