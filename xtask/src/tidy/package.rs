//! A plain reading of the workspace's `Cargo.toml` files: enough for names,
//! dependencies and a few settings, without a TOML parser.

use super::tree::Tree;

/// One crate of this repository.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Package {
    pub(crate) name: String,
    /// Path of its `Cargo.toml`.
    pub(crate) manifest: String,
    /// Folder of the crate without a slash at the end; empty for the root.
    pub(crate) folder: String,
    /// Name and line of each dependency that the built crate has. Test-only
    /// ones are left out: they are not part of the house.
    pub(crate) dependencies: Vec<(String, usize)>,
    pub(crate) has_license: bool,
    pub(crate) has_workspace_lints: bool,
    /// The crate is the root of a workspace of its own, so it cannot inherit.
    pub(crate) is_own_workspace: bool,
}

/// Every crate in the tree, by path.
pub(crate) fn packages(tree: &Tree) -> Vec<Package> {
    let manifests = tree.ending("Cargo.toml").filter(|(path, _)| is_manifest(path));
    manifests.map(|(path, text)| read(path, text)).filter(|package| !package.name.is_empty()).collect()
}

fn is_manifest(path: &str) -> bool {
    path == "Cargo.toml" || path.ends_with("/Cargo.toml")
}

fn read(path: &str, text: &str) -> Package {
    let folder = path.strip_suffix("Cargo.toml").unwrap_or_default().trim_end_matches('/');
    let mut package = Package { manifest: path.to_owned(), folder: folder.to_owned(), ..Package::default() };
    let mut section = String::new();
    for (at, line) in text.lines().enumerate() {
        let line = line.split('#').next().unwrap_or_default().trim();
        if let Some(header) = line.strip_prefix('[') {
            section = header.trim_matches(['[', ']']).trim().to_owned();
            package.is_own_workspace |= section == "workspace";
            if let Some((kind, name)) = section.rsplit_once('.')
                && is_dependency_section(kind)
            {
                package.dependencies.push((name.trim_matches('"').to_owned(), at + 1));
            }
            continue;
        }
        let Some((key, value)) = line.split_once('=') else { continue };
        let (key, value) = (key.trim(), value.trim());
        match section.as_str() {
            "package" if key == "name" => package.name = value.trim_matches('"').to_owned(),
            "package" if key == "license" || key == "license.workspace" => package.has_license = true,
            "lints" if key == "workspace" => package.has_workspace_lints = value == "true",
            kind if is_dependency_section(kind) => {
                let name = key.split('.').next().unwrap_or_default().trim_matches('"');
                package.dependencies.push((name.to_owned(), at + 1));
            }
            _ => {}
        }
    }
    package
}

/// `dependencies`, `build-dependencies` and their `target.….` forms, but not
/// `dev-dependencies` and not the versions fixed in the workspace's root.
fn is_dependency_section(section: &str) -> bool {
    let last = section.rsplit('.').next().unwrap_or_default();
    (last == "dependencies" || last == "build-dependencies") && !section.starts_with("workspace.")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_names_and_dependencies() {
        let text = "[package]\nname = \"a\" # the name\nlicense.workspace = true\n[lints]\nworkspace = true\n\
            [dependencies]\nb.workspace = true\n\"c\" = { path = \"x\" }\n\
            [dev-dependencies]\nd = \"1\"\n[build-dependencies]\ne = \"1\"\n\
            [dependencies.f]\nversion = \"1\"\n[target.'cfg(unix)'.dependencies]\ng = \"1\"\n";
        let tree = Tree::from_files(&[
            ("crates/a/Cargo.toml", text),
            ("Cargo.toml", "[workspace]\n[workspace.dependencies]\nb = \"1\"\n"),
            ("docs/NotCargo.toml", "[package]\nname = \"x\"\n"),
        ]);
        let found = packages(&tree);
        assert_eq!(found.len(), 1, "{found:?}");
        let names: Vec<&str> = found[0].dependencies.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["b", "c", "e", "f", "g"]);
        assert_eq!(found[0].dependencies[0].1, 7);
        assert_eq!((found[0].name.as_str(), found[0].folder.as_str()), ("a", "crates/a"));
        assert!(found[0].has_license && found[0].has_workspace_lints && !found[0].is_own_workspace);
    }
}
