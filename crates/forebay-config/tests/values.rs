//! What the fields mean once they are read.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test says so by failing")]

use std::time::Duration;

use forebay_config::{Config, Listener, Protocol, parse, parse_str};

fn read(text: &str) -> Config {
    parse("f.yaml", text, &|name| (name == "HOST").then(|| "node-7".to_owned()))
        .unwrap_or_else(|e| panic!("{e}"))
}

const POOL: &str = "pools: [{name: a, model: b, endpoints: [{url: \"http://a:1\"}]}]\n";

#[test]
fn a_pool_overrides_field_by_field() {
    let config = read(
        "version: 1
timeouts: {connect: 1s, total: 1h}
health: {interval: 10s, fall: 5}
retry: {connect: 2}
pools:
  - name: a
    model: a
    protocol: h2c
    timeouts: {total: 0s, idle: 5s}
    health: {enabled: false, rise: 2}
    limits: {in_flight: 7}
    endpoints: [{url: http://a:1}]
  - name: b
    model: b
    endpoints: [{url: http://b:1}]
",
    );
    let (a, b) = (&config.pools[0], &config.pools[1]);
    assert_eq!(a.protocol, Protocol::H2c);
    assert_eq!(a.timeouts.connect, Some(Duration::from_secs(1)), "inherited");
    assert_eq!(a.timeouts.total, None, "0s switches the inherited limit off");
    assert_eq!(a.timeouts.idle, Some(Duration::from_secs(5)));
    assert_eq!((a.health.enabled, a.health.rise, a.health.fall), (false, 2, 5));
    assert_eq!(a.health.interval, Duration::from_secs(10));
    assert_eq!((a.retry.connect, a.in_flight), (2, Some(7)));
    assert_eq!(
        (b.timeouts, &b.health, b.retry, b.in_flight),
        (config.timeouts, &config.health, config.retry, None)
    );
}

#[test]
fn listen_in_every_form() {
    let forms = ["127.0.0.1:1", "[127.0.0.1:1]", "{address: 127.0.0.1:1}", "[{address: 127.0.0.1:1}]"];
    let expected = Listener { address: "127.0.0.1:1".parse().unwrap(), client_half_close: false };
    for form in forms {
        assert_eq!(read(&format!("version: 1\nlisten: {form}\n{POOL}")).listen, [expected], "{form}");
    }
    let long = read(&format!(
        "version: 1\nlisten: [{{address: \"[::]:2\", client_half_close: true}}, 127.0.0.1:1]\n{POOL}"
    ));
    assert_eq!(long.listen[0].address, "[::]:2".parse().unwrap());
    assert!(long.listen[0].client_half_close && !long.listen[1].client_half_close);
}

#[test]
fn variables_are_put_in_and_never_read_twice() {
    let config = read(
        "version: 1
pools:
  - name: $${HOST}
    model: x-${HOST}-${HOST}
    endpoints: [{url: \"http://${HOST}:1\", zone: \"$HOST\"}]
",
    );
    let pool = &config.pools[0];
    assert_eq!((pool.name.as_str(), pool.model.as_str()), ("${HOST}", "x-node-7-node-7"));
    assert_eq!(pool.endpoints[0].name, "http://node-7:1");
    assert_eq!(pool.endpoints[0].zone.as_deref(), Some("$HOST"));
    let nested = parse("f", &format!("version: 1\nadmin: ${{A}}\n{POOL}"), &|_| Some("${B}".to_owned()));
    assert!(
        nested.unwrap_err().to_string().contains("is not an address"),
        "a value is not searched for variables"
    );
}

#[test]
fn anchors_and_merge_keys_work() {
    let config = read(
        "version: 1
pools:
  - &first
    name: a
    model: a
    policy: random
    endpoints: [{url: http://a:1}]
  - <<: *first
    name: b
    model: b
",
    );
    assert_eq!(config.pools[1].policy, config.pools[0].policy);
    assert_eq!(config.pools[1].endpoints, config.pools[0].endpoints);
}

#[test]
fn errors_as_json_name_the_place() {
    let text = "version: 1\nadmin: 127.0.0.1:1\nlisten: 127.0.0.1:1\npools: []\n";
    let json = serde_json::to_value(parse_str("f.yaml", text).unwrap_err()).unwrap();
    let expected = serde_json::json!([
        {
            "file": "f.yaml", "line": 3, "column": 9, "path": "listen",
            "message": "the same address and port as admin; each needs its own",
            "also": [{"line": 2, "column": 8, "message": "admin: takes it already"}],
        },
        {
            "file": "f.yaml", "line": 4, "column": 1, "path": "pools",
            "message": "at least one pool is needed: a name, a model and its endpoints",
        },
    ]);
    assert_eq!(json, expected);
}
