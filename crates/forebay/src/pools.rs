//! From the configuration to what Gates and the fleet are told.

use forebay_config::{Config, Engine, Host, Pool, Protocol};
use forebay_fleet::kv::{KvAddressError, KvSource, KvTemplate};
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
        ..WarmUpPlan::new(endpoint.url.to_string(), pool.model.clone(), warm_up.requests)
    })
}

/// The publishers of KV events of every endpoint, each with its endpoint's name.
///
/// # Errors
/// An address that cannot be read.
pub(crate) fn kv_sources(config: &Config) -> Result<Vec<KvSource>, KvAddressError> {
    let mut sources = Vec::new();
    for pool in &config.pools {
        for endpoint in &pool.endpoints {
            let Some(events) = pool.kv_events_of(endpoint) else { continue };
            if pool.polls_kv_events(endpoint) {
                sources.push(KvSource::polled(&endpoint.name, &endpoint.url.to_string()));
                continue;
            }
            let template = KvTemplate {
                events: events.url,
                replay: events.replay,
                ranks: events.ranks,
                topic: events.topic,
                bind: events.bind,
            };
            let host = match &endpoint.url.host {
                Host::Ip(ip) => ip.to_string(),
                Host::Scoped(ip, zone) => format!("{ip}%{zone}"),
                Host::Name(name) => name.clone(),
            };
            sources.extend(template.sources(&endpoint.name, &host)?);
        }
    }
    Ok(sources)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tensorrt_llm_is_asked_where_it_answers_and_others_are_listened_to() {
        let sources = |fields: &str, endpoint: &str| {
            let text = format!(
                "version: 1\npools:\n- name: chat\n  model: tide-7b\n  {fields}\n  endpoints: [{{url: \"http://10.0.0.1:8000\"{endpoint}}}]\n"
            );
            let config = forebay_config::parse_str("f", &text).unwrap();
            let sources = kv_sources(&config).unwrap();
            sources.iter().map(|source| source.events.to_string()).collect::<Vec<_>>()
        };
        let at = |url: &str| vec![url.to_owned()];
        let own = ", kv_events: \"tcp://10.0.0.1:9\"";
        for (fields, endpoint, expect) in [
            ("engine: trtllm", "", vec![]),
            ("engine: trtllm\n  kv_events: {}", "", at("http://10.0.0.1:8000/kv_cache_events")),
            ("engine: trtllm\n  kv_events: {}", own, at("tcp://10.0.0.1:9")),
            ("engine: trtllm\n  kv_events: {url: \"tcp://{host}:6\"}", "", at("tcp://10.0.0.1:6")),
            ("engine: vllm\n  kv_events: {}", "", at("tcp://10.0.0.1:5557")),
        ] {
            assert_eq!(sources(fields, endpoint), expect, "{fields}{endpoint}");
        }
    }
}
