//! From the configuration to what Gates and the fleet are told.

use forebay_config::{Engine, Pool, Protocol};
use forebay_fleet::{ScrapeTarget, WarmUpPlan};
use forebay_gate::{AdmissionConfig, PoolConfig};
use forebay_wire::signals::Dialect;

/// How a pool decides.
pub(crate) fn gate_config(pool: &Pool) -> PoolConfig {
    PoolConfig {
        policy: pool.policy,
        profile: pool.profile,
        hash_balance_factor: pool.hash_balance_factor,
        dynamic_weights: pool.dynamic_weights,
        shadow: pool.shadow_policy,
        fallback: pool.fallback,
        slow_start: pool.slow_start,
        orca: pool.orca.weights,
        admission: AdmissionConfig { limit: pool.in_flight, ..AdmissionConfig::OPEN },
        ..PoolConfig::default()
    }
}

/// How the engine at a pool's endpoints tells its load; none to find out.
fn dialect(engine: Engine) -> Option<Dialect> {
    match engine {
        Engine::Auto => None,
        named => Dialect::from_name(named.as_str()),
    }
}

/// What is asked of one endpoint.
pub(crate) fn scrape_target<Id>(
    id: Id,
    pool: &Pool,
    endpoint: &forebay_config::Endpoint,
) -> ScrapeTarget<Id> {
    ScrapeTarget {
        id,
        url: endpoint.url.to_string(),
        dialect: dialect(pool.engine),
        key: pool.engine_key.clone(),
        // What an engine is asked to serve may be another name than it lists:
        // aliases of its own. Only a pool's own model is known to be listed.
        model: Some(pool.model.clone()),
        custom: pool.signals.iter().map(|named| named.signal.clone()).collect(),
        metrics_url: endpoint.metrics_url.clone(),
        dcgm_url: endpoint.dcgm_url.clone(),
        gpus: endpoint.gpus.clone(),
        interval_min: pool.scrape.interval_min,
        interval_max: pool.scrape.interval_max,
        slow_interval: pool.scrape.models_interval,
        timeout: pool.scrape.timeout,
        h2c: pool.protocol == Protocol::H2c,
    }
}

/// What one endpoint is sent before others may send it anything; none when
/// nothing is.
pub(crate) fn warm_up_plan(pool: &Pool, endpoint: &forebay_config::Endpoint) -> Option<WarmUpPlan> {
    let warm_up = pool.warm_up;
    (warm_up.requests > 0).then(|| WarmUpPlan {
        concurrency: warm_up.concurrency,
        h2c: pool.protocol == Protocol::H2c,
        key: pool.engine_key.clone(),
        ..WarmUpPlan::new(endpoint.url.to_string(), pool.model.clone(), warm_up.requests)
    })
}
