//! Every case of `errors.txt`: a file, and exactly what is said about it.
//!
//! `FOREBAY_BLESS=1 cargo test -p forebay-config --test errors` writes what is said now
//! into the file, to be read before it is committed.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test says so by failing")]

use std::fmt::Write;

use forebay_config::parse;

const CASES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/errors.txt");

/// What a case without pools of its own ends with.
const POOL: &str = "pools: [{name: chat, model: tide, endpoints: [{url: \"http://127.0.0.1:8001\"}]}]\n";

struct Case<'a> {
    title: &'a str,
    input: &'a str,
    expected: &'a str,
}

fn read(file: &str) -> (&str, Vec<Case<'_>>) {
    let mut blocks = file.split("\n=== ");
    let preface = blocks.next().unwrap();
    let cases = blocks.map(|block| {
        let (title, rest) = block.split_once('\n').unwrap();
        let (input, expected) = rest.split_once("\n---\n").unwrap_or_else(|| panic!("{title}: no --- line"));
        Case { title, input, expected: expected.trim_end() }
    });
    (preface, cases.collect())
}

fn whole(input: &str) -> String {
    let pools = input.lines().any(|line| line.trim_start_matches('{').starts_with("pools"));
    let input = input.replace("<TAB>", "\t").replace("<NUL>", "\0");
    if pools || input.contains("<ALONE>") { input.replace("<ALONE>", "") } else { format!("{input}\n{POOL}") }
}

fn env(name: &str) -> Option<String> {
    match name {
        "SECRET" => Some("hunter2-hunter2".to_owned()),
        "MODEL" => Some("tide".to_owned()),
        "EMPTY" => Some(String::new()),
        _ => None,
    }
}

fn said(input: &str) -> String {
    match parse("f.yaml", &whole(input), &env) {
        Ok(_) => "ok".to_owned(),
        Err(errors) => errors.to_string().trim_end().to_owned(),
    }
}

#[test]
fn every_case_is_answered_as_written() {
    let file = std::fs::read_to_string(CASES).unwrap();
    let (preface, cases) = read(&file);
    assert!(cases.len() > 60, "only {} cases were found", cases.len());
    if std::env::var_os("FOREBAY_BLESS").is_some() {
        let mut blessed = preface.to_owned();
        for Case { title, input, .. } in &cases {
            write!(blessed, "\n=== {title}\n{input}\n---\n{}\n", said(input)).unwrap();
        }
        std::fs::write(CASES, blessed).unwrap();
        return;
    }
    let mut wrong = String::new();
    for Case { title, input, expected } in &cases {
        let said = said(input);
        assert!(!said.contains("hunter2-hunter2"), "{title}: shows the value of a variable:\n{said}");
        if said != *expected {
            write!(wrong, "\n=== {title}\nexpected:\n{expected}\nsaid:\n{said}\n").unwrap();
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}
