//! The files that the checks read, in memory.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Text of every tracked file by its path from the repository's root. Files
/// that are not UTF-8 are kept with empty text: only their names matter.
#[derive(Debug, Default)]
pub(crate) struct Tree {
    files: BTreeMap<String, String>,
}

impl Tree {
    /// Reads what git tracks, and new files that are not ignored, under `root`.
    pub(crate) fn load(root: &Path) -> Result<Tree, String> {
        let output = Command::new("git")
            .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
            .current_dir(root)
            .output()
            .map_err(|e| format!("cannot start git: {e}"))?;
        if !output.status.success() {
            return Err(format!("git ls-files: {}", String::from_utf8_lossy(&output.stderr).trim()));
        }
        let names = String::from_utf8(output.stdout).map_err(|e| format!("a file name: {e}"))?;
        let mut files = BTreeMap::new();
        for name in names.split('\0').filter(|name| !name.is_empty()) {
            // Deleted but not yet committed files are still listed: skip them.
            if let Ok(bytes) = std::fs::read(root.join(name)) {
                files.insert(name.to_owned(), String::from_utf8(bytes).unwrap_or_default());
            }
        }
        Ok(Tree { files })
    }

    #[cfg(test)]
    pub(crate) fn from_files(files: &[(&str, &str)]) -> Tree {
        Tree { files: files.iter().map(|&(path, text)| (path.to_owned(), text.to_owned())).collect() }
    }

    pub(crate) fn files(&self) -> &BTreeMap<String, String> {
        &self.files
    }

    pub(crate) fn get(&self, path: &str) -> Option<&str> {
        self.files.get(path).map(String::as_str)
    }

    /// Whether `path` is a file, or a folder with files in it.
    pub(crate) fn exists(&self, path: &str) -> bool {
        let folder = format!("{path}/");
        path.is_empty()
            || self.files.contains_key(path)
            || self.files.range(folder.clone()..).next().is_some_and(|(name, _)| name.starts_with(&folder))
    }

    /// Path and text of the files whose name ends in `suffix`.
    pub(crate) fn ending<'a>(&'a self, suffix: &'a str) -> impl Iterator<Item = (&'a str, &'a str)> {
        let all = self.files.iter().map(|(path, text)| (path.as_str(), text.as_str()));
        all.filter(move |(path, _)| path.ends_with(suffix))
    }
}

/// The repository's root: the parent of this crate's folder.
pub(crate) fn root() -> Result<PathBuf, String> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().map(Path::to_path_buf).ok_or_else(|| format!("{} has no parent", here.display()))
}

/// Where cargo puts the programs of a profile: as it does itself, under
/// `CARGO_TARGET_DIR` where that is set.
pub(crate) fn program(root: &Path, profile: &str, name: &str) -> PathBuf {
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| "target".into(), PathBuf::from);
    root.join(target).join(profile).join(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn knows_files_and_folders() {
        let tree = Tree::from_files(&[("docs/a.md", ""), ("docs-old/b.md", "")]);
        for (path, expect) in
            [("docs/a.md", true), ("docs", true), ("docs-ol", false), ("doc", false), ("", true)]
        {
            assert_eq!(tree.exists(path), expect, "{path}");
        }
        assert_eq!(tree.ending(".md").count(), 2);
    }
}
