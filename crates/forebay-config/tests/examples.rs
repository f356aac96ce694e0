//! Every file under `examples/` is read, and means what it says.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test says so by failing")]

use std::collections::BTreeSet;
use std::path::PathBuf;

use forebay_config::{
    Combine, Config, DecisionLog, FleetFile, Host, KvEvents, OrcaAsk, PolicyKind, Pool, PrefixIndex, Profile,
    Protocol, Secret, Tokenizer, parse, parse_fleet, warnings,
};

fn directory() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../examples")
}

fn example(name: &str) -> Config {
    let text = std::fs::read_to_string(directory().join(name)).unwrap();
    let env = |name: &str| (name == "ENGINE_KEY").then(|| "hunter2".to_owned());
    parse(name, &text, &env).unwrap_or_else(|errors| panic!("{errors}"))
}

fn fleet(name: &str) -> FleetFile {
    let text = std::fs::read_to_string(directory().join(name)).unwrap();
    parse_fleet(name, &text, &["h100-8b", "a100-8b"], &|_| None).unwrap_or_else(|errors| panic!("{errors}"))
}

#[test]
fn the_mixed_fleet_means_what_it_says() {
    let fleet = fleet("fleet-mixed.yaml");
    let counts: Vec<_> = fleet.groups.iter().map(|group| (group.name.as_str(), group.count)).collect();
    assert_eq!(counts, [("fast", 6), ("old", 6), ("mine", 2)]);
    assert_eq!((fleet.gateways, fleet.events.len()), (2, 4));
    assert_eq!(fleet.groups[1].kv_tokens, Some(458_752));
}

#[test]
fn every_example_is_read_without_a_warning() {
    let mut names = BTreeSet::new();
    for entry in std::fs::read_dir(directory()).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        if name.starts_with("fleet") {
            fleet(&name);
        } else if name.ends_with(".yaml") {
            assert_eq!(warnings(&example(&name)), [], "{name}");
            names.insert(name);
        }
    }
    for name in ["minimal.yaml", "reference.yaml", "routing.yaml", "two-models.yaml", "h2c.yaml", "ipv6.yaml"]
    {
        assert!(names.contains(name), "{name} is not there");
    }
}

#[test]
fn minimal_has_two_endpoints_and_defaults() {
    let config = example("minimal.yaml");
    assert_eq!(config.pools.len(), 1);
    assert_eq!(config.pools[0].policy, PolicyKind::Predictive);
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
fn guarded_has_the_key_of_its_environment() {
    let config = example("guarded.yaml");
    assert_eq!(config.pools[0].engine_key, Some(Secret::new("hunter2")));
    assert!(!format!("{config:?}").contains("hunter2"));
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

#[test]
fn routing_knows_its_fleet() {
    let config = example("routing.yaml");
    let (chat, batch) = (&config.pools[0], &config.pools[1]);
    assert_eq!((chat.policy, chat.profile), (PolicyKind::Predictive, Profile::Goodput));
    assert_eq!((batch.profile, batch.fallback), (Profile::Batch, false));
    assert_eq!(chat.shadow_policy, Some(PolicyKind::LeastWork));
    assert_eq!((chat.orca.ask, chat.warm_up.requests), (OrcaAsk::Text, 64));
    let names: Vec<_> = chat.signals.iter().map(|signal| signal.name.as_str()).collect();
    assert_eq!(names, ["queue_depth", "evictions"], "in the file's order");
    assert_eq!(chat.signals[0].signal.metric, "gateway_sidecar_queue_depth");
    assert_eq!(chat.signals[1].signal.labels, [("tier".to_owned(), "gpu".to_owned())]);
    assert_eq!(chat.signals[1].signal.combine, Combine::Max);
    let rule = chat.rule.clone().unwrap();
    assert_eq!(rule.filter.as_deref(), Some("kv_usage < 0.98"));
    assert_eq!(rule.cost_ms.as_deref(), Some("queue_depth * 20.0"));
    let publishers: Vec<_> =
        chat.endpoints.iter().map(|endpoint| chat.kv_events_of(endpoint).unwrap()).collect();
    assert_eq!(publishers[0].url, "tcp://10.0.0.11:5557");
    assert_eq!(publishers[0].replay.as_deref(), Some("tcp://10.0.0.11:5558"));
    assert_eq!(publishers[2].url, "tcp://10.0.0.13:6557");
    assert_eq!(publishers[2].replay.as_deref(), Some("tcp://10.0.0.13:6558"));
    assert_eq!(batch.kv_events_of(&batch.endpoints[0]), None);
    assert_eq!(chat.endpoints[0].dcgm_url.as_deref(), Some("http://10.0.0.11:9400/metrics"));
    let shares: Vec<_> = config.models[0].targets.iter().map(|t| (t.version.as_deref(), t.weight)).collect();
    assert_eq!(shares, [(Some("stable"), 90.0), (Some("canary"), 10.0)]);
    assert_eq!(config.prefix_index.max_bytes, 1 << 30);
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
    assert!(config.prefix_index.snapshot.is_some() && config.decision_log.is_some());
    let prefix_index = PrefixIndex { snapshot: None, ..config.prefix_index };
    let shown = Config { pools: Vec::new(), models: Vec::new(), prefix_index, decision_log: None, ..config };
    assert_eq!(shown, Config::default());
    let log = example("reference.yaml").decision_log.unwrap();
    assert_eq!(log, DecisionLog::new(log.path.clone()));
    // A pool cannot be without its endpoints, and some of its sections are off by default.
    let pool = example("reference.yaml").pools.remove(0);
    let default = Pool::new("chat", "tide-7b");
    let tokenizer = pool.tokenizer.clone().unwrap();
    let events = pool.kv_events.clone().unwrap();
    let expected = Pool {
        adapters: pool.adapters.clone(),
        shadow_policy: pool.shadow_policy,
        rule: pool.rule.clone(),
        signals: pool.signals.clone(),
        tokenizer: Some(Tokenizer {
            chat_template: tokenizer.chat_template.clone(),
            ..Tokenizer::new(tokenizer.file.clone())
        }),
        kv_events: Some(KvEvents { replay: events.replay, ..KvEvents::default() }),
        endpoints: pool.endpoints.clone(),
        ..default
    };
    assert_eq!(pool, expected);
}
