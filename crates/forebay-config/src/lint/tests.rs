use crate::{parse_str, warnings};

fn lints(top: &str, pool: &str, endpoints: &str) -> Vec<String> {
    let text =
        format!("version: 1\n{top}\npools:\n- name: a\n  model: b\n  {pool}\n  endpoints: [{endpoints}]\n");
    let config = parse_str("f", &text).unwrap_or_else(|errors| panic!("{errors}"));
    warnings(&config).into_iter().map(|lint| lint.to_string()).collect()
}

const ONE: &str = "{url: \"http://a:1\"}";
const TWO: &str = "{url: \"http://a:1\"}, {url: \"http://a:2\", weight: 2}";

#[test]
fn a_plain_configuration_has_no_warning() {
    assert!(lints("", "", ONE).is_empty());
    assert!(lints("", "", TWO).is_empty());
}

#[test]
fn each_warning_has_its_cause() {
    for (top, pool, endpoints, path, part) in [
        ("admin: 0.0.0.0:9090", "", ONE, "admin", "no access control"),
        ("listen: 0.0.0.0:80\ntrust_control_headers: true", "", ONE, "trust_control_headers", "anyone"),
        ("drain: {limit: 1m}", "", ONE, "drain.limit", "first_byte timeout of pools[0]"),
        ("", "policy: round_robin", TWO, "pools[0].policy", "ignores the endpoints' weights"),
        ("", "policy: consistent_hash", ONE, "pools[0].policy", "one endpoint"),
        ("", "hash_balance_factor: 2", ONE, "pools[0].hash_balance_factor", "no effect"),
        ("", "h2_connections: 2", ONE, "pools[0].h2_connections", "no effect"),
        ("", "health: {timeout: 500ms}", ONE, "pools[0].health.timeout", "under 1s"),
        ("", "timeouts: {total: 1m, answer: 0s}", ONE, "pools[0].timeouts.total", "shorter than first_byte"),
    ] {
        let found = lints(top, pool, endpoints);
        assert_eq!(found.len(), 1, "{top} {pool}: {found:?}");
        assert!(found[0].starts_with(&format!("{path}: ")) && found[0].contains(part), "{found:?}");
    }
}

#[test]
fn the_counterparts_have_none() {
    assert!(lints("admin: \"[::1]:9090\"\ntrust_control_headers: true", "", ONE).is_empty());
    assert!(lints("", "policy: weighted_round_robin", TWO).is_empty());
    assert!(lints("", "policy: consistent_hash\n  hash_balance_factor: 2", TWO).is_empty());
    assert!(lints("", "protocol: h2c\n  h2_connections: 2", ONE).is_empty());
    assert!(lints("", "health: {timeout: 500ms, enabled: false}", ONE).is_empty());
}
