//! A crate depends only on crates of lower layers.

use super::Finding;
use super::package::packages;
use super::tree::Tree;

/// The house's layers, lowest first. Crates of one layer do not know each other.
const LAYERS: [&[&str]; 6] = [
    &["forebay-core", "forebay-metrics"],
    &["forebay-wire", "forebay-prefix", "forebay-predict", "forebay-rule", "forebay-guard"],
    &["forebay-gate"],
    &["forebay-config", "forebay-sim", "forebay-live", "forebay-net", "forebay-tokenize"],
    &[
        "forebay-fleet",
        "forebay-proxy",
        "forebay-epp",
        "forebay-ledger",
        "forebay-admin",
        "forebay-engine",
        "forebay-load",
    ],
    &["forebay"],
];

/// Tools and tests: they may use every crate, and no crate may use them.
const OUTSIDE: [&str; 6] =
    ["xtask", "forebay-tests", "forebay-bench", "forebay-evaluate", "forebay-fuzz", "forebay-rivals"];

/// The layer of crate `name`, `None` for one that is not part of the house.
pub(super) fn layer(name: &str) -> Option<usize> {
    LAYERS.iter().position(|layer| layer.contains(&name))
}

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let packages = packages(tree);
    let mut findings = Vec::new();
    let mut report = |path: &str, line, message| {
        findings.push(Finding { path: path.to_owned(), line, check: "layers", message });
    };
    for package in &packages {
        let outside = OUTSIDE.contains(&package.name.as_str());
        let own = layer(&package.name);
        if own.is_none() && !outside {
            report(&package.manifest, 0, format!("{} has no layer: name it in tidy/layers.rs", package.name));
            continue;
        }
        for (name, line) in &package.dependencies {
            if OUTSIDE.contains(&name.as_str()) && !outside {
                let message = format!("{} is part of the house, {name} is not", package.name);
                report(&package.manifest, *line, message);
            }
            if let (Some(own), Some(other)) = (own, layer(name))
                && other >= own
            {
                let message = format!(
                    "{} (layer {own}) must not depend on {name} (layer {other}): only lower layers",
                    package.name
                );
                report(&package.manifest, *line, message);
            }
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::super::expect_findings;
    use super::*;

    fn expect(name: &str, dependencies: &str, expect: &[(usize, &str)]) {
        let text = format!("[package]\nname = \"{name}\"\n[dependencies]\n{dependencies}");
        let expect: Vec<_> = expect.iter().map(|&(line, part)| ("c/Cargo.toml", line, part)).collect();
        expect_findings(check, &[("c/Cargo.toml", &text)], &expect);
    }

    #[test]
    fn only_lower_layers() {
        expect("forebay-gate", "forebay-core.workspace = true\nrand = \"1\"\n", &[]);
        expect("forebay-sim", "forebay-gate.workspace = true\n", &[]);
        expect("forebay-live", "forebay-config.workspace = true\n", &[(4, "layer 3) must not depend")]);
        expect("forebay-core", "forebay-wire = { path = \"../w\" }\n", &[(4, "forebay-wire (layer 1)")]);
        expect(
            "forebay-gate",
            "forebay-core = \"1\"\nforebay-net = \"1\"\nforebay = \"1\"\n",
            &[(5, "forebay-net"), (6, "forebay (layer 5)")],
        );
    }

    #[test]
    fn every_crate_has_a_layer_and_tools_stay_outside() {
        expect("forebay-new", "", &[(0, "no layer")]);
        expect("forebay-tests", "forebay = \"1\"\n", &[]);
        expect("forebay-proxy", "forebay-tests = \"1\"\n", &[(4, "is not")]);
    }
}
