use forebay_config::{Config, Pool};
use forebay_core::PoolId;
use forebay_metrics::Metrics;

use crate::registry::RegistryBuilder;

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
