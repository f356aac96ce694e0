//! Every case of `fleet_errors.txt`: a fleet file, and exactly what is said about it.
//!
//! `FOREBAY_BLESS=1 cargo test -p forebay-config --test fleet_errors` writes what is said
//! now into the file, to be read before it is committed.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test says so by failing")]

use std::fmt::Write;

use forebay_config::parse_fleet;

const CASES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fleet_errors.txt");

fn said(input: &str) -> String {
    let whole = if input.contains("version") { input.to_owned() } else { format!("version: 1\n{input}") };
    match parse_fleet("f.yaml", whole.trim_start_matches("<ALONE>"), &["h100-8b", "a100-8b"], &|_| None) {
        Ok(_) => "ok".to_owned(),
        Err(errors) => errors.to_string().trim_end().to_owned(),
    }
}

#[test]
fn every_case_is_answered_as_written() {
    let file = std::fs::read_to_string(CASES).unwrap();
    let (preface, cases) = file.split_once("\n=== ").unwrap();
    let mut blessed = preface.to_owned();
    let mut wrong = String::new();
    let mut count = 0;
    for case in cases.split("\n=== ") {
        let (title, rest) = case.split_once('\n').unwrap();
        let (input, expected) = rest.split_once("\n---\n").unwrap_or_else(|| panic!("{title}: no --- line"));
        let said = said(input);
        if said != expected.trim_end() {
            write!(wrong, "\n=== {title}\nexpected:\n{expected}\nsaid:\n{said}\n").unwrap();
        }
        write!(blessed, "\n=== {title}\n{input}\n---\n{said}\n").unwrap();
        count += 1;
    }
    assert!(count > 25, "only {count} cases were found");
    if std::env::var_os("FOREBAY_BLESS").is_some() {
        std::fs::write(CASES, blessed).unwrap();
        return;
    }
    assert!(wrong.is_empty(), "{wrong}");
}
