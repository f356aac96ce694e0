//! Every file under `examples/` is read, and means what it says.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test says so by failing")]

use std::collections::BTreeSet;
use std::path::PathBuf;

use forebay_config::{Config, Host, PolicyKind, Protocol, parse_str, warnings};

fn directory() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../examples")
}

fn example(name: &str) -> Config {
    let text = std::fs::read_to_string(directory().join(name)).unwrap();
    parse_str(name, &text).unwrap_or_else(|errors| panic!("{errors}"))
}

#[test]
fn every_example_is_read_without_a_warning() {
    let mut names = BTreeSet::new();
    for entry in std::fs::read_dir(directory()).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        if name.ends_with(".yaml") {
            assert_eq!(warnings(&example(&name)), [], "{name}");
            names.insert(name);
        }
    }
    for name in ["minimal.yaml", "reference.yaml", "two-models.yaml", "h2c.yaml", "ipv6.yaml"] {
        assert!(names.contains(name), "{name} is not there");
    }
}

#[test]
fn minimal_has_two_endpoints_and_defaults() {
    let config = example("minimal.yaml");
    assert_eq!(config.pools.len(), 1);
    assert_eq!(config.pools[0].policy, PolicyKind::LeastWork);
    let names: Vec<_> = config.pools[0].endpoints.iter().map(|endpoint| endpoint.name.as_str()).collect();
    assert_eq!(names, ["http://127.0.0.1:8001", "http://127.0.0.1:8002"]);
    assert_eq!(Config { pools: Vec::new(), ..config }, Config::default());
}

#[test]
fn two_models_splits_by_weight_and_overrides_one_timeout() {
    let config = example("two-models.yaml");
    assert_eq!(config.models[1].targets[0].weight, 90.0);
    assert_eq!(config.pools[0].adapters, ["tide-7b-legal"]);
    let (large, global) = (config.pools[1].timeouts, config.timeouts);
    assert_eq!(large.first_byte, Some(std::time::Duration::from_secs(300)));
    assert_eq!((large.connect, large.answer, large.idle), (global.connect, global.answer, global.idle));
}

#[test]
fn h2c_and_ipv6_mean_what_they_say() {
    let h2c = example("h2c.yaml");
    assert_eq!((h2c.pools[0].protocol, h2c.pools[0].h2_connections), (Protocol::H2c, 8));
    let ipv6 = example("ipv6.yaml");
    let endpoints = &ipv6.pools[0].endpoints;
    assert_eq!(endpoints[0].url.authority(), "[::1]:8001");
    assert!(matches!(&endpoints[2].url.host, Host::Scoped(_, zone) if zone == "lo"));
    assert_eq!(endpoints[3].name, "http://127.0.0.1:8002");
}

/// The reference shows every field: a name that the schema has and the file lacks fails here.
#[test]
fn reference_shows_every_field() {
    let text = std::fs::read_to_string(directory().join("reference.yaml")).unwrap();
    let schema = forebay_config::json_schema();
    let definitions = schema["$defs"].as_object().unwrap().values().chain([&schema]);
    let mut checked = 0;
    for (name, field) in definitions.filter_map(|d| d["properties"].as_object()).flatten() {
        if field["x-kind"] != "reserved" {
            assert!(text.contains(&format!("{name}:")), "examples/reference.yaml does not show {name}");
            checked += 1;
        }
    }
    assert!(checked > 50, "only {checked} fields were found in the schema");
    // What it shows as defaults are the defaults.
    let config = example("reference.yaml");
    let shown = Config { pools: Vec::new(), models: Vec::new(), ..config };
    assert_eq!(shown, Config::default());
}
