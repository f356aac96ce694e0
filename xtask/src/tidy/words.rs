//! Nothing in the repository depends on the machine it was written on.

use super::Finding;
use super::tree::Tree;

// Split, so that this file passes its own check.
const PATHS: [&str; 2] = [concat!("/wo", "rk/"), concat!("/ro", "ot/")];
const REGISTRIES: [&str; 7] = [
    concat!("crates", ".io"),
    concat!("py", "pi.org"),
    concat!("python", "hosted.org"),
    concat!("npm", "js.org"),
    concat!("npm", "js.com"),
    concat!("debian", ".org"),
    concat!("proxy.golang", ".org"),
];
/// Lock files are written by package managers, which name their registry.
const LOCK_FILES: [&str; 2] = ["Cargo.lock", "package-lock.json"];

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, text) in tree.files() {
        let name = path.rsplit('/').next().unwrap_or(path);
        let registries: &[&str] = if LOCK_FILES.contains(&name) { &[] } else { &REGISTRIES };
        for (at, line) in text.lines().enumerate() {
            let paths = PATHS.iter().filter(|word| starts_a_path(line, word));
            for word in paths.chain(registries.iter().filter(|word| line.contains(**word))) {
                let message = format!("{word} is a name of one machine: use a relative one");
                findings.push(Finding { path: path.clone(), line: at + 1, check: "words", message });
            }
        }
    }
    findings
}

/// Whether `word` stands where an absolute path begins, and not inside a
/// longer path or a URL.
fn starts_a_path(line: &str, word: &str) -> bool {
    line.match_indices(word).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        !before.is_some_and(|c| c.is_alphanumeric() || "._-/}$".contains(c))
    })
}

#[cfg(test)]
mod tests {
    use super::super::expect_findings;
    use super::*;

    #[test]
    fn names_of_one_machine_are_found() {
        let (path, registry) = (PATHS[0], REGISTRIES[0]);
        let script = format!("cd {path}main\ncd net{path}x\nopen http://host{path}x\n");
        let page = format!("see https://{registry}/x\n");
        let lock = format!("source = \"https://github.com/x/{registry}-index\"\n");
        let files = [("a.sh", script.as_str()), ("b.md", &page), ("Cargo.lock", &lock)];
        expect_findings(check, &files, &[("a.sh", 1, path), ("b.md", 1, registry)]);
    }
}
