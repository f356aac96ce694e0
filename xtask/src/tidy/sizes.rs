//! Small files: one idea each.

use std::fmt;

use super::Finding;
use super::rust_text::{is_test_file, rust_files};
use super::tree::Tree;

/// No file outside tests may be longer.
const LARGEST: usize = 600;
/// Nine files of ten stay under this.
const LARGE: usize = 400;
const SHARE_BELOW_LARGE: f64 = 0.9;
/// The aim is about 150; above this the aim is missed.
const LARGEST_MEDIAN: usize = 200;

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let long = sizes(tree).filter(|(_, lines)| *lines > LARGEST);
    long.map(|(path, lines)| Finding {
        path: path.to_owned(),
        line: 0,
        check: "sizes",
        message: format!("{lines} lines, {LARGEST} at most: does it still hold one idea?"),
    })
    .collect()
}

fn sizes(tree: &Tree) -> impl Iterator<Item = (&str, usize)> {
    let files = rust_files(tree).filter(|(path, _)| !is_test_file(path));
    files.map(|(path, text)| (path, text.lines().count()))
}

/// How long the Rust files outside tests are.
#[derive(Debug, PartialEq)]
pub(super) struct Distribution {
    files: usize,
    median: usize,
    largest: usize,
    /// Share of the files under [`LARGE`] lines, 0 to 1.
    below_large: f64,
}

impl Distribution {
    pub(super) fn of(tree: &Tree) -> Distribution {
        let mut lines: Vec<usize> = sizes(tree).map(|(_, lines)| lines).collect();
        lines.sort_unstable();
        let below = lines.iter().filter(|&&n| n < LARGE).count();
        Distribution {
            files: lines.len(),
            median: lines.get(lines.len() / 2).copied().unwrap_or(0),
            largest: lines.last().copied().unwrap_or(0),
            below_large: if lines.is_empty() { 1.0 } else { below as f64 / lines.len() as f64 },
        }
    }

    /// The softer rules that are broken.
    pub(super) fn warnings(&self) -> Vec<String> {
        let mut warnings = Vec::new();
        if self.median > LARGEST_MEDIAN {
            warnings.push(format!("the median file has {} lines; the aim is about 150", self.median));
        }
        if self.below_large < SHARE_BELOW_LARGE {
            let share = 100.0 * self.below_large;
            warnings.push(format!("{share:.0} % of the files are under {LARGE} lines; the aim is 90 %"));
        }
        warnings
    }
}

impl fmt::Display for Distribution {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "sizes: {} Rust files outside tests, median {} lines, {:.0} % under {LARGE}, largest {}",
            self.files,
            self.median,
            100.0 * self.below_large,
            self.largest
        )
    }
}

#[cfg(test)]
mod tests {
    use super::super::expect_findings;
    use super::*;

    #[test]
    fn long_files_are_found_outside_tests() {
        let (fits, long) = ("\n".repeat(600), "\n".repeat(601));
        let files = [("a.rs", fits.as_str()), ("b.rs", &long), ("c/tests.rs", &long), ("d.md", &long)];
        expect_findings(check, &files, &[("b.rs", 0, "601 lines")]);
    }

    #[test]
    fn the_distribution_warns() {
        let (small, large) = ("\n".repeat(100), "\n".repeat(500));
        let good = Distribution::of(&Tree::from_files(&[("a.rs", &small)]));
        assert_eq!(good, Distribution { files: 1, median: 100, largest: 100, below_large: 1.0 });
        assert!(good.warnings().is_empty());
        let bad = Distribution::of(&Tree::from_files(&[("a.rs", &small), ("b.rs", &large)]));
        assert_eq!(bad.warnings().len(), 2, "{:?}", bad.warnings());
        assert!(Distribution::of(&Tree::default()).warnings().is_empty());
    }
}
