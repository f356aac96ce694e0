//! Pure crates do no I/O, know no async runtime, read no clock, draw no
//! unseeded randomness and have no order that differs between two runs.

use super::Finding;
use super::layers::layer;
use super::package::packages;
use super::rust_text::{has_word, is_test_file, program_only, rust_files};
use super::tree::Tree;

/// Pure crates above layer 2.
const PURE_ABOVE: [&str; 2] = ["forebay-config", "forebay-sim"];

// Addresses of `std::net` are plain data; only its sockets are I/O.
const BANNED: [(&str, &str); 25] = [
    ("tokio", "an async runtime"),
    ("hyper", "I/O"),
    ("TcpStream", "I/O"),
    ("TcpListener", "I/O"),
    ("UdpSocket", "I/O"),
    ("ToSocketAddrs", "I/O"),
    ("std::fs", "I/O"),
    ("std::env", "I/O"),
    ("std::process", "I/O"),
    ("std::thread", "threads"),
    ("Instant", "a clock: take forebay_core::Time as an argument"),
    ("SystemTime", "a clock: take forebay_core::Time as an argument"),
    ("thread_local!", "state that a replay does not have"),
    ("HashMap", "an order that differs between runs"),
    ("HashSet", "an order that differs between runs"),
    ("RandomState", "an order that differs between runs"),
    ("thread_rng", "unseeded randomness"),
    ("rand::rng", "unseeded randomness"),
    ("OsRng", "unseeded randomness"),
    ("SysRng", "unseeded randomness"),
    ("println!", "output"),
    ("print!", "output"),
    ("eprintln!", "output"),
    ("eprint!", "output"),
    ("async", "an async runtime"),
];

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let packages = packages(tree);
    let pure = packages.iter().filter(|package| {
        layer(&package.name).is_some_and(|layer| layer <= 2) || PURE_ABOVE.contains(&package.name.as_str())
    });
    let mut findings = Vec::new();
    for package in pure {
        let folder = format!("{}/src/", package.folder);
        for (path, source) in rust_files(tree) {
            if path.starts_with(&folder) && !is_test_file(path) {
                check_file(path, source, &package.name, &mut findings);
            }
        }
    }
    findings
}

fn check_file(path: &str, source: &str, package: &str, findings: &mut Vec<Finding>) {
    let code = program_only(source);
    let mut report = |line, word: &str, why| {
        let message = format!("{package} is pure, and {word} is {why}");
        findings.push(Finding { path: path.to_owned(), line, check: "purity", message });
    };
    for (at, line) in code.lines().enumerate() {
        for (word, why) in BANNED {
            if has_word(line, word) && !has_own_hasher(&code, at, word) {
                report(at + 1, word, why);
            }
        }
    }
    for (line, module) in grouped_std_modules(&code) {
        let word = format!("std::{module}");
        if let Some((_, why)) = BANNED.iter().find(|(banned, _)| *banned == word) {
            report(line, &word, why);
        }
    }
}

/// Whether line `at` names a hash table with a hasher of its own, under the
/// attribute that clippy asks for with a reason.
fn has_own_hasher(code: &str, at: usize, word: &str) -> bool {
    const ATTRIBUTE_LINES: usize = 5;
    let before = code.lines().skip(at.saturating_sub(ATTRIBUTE_LINES)).take(ATTRIBUTE_LINES.min(at));
    word.starts_with("Hash")
        && code.lines().nth(at).is_some_and(|line| line.contains("BuildHasher"))
        && before.into_iter().any(|line| line.contains("clippy::disallowed_types"))
}

/// Line and name of each module imported as `use std::{a::B, c}`.
fn grouped_std_modules(code: &str) -> Vec<(usize, &str)> {
    let mut found = Vec::new();
    for (at, opening) in code.match_indices("std::{") {
        let mut depth = 1;
        let mut starts_item = true;
        let body = at + opening.len();
        for (i, c) in code[body..].char_indices() {
            match c {
                '{' => depth += 1,
                '}' if depth == 1 => break,
                '}' => depth -= 1,
                ',' if depth == 1 => starts_item = true,
                c if starts_item && !c.is_whitespace() => {
                    starts_item = false;
                    let rest = &code[body + i..];
                    let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
                    found.push((1 + code[..body + i].matches('\n').count(), &rest[..end]));
                }
                _ => {}
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::super::expect_findings;
    use super::*;

    fn expect(package: &str, source: &str, expect: &[(usize, &str)]) {
        let manifest = format!("[package]\nname = \"{package}\"\n");
        let expect: Vec<_> = expect.iter().map(|&(line, part)| ("c/src/lib.rs", line, part)).collect();
        expect_findings(check, &[("c/Cargo.toml", &manifest), ("c/src/lib.rs", source)], &expect);
    }

    #[test]
    fn pure_crates_stay_pure() {
        expect("forebay-gate", "use std::collections::BTreeMap;\n// HashMap is banned\n", &[]);
        expect("forebay-gate", "\nuse std::collections::HashMap;\n", &[(2, "HashMap")]);
        expect("forebay-config", "use std::{fmt, fs::File};\n", &[(1, "std::fs")]);
        expect("forebay-sim", "use std::{\n collections::{a, b},\n thread,\n};\n", &[(3, "std::thread")]);
        expect("forebay-core", "use std::time::{Duration, Instant};\n", &[(1, "a clock")]);
        expect("forebay-wire", "fn f() { println!(\"x\"); }\n", &[(1, "output")]);
        expect("forebay-config", "use std::net::SocketAddr;\n", &[]);
        expect("forebay-config", "use std::net::{IpAddr, TcpStream};\n", &[(1, "TcpStream")]);
        expect("forebay-core", "#[cfg(test)]\nmod tests {\n use std::fs;\n}\n", &[]);
    }

    #[test]
    fn a_hash_table_with_its_own_hasher_needs_a_reason() {
        let table = "type T = std::collections::HashMap<u64, u8, BuildHasherDefault<H>>;\n";
        let reason = "#[expect(\n    clippy::disallowed_types,\n    reason = \"never iterated\"\n)]\n";
        expect("forebay-sim", &format!("{reason}{table}"), &[]);
        expect("forebay-sim", table, &[(1, "HashMap")]);
        expect("forebay-sim", &format!("{reason}type T = HashMap<u64, u8>;\n"), &[(5, "HashMap")]);
    }

    #[test]
    fn drivers_and_shells_may() {
        expect("forebay-net", "use tokio::net::TcpStream;\n", &[]);
    }

    #[test]
    fn tests_and_examples_may() {
        let manifest = "[package]\nname = \"forebay-gate\"\n";
        for path in ["c/src/a/tests.rs", "c/tests/b.rs", "c/examples/c.rs"] {
            let files = [("c/Cargo.toml", manifest), (path, "use std::collections::HashMap;\n")];
            expect_findings(check, &files, &[]);
        }
    }
}
