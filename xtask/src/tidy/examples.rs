//! Every example configuration is loaded by a test.

use super::Finding;
use super::rust_text::{is_test_file, rust_files};
use super::tree::Tree;

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let tests: Vec<&str> = rust_files(tree)
        .filter(|(path, text)| is_test_file(path) || text.contains("#[test]"))
        .map(|(_, text)| text)
        .collect();
    // A test that reads the whole folder covers every file in it.
    if tests.iter().any(|text| loads_folder(text)) {
        return Vec::new();
    }
    let examples = tree.ending(".yaml").filter(|(path, _)| path.starts_with("examples/"));
    let missed = examples.filter(|(path, _)| !tests.iter().any(|text| text.contains(path)));
    missed
        .map(|(path, _)| Finding {
            path: path.to_owned(),
            line: 0,
            check: "examples",
            message: "no test loads this example".to_owned(),
        })
        .collect()
}

fn loads_folder(text: &str) -> bool {
    text.contains("read_dir")
        && ["/examples\"", "\"examples\"", "/examples/\""].iter().any(|s| text.contains(s))
}

#[cfg(test)]
mod tests {
    use super::super::expect_findings;
    use super::*;

    #[test]
    fn unloaded_examples_are_found() {
        let named = "load(\"examples/a.yaml\");";
        let files = [("examples/a.yaml", ""), ("examples/b.yaml", ""), ("crates/c/tests/t.rs", named)];
        expect_findings(check, &files, &[("examples/b.yaml", 0, "no test")]);
        // A name in the program itself is no test.
        let files = [("examples/a.yaml", ""), ("crates/c/src/lib.rs", named)];
        expect_findings(check, &files, &[("examples/a.yaml", 0, "no test")]);
    }

    #[test]
    fn a_test_that_reads_the_folder_covers_all() {
        let folder = ["read_", "dir(root.join(\"exam", "ples\"))"].concat();
        let files = [("examples/a.yaml", ""), ("crates/c/src/tests.rs", folder.as_str())];
        expect_findings(check, &files, &[]);
    }
}
