use forebay_config::{Config, ModelAlias, Pool, Target};
use forebay_core::PoolId;
use forebay_metrics::Metrics;

use crate::registry::{Registry, RegistryBuilder};

#[test]
fn a_block_of_text_stands_for_what_answers_say() {
    let pools = vec![Pool::new("chat", "tide-7b"), Pool::new("other", "ocean-70b")];
    let config = Config { pools, ..Config::default() };
    let registry = RegistryBuilder::build(&config, &Metrics::new("0"), 0);
    assert_eq!(registry.block_tokens(PoolId(0)), 64.0, "four bytes to a token");
    let route = registry.route("tide-7b", 0).unwrap();
    route.pool.bytes_per_token.learn(3200, 1000, &[]);
    assert_eq!(registry.block_tokens(PoolId(0)), 80.0);
    assert_eq!(registry.block_tokens(PoolId(1)), 64.0, "another pool, another tokenizer");
}

#[test]
fn adapters_learn_with_their_base_model() {
    let pool = Pool { adapters: vec!["legal".to_owned()], ..Pool::new("chat", "tide-7b") };
    let registry =
        RegistryBuilder::build(&Config { pools: vec![pool], ..Config::default() }, &Metrics::new("0"), 0);
    registry.discover(PoolId(0), ["found"].into_iter());
    registry.route("tide-7b", 0).unwrap().pool.bytes_per_token.learn(3200, 1000, &[]);
    for name in ["legal", "found"] {
        assert_eq!(registry.route(name, 0).unwrap().pool.bytes_per_token.mean(), 3.2, "{name}");
    }
}

fn two_pools() -> Registry {
    let pools = vec![
        Pool { adapters: vec!["legal".to_owned()], ..Pool::new("chat", "tide-7b") },
        Pool::new("other", "ocean:70b"),
    ];
    let target = |model: &str, version: Option<&str>, weight| Target {
        model: model.to_owned(),
        version: version.map(str::to_owned),
        weight,
    };
    let alias = |name: &str, targets| ModelAlias { name: name.to_owned(), targets };
    let models = vec![
        alias("law", vec![target("legal", None, 1.0)]),
        alias("tide", vec![target("tide-7b", Some("a"), 1.0), target("tide-7b", Some("b"), 1.0)]),
    ];
    RegistryBuilder::build(&Config { pools, models, ..Config::default() }, &Metrics::new("0"), 0)
}

const CHAT: PoolId = PoolId(0);
const OTHER: PoolId = PoolId(1);

#[test]
fn an_alias_leads_to_what_its_target_is() {
    let registry = two_pools();
    let (alias, adapter) = (registry.route("law", 0).unwrap(), registry.route("legal", 0).unwrap());
    assert!(adapter.adapter_id().is_some());
    assert_eq!(alias.adapter_id(), adapter.adapter_id());
    assert_eq!(alias.names(), ("tide-7b", Some("legal")));
    assert_eq!(registry.adapter("legal"), adapter.adapter_id());
    assert_eq!(registry.adapter("law"), None, "no endpoint lists an alias");
    let (tide, base) = (registry.route("tide", 0).unwrap(), registry.route("tide-7b", 0).unwrap());
    assert_eq!((tide.model_id, tide.adapter_id()), (base.model_id, None));
}

#[test]
fn targets_of_one_alias_in_one_pool_are_counted_once() {
    let registry = two_pools();
    let ok = || forebay_metrics::OutcomeLabel::Ok;
    for draw in [0, u64::MAX, u64::MAX] {
        registry.route("tide", draw).unwrap().metrics.request(200, ok(), std::time::Duration::ZERO);
    }
    assert_eq!(registry.requests(CHAT), 3);
    assert_eq!(registry.requests(OTHER), 0);
}

#[test]
fn a_name_that_two_pools_list_passes_from_one_to_the_other() {
    let registry = two_pools();
    let pool = |name: &str| registry.route(name, 0).map(|route| route.pool.id);
    let parent = || {
        let card: serde_json::Value = serde_json::from_slice(&registry.card("sql").unwrap()).unwrap();
        card["parent"].as_str().unwrap().to_owned()
    };
    registry.discover(CHAT, ["sql"].into_iter());
    let id = registry.adapter("sql");
    registry.discover(OTHER, ["sql", "fr"].into_iter());
    assert_eq!((pool("sql"), pool("fr"), parent().as_str()), (Some(CHAT), Some(OTHER), "tide-7b"));
    // Each pool's own by its full name.
    assert_eq!((pool("tide-7b:sql"), pool("ocean:70b:sql")), (Some(CHAT), Some(OTHER)));
    registry.discover(CHAT, std::iter::empty());
    assert_eq!((pool("sql"), parent().as_str()), (Some(OTHER), "ocean:70b"));
    assert_eq!(pool("tide-7b:sql"), None);
    assert!(id.is_some() && registry.adapter("sql") == id, "endpoints of the other pool know it by this id");
    let list: serde_json::Value = serde_json::from_slice(&registry.list()).unwrap();
    let cards = list["data"].as_array().unwrap();
    let sql: Vec<_> = cards.iter().filter(|card| card["id"] == "sql").map(|card| &card["parent"]).collect();
    assert_eq!(sql, ["ocean:70b"]);
    // And it stays there when the first lists it again.
    registry.discover(CHAT, ["sql"].into_iter());
    assert_eq!(pool("sql"), Some(OTHER));
    registry.discover(OTHER, std::iter::empty());
    registry.discover(CHAT, std::iter::empty());
    assert_eq!((pool("sql"), registry.adapter("sql")), (None, None));
}

#[test]
fn adapters_can_be_asked_for_on_their_base() {
    let registry = two_pools();
    registry.discover(OTHER, ["fr:2"].into_iter());
    for (name, wanted) in [
        ("tide-7b:legal", Some("legal")),
        ("ocean:70b:fr:2", Some("fr:2")),
        ("ocean:70b:legal", None),
        ("tide-7b:law", None),
        ("tide-7b:", None),
        (":legal", None),
        ("legal:tide-7b", None),
        ("tide:legal", None),
    ] {
        let route = registry.route(name, 0);
        assert_eq!(route.as_ref().map(|route| route.model.as_str()), wanted, "{name}");
        assert_eq!(registry.card(name).is_some(), wanted.is_some(), "{name}");
    }
    assert!(registry.route(&":".repeat(1 << 20), 0).is_none());
}

#[test]
fn names_from_engines_are_bounded() {
    let registry = two_pools();
    let names: Vec<String> = (0..5000).map(|n| format!("lora{n}")).collect();
    for pool in [CHAT, OTHER] {
        registry.discover(pool, names.iter().map(String::as_str));
    }
    let known = names.iter().filter(|name| registry.adapter(name).is_some()).count();
    assert_eq!(known, 4096);
    registry.discover(CHAT, std::iter::empty());
    assert_eq!(names.iter().filter(|name| registry.adapter(name).is_some()).count(), 4096, "the other's");
}
