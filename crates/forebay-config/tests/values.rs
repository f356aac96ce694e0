//! What the fields mean once they are read.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test says so by failing")]

use std::time::Duration;

use forebay_config::{
    Combine, Config, CustomSignal, KvEvents, Listener, OrcaAsk, Profile, Protocol, SlowStart, WarmUp, parse,
    parse_str,
};

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

fn pool(fields: &str) -> forebay_config::Pool {
    let text = format!("version: 1\npools:\n- name: a\n  model: b\n{fields}\n");
    let fields_of_its_own = fields.contains("endpoints:");
    let text =
        if fields_of_its_own { text } else { format!("{text}  endpoints: [{{url: \"http://a:1\"}}]\n") };
    read(&text).pools.remove(0)
}

#[test]
fn a_policy_gets_its_parameters() {
    let pool = pool(
        "  profile: lean
  fallback: false
  weights: dynamic
  slow_start: {window: 0s, aggression: 0.5, floor: 0}
  warm_up: {requests: 50}
  orca: {ask: json, metrics: [named_metrics.kv_cache_usage_perc, cpu_utilization], weight_update_period: 100ms}
  scrape: {interval_min: 10ms, interval_max: 10ms}
  rule: {filter: true}
  discover_adapters: false",
    );
    assert_eq!(pool.profile, Profile::Lean);
    assert!(!pool.fallback && pool.dynamic_weights && !pool.discover_adapters);
    assert_eq!(pool.slow_start, SlowStart { window: Duration::ZERO, aggression: 0.5, floor: 0.0 });
    assert_eq!(pool.warm_up, WarmUp { requests: 50, concurrency: 1 });
    assert_eq!(pool.orca.ask, OrcaAsk::Json);
    assert_eq!(pool.orca.metrics, ["named_metrics.kv_cache_usage_perc", "cpu_utilization"]);
    assert_eq!(pool.orca.weights.weight_update_period, Duration::from_millis(100));
    assert_eq!(pool.orca.weights.blackout_period, Duration::from_secs(10));
    assert_eq!(pool.scrape.interval_max, Duration::from_millis(10));
    assert_eq!(
        pool.rule.unwrap().filter.as_deref(),
        Some("true"),
        "an expression, whatever YAML takes it for"
    );
}

#[test]
fn signals_short_and_long_mean_the_same() {
    let plain = CustomSignal { metric: "my:depth".to_owned(), labels: Vec::new(), combine: Combine::Sum };
    for form in ["my:depth", "{metric: my:depth}", "{metric: \"my:depth\", labels: {}, combine: sum}"] {
        let pool = pool(&format!("  signals:\n    q: {form}"));
        assert_eq!(pool.signals.len(), 1);
        assert_eq!((pool.signals[0].name.as_str(), &pool.signals[0].signal), ("q", &plain), "{form}");
    }
    let labelled =
        pool("  signals:\n    q: {metric: m, labels: {b: 1, a: \"\", c: \"x-${HOST}\"}, combine: mean}");
    let labels = [("b", "1"), ("a", ""), ("c", "x-node-7")].map(|(k, v)| (k.to_owned(), v.to_owned()));
    assert_eq!(labelled.signals[0].signal.labels, labels);
    assert_eq!(labelled.signals[0].signal.combine, Combine::Mean);
}

#[test]
fn publishers_follow_from_hosts() {
    let pool = pool(
        "  kv_events: {topic: \"kv@{host}\", replay: \"tcp://{host}:6000\", ranks: 2}
  endpoints:
  - url: http://node:8000
  - url: http://[::1]:8000
  - url: http://[fe80::1%25lo]:8000
  - {url: \"http://b:1\", kv_events: \"tcp://c:7000\"}
  - {url: \"http://d:1\", kv_events: \"ipc:///run/{host}.kv\", kv_replay: \"tcp://{host}:7001\"}
  - {url: \"http://e:1\", kv_replay: \"tcp://f:7002\"}",
    );
    let of = |index: usize| pool.kv_events_of(&pool.endpoints[index]).unwrap();
    let expected = |url: &str, replay: Option<&str>, topic: &str| KvEvents {
        url: url.to_owned(),
        replay: replay.map(str::to_owned),
        topic: topic.to_owned(),
        ranks: 2,
        bind: false,
    };
    assert_eq!(of(0), expected("tcp://node:5557", Some("tcp://node:6000"), "kv@node"));
    assert_eq!(of(1), expected("tcp://[::1]:5557", Some("tcp://[::1]:6000"), "kv@::1"));
    assert_eq!(of(2).url, "tcp://[fe80::1%lo]:5557");
    assert_eq!(of(3), expected("tcp://c:7000", None, "kv@b"), "the pool's replays are not for its publisher");
    assert_eq!(of(4), expected("ipc:///run/d.kv", Some("tcp://d:7001"), "kv@d"));
    assert_eq!(of(5), expected("tcp://e:5557", Some("tcp://f:7002"), "kv@e"));
}

#[test]
fn an_endpoint_alone_can_publish() {
    let pool = pool("  endpoints: [{url: \"http://a:1\", kv_events: \"tcp://a:2\"}, {url: \"http://b:1\"}]");
    let own = pool.kv_events_of(&pool.endpoints[0]).unwrap();
    assert_eq!(own, KvEvents { url: "tcp://a:2".to_owned(), ..KvEvents::default() });
    assert_eq!(pool.kv_events_of(&pool.endpoints[1]), None);
}

#[test]
fn pages_are_where_they_usually_are() {
    for (written, read) in [
        ("http://A:9400", "http://a:9400/metrics"),
        ("http://a/", "http://a:80/metrics"),
        ("http://a:1/x/metrics?name[]=y", "http://a:1/x/metrics?name[]=y"),
        ("http://[::1]:1/v1/loads", "http://[::1]:1/v1/loads"),
    ] {
        let pool = pool(&format!("  endpoints: [{{url: \"http://a:1\", metrics_url: \"{written}\"}}]"));
        assert_eq!(pool.endpoints[0].metrics_url.as_deref(), Some(read), "{written}");
    }
}

#[test]
fn a_split_by_version() {
    let config = read(
        "version: 1
pools:
  - name: a
    model: b
    adapters: [c]
    endpoints: [{url: http://a:1, version: v1}, {url: http://a:2, version: \"${HOST}\"}, {url: http://a:3}]
models:
  - name: split
    targets:
      - {model: b, version: v1, weight: 9}
      - {model: b, version: node-7}
      - {model: b}
      - {model: c, version: v1}
",
    );
    let versions: Vec<_> = config.models[0].targets.iter().map(|t| t.version.as_deref()).collect();
    assert_eq!(versions, [Some("v1"), Some("node-7"), None, Some("v1")]);
}

#[test]
fn the_files_that_are_written() {
    let config = read(&format!(
        "version: 1\nprefix_index: {{max_bytes: 1MiB, snapshot: a/b, snapshot_interval: 1s}}\n\
         decision_log: {{path: c d, max_bytes: 2MiB}}\n{POOL}"
    ));
    assert_eq!(config.prefix_index.max_bytes, 1 << 20);
    assert_eq!(config.prefix_index.snapshot.as_deref(), Some(std::path::Path::new("a/b")));
    assert_eq!(config.prefix_index.snapshot_interval, Duration::from_secs(1));
    let log = config.decision_log.unwrap();
    assert_eq!((log.path.to_str(), log.max_bytes), (Some("c d"), 2 << 20));
}
