//! No stubs, no notes to self, no debug prints.

use super::Finding;
use super::rust_text::{code_only, has_word, lines_with, rust_files};
use super::tree::Tree;

const MACROS: [&str; 3] = ["todo!", "unimplemented!", "dbg!"];
// Split, so that this file passes its own check.
const NOTES: [&str; 3] = [concat!("TO", "DO"), concat!("FIX", "ME"), concat!("XX", "X")];

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut report = |path: &str, line, word: &str| {
        let message = format!("{word}: finish it or take it out");
        findings.push(Finding { path: path.to_owned(), line, check: "markers", message });
    };
    for (path, source) in rust_files(tree) {
        let code = code_only(source);
        for word in MACROS {
            lines_with(&code, word).into_iter().for_each(|line| report(path, line, word));
        }
    }
    for (path, text) in tree.files() {
        for (at, line) in text.lines().enumerate() {
            for word in NOTES.into_iter().filter(|word| has_word(line, word)) {
                report(path, at + 1, word);
            }
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::super::expect_findings;
    use super::*;

    #[test]
    fn stubs_and_notes_are_found() {
        let note = format!("# {}: later\nmktemp /tmp/a.XXXXXX\n", NOTES[0]);
        let files = [
            ("a.rs", "fn f() {\n    todo!()\n}\n// todo!() in words is fine\n"),
            ("b.rs", "fn f(x: u8) -> u8 { dbg!(x) }\n"),
            ("c.sh", note.as_str()),
            ("d.md", "A method of the todo list\n"),
        ];
        expect_findings(check, &files, &[("a.rs", 2, "todo!"), ("b.rs", 1, "dbg!"), ("c.sh", 1, NOTES[0])]);
    }
}
