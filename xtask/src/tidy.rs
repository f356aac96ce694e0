//! `cargo xtask tidy`: the rules of the house that no compiler checks.
//!
//! Every check is a pure function from the [`Tree`] of tracked files to a list
//! of [`Finding`]s, so that its tests need no disk.

mod code_map;
mod examples;
mod layers;
mod links;
mod manifest;
mod markers;
mod package;
mod purity;
mod rust_text;
mod sizes;
pub(crate) mod tree;
mod words;

use std::fmt;

use tree::Tree;

/// One broken rule: where, which check saw it, and what to do about it.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Finding {
    /// Path relative to the repository's root.
    pub(crate) path: String,
    /// First line is 1; 0 means the file as a whole.
    pub(crate) line: usize,
    pub(crate) check: &'static str,
    pub(crate) message: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.path)?;
        if self.line > 0 {
            write!(f, ":{}", self.line)?;
        }
        write!(f, ": [{}] {}", self.check, self.message)
    }
}

type Check = fn(&Tree) -> Vec<Finding>;

const CHECKS: [Check; 9] = [
    layers::check,
    purity::check,
    sizes::check,
    markers::check,
    examples::check,
    links::check,
    words::check,
    manifest::check,
    code_map::check,
];

/// Runs every check on the files git knows or would add. The error says how
/// many rules are broken; each is printed before.
pub(crate) fn run() -> Result<(), String> {
    let tree = Tree::load(&tree::root()?)?;
    let mut findings: Vec<Finding> = CHECKS.iter().flat_map(|check| check(&tree)).collect();
    findings.sort();
    for finding in &findings {
        eprintln!("{finding}");
    }
    let sizes = sizes::Distribution::of(&tree);
    println!("{sizes}");
    for warning in sizes.warnings() {
        eprintln!("warning: {warning}");
    }
    if findings.is_empty() {
        println!("tidy: {} files, all in order", tree.files().len());
        Ok(())
    } else {
        Err(format!("tidy: {} broken rules", findings.len()))
    }
}

/// Runs `check` on an in-memory tree and compares `path:line` and a part of
/// the message of each finding with `expect`.
#[cfg(test)]
fn expect_findings(check: Check, files: &[(&str, &str)], expect: &[(&str, usize, &str)]) {
    let mut found = check(&Tree::from_files(files));
    found.sort();
    let shown = found.iter().map(Finding::to_string).collect::<Vec<_>>().join("\n");
    assert_eq!(found.len(), expect.len(), "findings:\n{shown}");
    for (finding, (path, line, part)) in found.iter().zip(expect) {
        assert_eq!((finding.path.as_str(), finding.line), (*path, *line), "findings:\n{shown}");
        assert!(finding.message.contains(part), "{part:?} is not in:\n{shown}");
    }
}
