use super::*;
use crate::parse_str;

/// The pairs, as places in the file.
fn pairs(pools: &str) -> Vec<(String, String)> {
    // Only what was written down is refused.
    let config = parse_str("f", &format!("version: 1\npools:\n{pools}"));
    let config = config.unwrap_or_else(|errors| panic!("{errors}"));
    shared(&config.pools).iter().map(|(first, second)| (first.path(), second.path())).collect()
}

#[test]
fn hosts_have_one_spelling_and_sockets_no_ports() {
    assert_eq!(place("tcp://A.example:5557"), place("tcp://a.example:5557"));
    assert_eq!(place("tcp://[::ffff:10.0.0.1]:5557"), place("tcp://10.0.0.1:5557"));
    assert_ne!(place("tcp://10.0.0.1:5557"), place("tcp://10.0.0.2:5557"));
    assert_eq!(place("ipc:///tmp/a:1"), ("ipc:///tmp/a:1".to_owned(), 0));
}

#[test]
fn endpoints_on_one_host_have_one_default_publisher() {
    let two = "- name: a\n  model: a\n  kv_events: {}\n  endpoints: [{url: \"http://10.0.0.1:8001\"}, {url: \"http://10.0.0.1:8002\"}, {url: \"http://10.0.0.2:8001\"}]\n";
    assert_eq!(pairs(two), [("pools[0].endpoints[0]".to_owned(), "pools[0].endpoints[1]".to_owned())]);
    let other = two.replace("name: a", "name: b").replace("model: a", "model: b").replace(":80", ":90");
    let across: Vec<_> = pairs(&format!("{two}{other}")).into_iter().map(|(_, second)| second).collect();
    assert_eq!(
        across,
        ["pools[0].endpoints[1]", "pools[1].endpoints[0]", "pools[1].endpoints[1]", "pools[1].endpoints[2]"]
    );
}

#[test]
fn a_default_publisher_of_two_is_warned_of() {
    let pool = |second: &str| {
        let endpoints = format!("{{url: \"http://10.0.0.1:8001\"}}, {{url: \"http://10.0.0.{second}\"}}");
        let text = format!(
            "version: 1\npools: [{{name: a, model: a, tokenizer: {{file: t}}, kv_events: {{}}, endpoints: [{endpoints}]}}]"
        );
        let warnings = crate::warnings(&parse_str("f", &text).unwrap());
        warnings.into_iter().map(|lint| lint.to_string()).collect::<Vec<_>>()
    };
    assert_eq!(pool("2:8001"), Vec::<String>::new());
    let warnings = pool("1:8002");
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    assert!(
        warnings[0].starts_with("pools[0].endpoints[1].kv_events: would be that of pools[0].endpoints[0]")
    );
}

#[test]
fn one_endpoint_in_two_pools_is_one() {
    let pool = |name: &str| {
        format!(
            "- name: {name}\n  model: {name}\n  kv_events: {{}}\n  endpoints: [{{url: \"http://10.0.0.1:8001\"}}]\n"
        )
    };
    assert_eq!(pairs(&format!("{}{}", pool("a"), pool("b"))), []);
}

#[test]
fn engines_that_are_asked_share_nothing() {
    let trtllm = "- name: a\n  model: a\n  engine: trtllm\n  kv_events: {}\n  endpoints: [{url: \"http://10.0.0.1:8001\"}, {url: \"http://10.0.0.1:8002\"}]\n";
    assert_eq!(pairs(trtllm), []);
}
