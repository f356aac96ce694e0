//! The code map of `docs/ARCHITECTURE.md` names every crate.

use super::Finding;
use super::package::packages;
use super::tree::Tree;

const PAGE: &str = "docs/ARCHITECTURE.md";

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let finding = |message: String| Finding { path: PAGE.to_owned(), line: 0, check: "code map", message };
    let Some(page) = tree.get(PAGE) else {
        return vec![finding("the page is missing".to_owned())];
    };
    let missing = packages(tree)
        .into_iter()
        .filter(|package| !names(page, &package.name) && !names(page, &format!("{}/", package.folder)));
    missing.map(|package| finding(format!("the code map does not name {}", package.name))).collect()
}

/// Whether `page` names the crate itself, not only one whose name is longer.
/// The binary shares its name with the project, so code quotes are asked for.
fn names(page: &str, name: &str) -> bool {
    page.contains(&format!("`{name}`"))
}

#[cfg(test)]
mod tests {
    use super::super::expect_findings;
    use super::*;

    #[test]
    fn unnamed_crates_are_found() {
        let manifests = [
            ("crates/forebay/Cargo.toml", "[package]\nname = \"forebay\"\n"),
            ("crates/forebay-core/Cargo.toml", "[package]\nname = \"forebay-core\"\n"),
            ("tests/Cargo.toml", "[package]\nname = \"forebay-tests\"\n"),
        ];
        let with = |page| [manifests.as_slice(), &[(PAGE, page)]].concat();
        expect_findings(check, &with("`forebay`, `forebay-core`, `tests/`"), &[]);
        expect_findings(check, &with("`forebay-core` and `tests/` of forebay"), &[(PAGE, 0, "name forebay")]);
        expect_findings(check, &manifests, &[(PAGE, 0, "missing")]);
    }
}
