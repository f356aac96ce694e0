//! Every crate says what it is and takes the workspace's lints and licence.

use super::Finding;
use super::package::packages;
use super::tree::Tree;

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for package in packages(tree) {
        let mut report = |path: &str, message: &str| {
            let (path, message) = (path.to_owned(), message.to_owned());
            findings.push(Finding { path, line: 0, check: "manifest", message });
        };
        if !package.has_license {
            report(&package.manifest, "no `license.workspace = true`");
        }
        if !package.has_workspace_lints && !package.is_own_workspace {
            report(&package.manifest, "no `[lints] workspace = true`");
        }
        let prefix = if package.folder.is_empty() { String::new() } else { format!("{}/", package.folder) };
        let roots = ["src/lib.rs", "src/main.rs"].map(|file| format!("{prefix}{file}"));
        let found: Vec<(&String, &str)> =
            roots.iter().filter_map(|path| tree.get(path).map(|text| (path, text))).collect();
        for (path, text) in &found {
            if !text.lines().find(|line| !line.trim().is_empty()).is_some_and(|line| line.starts_with("//!"))
            {
                report(path, "no crate-level doc comment: begin with `//! …`");
            }
        }
        if found.is_empty() && !package.is_own_workspace {
            report(&package.manifest, "neither src/lib.rs nor src/main.rs");
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::super::expect_findings;
    use super::*;

    #[test]
    fn incomplete_crates_are_found() {
        let whole = "[package]\nname = \"a\"\nlicense.workspace = true\n[lints]\nworkspace = true\n";
        let bare = "[package]\nname = \"b\"\n";
        let fuzz = "[package]\nname = \"f\"\nlicense = \"Apache-2.0\"\n[workspace]\n";
        let files = [
            ("a/Cargo.toml", whole),
            ("a/src/lib.rs", "\n//! What a is.\n"),
            ("b/Cargo.toml", bare),
            ("b/src/main.rs", "fn main() {}\n"),
            ("c/Cargo.toml", whole),
            ("fuzz/Cargo.toml", fuzz),
        ];
        expect_findings(
            check,
            &files,
            &[
                ("b/Cargo.toml", 0, "lints"),
                ("b/Cargo.toml", 0, "license"),
                ("b/src/main.rs", 0, "doc comment"),
                ("c/Cargo.toml", 0, "neither"),
            ],
        );
    }
}
