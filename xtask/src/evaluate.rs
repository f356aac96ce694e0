//! `cargo xtask evaluate`: builds the evaluation in release mode and runs it.

use std::path::Path;
use std::process::Command;

use crate::tidy::tree::{program, root};

/// Where finished cells are kept.
const CELLS: &str = "target/evaluate";
/// Where the document goes that the repository has.
const DOCS: &str = "docs";

/// What a cell's outcome comes from besides its own inputs: these folders and
/// files.
const SOURCES: [&str; 10] = [
    "Cargo.lock",
    "crates/forebay-core/src",
    "crates/forebay-gate/src",
    "crates/forebay-predict/src",
    "crates/forebay-prefix/src",
    "crates/forebay-sim/src",
    "evaluate/src/cell.rs",
    "evaluate/src/scenario.rs",
    "evaluate/src/traces.rs",
    "traces",
];

/// Runs it with `args`. The full form of everything writes the repository's
/// own document; any other prints, unless told where to.
pub(crate) fn run(args: &[&str]) -> Result<(), String> {
    let root = root()?;
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
    let mut build = Command::new(cargo);
    build.args(["build", "--release", "--locked", "-p", "forebay-evaluate"]).current_dir(&root);
    check(&mut build, "the release build")?;
    // Relative paths mean the caller's directory, so no `current_dir` here.
    let mut command = Command::new(program(&root, "release", "forebay-evaluate"));
    command.args(["--code", &code(&root)?]);
    command.args(["--date", &output(Command::new("date").args(["-u", "+%Y-%m-%d"]))?]);
    command.args(["--commit", &commit(&root)?]);
    if !args.contains(&"--cells") {
        command.arg("--cells").arg(root.join(CELLS));
    }
    if is_whole(args) {
        command.arg("--out").arg(root.join(DOCS));
    }
    check(command.args(args), "the evaluation")
}

/// Whether every section is made in full, and not put elsewhere.
fn is_whole(args: &[&str]) -> bool {
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        match *arg {
            "--jobs" | "--cells" => drop(args.next()),
            _ => return false,
        }
    }
    true
}

fn check(command: &mut Command, what: &str) -> Result<(), String> {
    let status = command.status().map_err(|e| format!("cannot start {what}: {e}"))?;
    if status.success() { Ok(()) } else { Err(format!("{what} failed ({status})")) }
}

fn output(command: &mut Command) -> Result<String, String> {
    let output = command.output().map_err(|e| format!("cannot start {command:?}: {e}"))?;
    if !output.status.success() {
        return Err(format!("{command:?} failed ({})", output.status));
    }
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// The commit, and whether the crates differ from it.
fn commit(root: &Path) -> Result<String, String> {
    let git = |args: &[&str]| output(Command::new("git").args(args).current_dir(root));
    let commit = git(&["rev-parse", "--short", "HEAD"])?;
    let changes = git(&["status", "--porcelain", "--", "crates", "evaluate", "traces", "Cargo.lock"])?;
    Ok(if changes.is_empty() { commit } else { format!("{commit}+changes") })
}

/// A hash of [`SOURCES`] without their tests and comments.
fn code(root: &Path) -> Result<String, String> {
    let mut hash = Fnv::default();
    for source in SOURCES {
        add(root, Path::new(source), &mut hash)?;
    }
    Ok(format!("{:032x}", hash.0))
}

fn add(root: &Path, path: &Path, hash: &mut Fnv) -> Result<(), String> {
    let told = |e: std::io::Error| format!("cannot read {}: {e}", path.display());
    let full = root.join(path);
    if full.is_dir() {
        let entries = std::fs::read_dir(&full).map_err(told)?;
        let mut names: Vec<_> =
            entries.map(|entry| entry.map(|e| e.file_name())).collect::<Result<_, _>>().map_err(told)?;
        names.sort();
        return names.iter().try_for_each(|name| add(root, &path.join(name), hash));
    }
    let name = path.to_string_lossy();
    if name.ends_with(".md") || (name.ends_with(".rs") && name.contains("tests")) {
        return Ok(());
    }
    let bytes = std::fs::read(&full).map_err(told)?;
    hash.bytes(name.as_bytes());
    match name.ends_with(".rs") {
        true => hash.bytes(code_of(&String::from_utf8_lossy(&bytes)).as_bytes()),
        false => hash.bytes(&bytes),
    }
    Ok(())
}

/// A source file without the lines that are comments or empty.
fn code_of(source: &str) -> String {
    let lines = source.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with("//"));
    lines.flat_map(|line| [line, "\n"]).collect()
}

/// FNV-1a with 128 bits.
struct Fnv(u128);

impl Default for Fnv {
    fn default() -> Fnv {
        Fnv(0x6c62_272e_07bb_0142_62b8_2175_6295_c58d)
    }
}

impl Fnv {
    fn bytes(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u128::from(*byte)).wrapping_mul(0x0000_0000_0100_0000_0000_0000_0000_013b);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_whole_writes_the_document() {
        assert!(is_whole(&[]));
        assert!(is_whole(&["--jobs", "3", "--cells", "here"]));
        assert!(!is_whole(&["--quick"]));
        assert!(!is_whole(&["headline"]));
        assert!(!is_whole(&["--jobs", "3", "--out", "there"]));
    }

    #[test]
    fn comments_do_not_change_the_program() {
        let one = code_of("//! What it is.\n\nfn f() {\n    // Why.\n    1\n}\n");
        assert_eq!(one, code_of("fn f() {\n  1\n}\n"));
        assert_ne!(one, code_of("fn f() {\n  2\n}\n"));
    }

    #[test]
    fn the_hash_is_fnv_1a() {
        let mut hash = Fnv::default();
        hash.bytes(b"a");
        assert_eq!(hash.0, 0xd228_cb69_6f1a_8caf_7891_2b70_4e4a_8964);
    }

    #[test]
    fn every_source_is_there() {
        let root = root().unwrap();
        for source in SOURCES {
            assert!(root.join(source).exists(), "{source}");
        }
    }
}
