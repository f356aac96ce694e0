//! Relative links in Markdown files point at something.

use super::Finding;
use super::tree::Tree;

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, text) in tree.ending(".md") {
        for (line, target) in links(text) {
            let Some(file) = file_of(path, target) else { continue };
            if !tree.exists(&file) {
                let message = format!("the link {target} leads nowhere ({file} is not in the repository)");
                findings.push(Finding { path: path.to_owned(), line, check: "links", message });
            }
        }
    }
    findings
}

/// Line and target of each `](target)` and `[name]: target` outside code.
fn links(text: &str) -> Vec<(usize, &str)> {
    let mut found = Vec::new();
    let mut in_fence = false;
    for (at, line) in text.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            in_fence = !in_fence;
            continue;
        }
        if in_fence {
            continue;
        }
        // Odd parts of a line split at backticks are code.
        for part in line.split('`').step_by(2) {
            for (open, mark) in part.match_indices("](") {
                let rest = &part[open + mark.len()..];
                let end = rest.find([')', ' ']).unwrap_or(rest.len());
                found.push((at + 1, &rest[..end]));
            }
        }
        if let Some((name, target)) = line.split_once("]: ")
            && name.starts_with('[')
        {
            found.push((at + 1, target.trim()));
        }
    }
    found
}

/// The file a link of `page` means, `None` when it leaves the repository by a
/// scheme (`https:`) or stays on the page (`#part`).
fn file_of(page: &str, target: &str) -> Option<String> {
    let target = target.trim_matches(['<', '>']);
    let target = target.split('#').next().unwrap_or_default();
    if target.is_empty() || target.starts_with("mailto:") || target.contains("://") {
        return None;
    }
    let folder = page.rsplit_once('/').map_or("", |(folder, _)| folder);
    let mut parts: Vec<&str> = Vec::new();
    for part in folder.split('/').chain(target.split('/')) {
        match part {
            "" | "." => {}
            ".." if parts.last().is_some_and(|last| *last != "..") => {
                parts.pop();
            }
            part => parts.push(part),
        }
    }
    Some(parts.join("/"))
}

#[cfg(test)]
mod tests {
    use super::super::expect_findings;
    use super::*;

    #[test]
    fn dead_links_are_found() {
        let page = "[a](b.md) [c](../README.md#part) [d](https://example.org/x) [e](#here)\n\
            [f](gone.md)\n`[g](code.md)`\n```\n[h](fence.md)\n```\n[i](../crates) [j](../../outside.md)\n\
            [k]: missing.md\n";
        let files = [("docs/a.md", page), ("docs/b.md", ""), ("README.md", ""), ("crates/x/y.rs", "")];
        expect_findings(
            check,
            &files,
            &[("docs/a.md", 2, "gone.md"), ("docs/a.md", 7, "outside.md"), ("docs/a.md", 8, "missing.md")],
        );
    }
}
