//! Names the build for the decision log: a hash of everything that decides.
//! Of the files themselves and not of a commit, since a checkout may have
//! changes of its own, and one that was unpacked from an archive has no commit.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs, io};

/// What decides, and what gives the entries their form.
const DECIDES: [&str; 7] = [
    "crates/forebay-core/src",
    "crates/forebay-predict/src",
    "crates/forebay-gate/src",
    "crates/forebay-live/src/log.rs",
    "crates/forebay-live/src/cell.rs",
    "Cargo.toml",
    "Cargo.lock",
];

fn main() -> io::Result<()> {
    let root = Path::new(&env::var("CARGO_MANIFEST_DIR").unwrap_or_default()).join("../..");
    let mut hash = Fnv(0xcbf2_9ce4_8422_2325);
    for part in DECIDES {
        let path = root.join(part);
        if !path.exists() {
            continue;
        }
        println!("cargo::rerun-if-changed={}", path.display());
        let mut files = Vec::new();
        list(&path, &mut files)?;
        files.sort();
        for file in files {
            hash.add(file.strip_prefix(&root).unwrap_or(&file).to_string_lossy().as_bytes());
            hash.add(&fs::read(&file)?);
        }
    }
    // The same sources can come out otherwise by another compiler, or with other flags.
    let compiler = env::var_os("RUSTC").and_then(|rustc| Command::new(rustc).arg("-vV").output().ok());
    hash.add(&compiler.map(|output| output.stdout).unwrap_or_default());
    let target = env::var("TARGET").unwrap_or_default();
    for text in [&target, &env::var("CARGO_ENCODED_RUSTFLAGS").unwrap_or_default()] {
        hash.add(text.as_bytes());
    }
    println!("cargo::rustc-env=FOREBAY_BUILD={target} {:016x}", hash.0);
    Ok(())
}

/// Every file at or below a path.
fn list(path: &Path, files: &mut Vec<PathBuf>) -> io::Result<()> {
    if !path.is_dir() {
        files.push(path.to_owned());
        return Ok(());
    }
    for entry in fs::read_dir(path)? {
        list(&entry?.path(), files)?;
    }
    Ok(())
}

/// FNV-1a, each part with its length: not against an adversary.
struct Fnv(u64);

impl Fnv {
    fn add(&mut self, part: &[u8]) {
        for byte in (part.len() as u64).to_le_bytes().iter().chain(part) {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
    }
}
