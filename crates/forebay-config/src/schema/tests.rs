use serde_json::Value;

use super::*;
use crate::parse_str;

const POOL: &str = "pools:\n- name: a\n  model: b\n  endpoints: [{url: \"http://a:1\"}]\n";

fn defaults<'a>(root: &'a Value, definition: &'a str) -> Vec<(&'a str, &'a Value)> {
    let definition = if definition.is_empty() { root } else { &root["$defs"][definition] };
    let fields = definition["properties"].as_object().unwrap();
    fields.iter().filter_map(|(name, field)| Some((name.as_str(), field.get("default")?))).collect()
}

/// A default that is documented but not used would be worse than none: writing each out
/// must change nothing.
#[test]
fn documented_defaults_are_the_real_ones() {
    let schema = json_schema();
    let plain = parse_str("f", &format!("version: 1\n{POOL}")).unwrap();
    let mut seen = 0;
    let mut check = |text: String| {
        let read = parse_str("f", &text).unwrap_or_else(|errors| panic!("{errors}"));
        assert_eq!(read, plain, "{text}");
        seen += 1;
    };
    for (name, default) in defaults(&schema, "") {
        check(format!("version: 1\n{name}: {default}\n{POOL}"));
    }
    for (section, definition) in [
        ("timeouts", "Timeouts"),
        ("retry", "Retry"),
        ("health", "Health"),
        ("limits", "Limits"),
        ("drain", "Drain"),
        ("prefix_index", "PrefixIndex"),
        ("log", "Log"),
        ("response_headers", "ResponseHeaders"),
    ] {
        for (name, default) in defaults(&schema, definition) {
            check(format!("version: 1\n{section}: {{{name}: {default}}}\n{POOL}"));
        }
    }
    for (name, default) in defaults(&schema, "Pool") {
        check(format!("version: 1\n{POOL}  {name}: {default}\n"));
    }
    for (section, definition) in [
        ("slo", "Slo"),
        ("slow_start", "SlowStart"),
        ("warm_up", "WarmUp"),
        ("scrape", "Scrape"),
        ("orca", "Orca"),
        ("limits", "PoolLimits"),
        ("timeouts", "Timeouts"),
        ("retry", "Retry"),
        ("health", "Health"),
    ] {
        for (name, default) in defaults(&schema, definition) {
            check(format!("version: 1\n{POOL}  {section}: {{{name}: {default}}}\n"));
        }
    }
    for (name, default) in defaults(&schema, "Endpoint") {
        check(format!("version: 1\n{}", POOL.replace("a:1\"", &format!("a:1\", {name}: {default}"))));
    }
    assert!(seen > 60, "only {seen} defaults were found");
}

/// The same for sections that are off unless they are there.
#[test]
fn documented_defaults_of_optional_sections_are_the_real_ones() {
    let schema = json_schema();
    let read = |text: String| parse_str("f", &text).unwrap_or_else(|errors| panic!("{errors}"));
    let mut seen = 0;
    for (before, definition, required) in [
        (format!("version: 1\n{POOL}decision_log:"), "DecisionLog", "path: d"),
        (format!("version: 1\n{POOL}  tokenizer:"), "Tokenizer", "file: t"),
        (format!("version: 1\n{POOL}  kv_events:"), "KvEvents", ""),
        (format!("version: 1\n{POOL}  signals:\n    s:"), "Signal", "metric: m"),
        (format!("version: 1\n{POOL}models:\n- name: x\n  targets:\n  -"), "Target", "model: b"),
    ] {
        let plain = read(format!("{before} {{{required}}}\n"));
        for (name, default) in defaults(&schema, definition) {
            let comma = if required.is_empty() { "" } else { ", " };
            assert_eq!(
                read(format!("{before} {{{required}{comma}{name}: {default}}}\n")),
                plain,
                "{definition}.{name}"
            );
            seen += 1;
        }
    }
    assert!(seen >= 8, "only {seen} defaults were found");
}

/// Every field is documented, and has a default or is required or says that it has none.
#[test]
fn every_field_is_documented() {
    let schema = json_schema();
    for (owner, definition) in schema["$defs"].as_object().unwrap().iter().chain([(&String::new(), &schema)])
    {
        let fields = definition["properties"].as_object().unwrap();
        let order: Vec<&str> =
            definition["x-order"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
        assert_eq!(order.len(), fields.len(), "{owner}");
        for (name, field) in fields {
            assert!(order.contains(&name.as_str()), "{owner}.{name}");
            let description = field["description"].as_str().unwrap_or_default();
            assert!(description.ends_with('.') && description.len() > 10, "{owner}.{name}: {description:?}");
        }
        assert_eq!(definition["additionalProperties"], false, "{owner}");
    }
}
