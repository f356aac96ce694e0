//! Pools that share an endpoint.

use std::collections::BTreeMap;

use crate::config::Config;
use crate::pool::{Endpoint, Pool};

/// Pools at one address share its connections, probes and signals, which are as the first says.
pub(super) fn check(config: &Config, warn: &mut impl FnMut(String, &str)) {
    for (index, pool) in config.pools.iter().enumerate() {
        let found = config.pools[..index].iter().enumerate().find_map(|(first, other)| {
            let differences = differences(pool, other)?;
            (!differences.is_empty()).then_some((first, differences))
        });
        if let Some((first, differences)) = found {
            warn(
                format!("pools[{index}]"),
                &format!(
                    "shares an endpoint with pools[{first}] and differs from it in {}; for the shared endpoint \
                     pools[{first}] counts",
                    differences.join(", ")
                ),
            );
        }
    }
}

/// In what two pools differ that an endpoint has once; `None` where they share none.
fn differences(a: &Pool, b: &Pool) -> Option<Vec<&'static str>> {
    let others: BTreeMap<&str, &Endpoint> = b.endpoints.iter().map(|e| (e.name.as_str(), e)).collect();
    let shared: Vec<(&Endpoint, &Endpoint)> =
        a.endpoints.iter().filter_map(|e| Some((e, *others.get(e.name.as_str())?))).collect();
    if shared.is_empty() {
        return None;
    }
    let all = |same: fn(&Endpoint, &Endpoint) -> bool| shared.iter().all(|(x, y)| same(x, y));
    // What an engine says of its cache is told once, and hashed for one model.
    let events = |a: &Pool, b: &Pool| shared.iter().all(|(x, y)| a.kv_events_of(x) == b.kv_events_of(y));
    let followed = shared.iter().any(|(_, y)| b.kv_events_of(y).is_some());
    let checks = [
        ("protocol", a.protocol == b.protocol),
        ("timeouts.connect", a.timeouts.connect == b.timeouts.connect),
        ("max_dials", a.max_dials == b.max_dials),
        ("h2_connections", a.h2_connections == b.h2_connections),
        ("health", a.health == b.health),
        ("engine", a.engine == b.engine),
        ("engine_key", a.engine_key == b.engine_key),
        ("scrape", a.scrape == b.scrape),
        ("signals", a.signals == b.signals),
        ("warm_up", a.warm_up == b.warm_up),
        ("weight", all(|x, y| x.weight == y.weight)),
        ("accelerator", all(|x, y| x.accelerator == y.accelerator)),
        ("kv_events", events(a, b)),
        ("model (for kv_events)", a.model == b.model || !followed),
        ("version", all(|x, y| x.version == y.version)),
        ("metrics_url", all(|x, y| x.metrics_url == y.metrics_url)),
        ("dcgm_url", all(|x, y| (&x.dcgm_url, &x.gpus) == (&y.dcgm_url, &y.gpus))),
    ];
    Some(checks.iter().filter(|(_, same)| !same).map(|(name, _)| *name).collect())
}

#[cfg(test)]
mod tests {
    /// What is said of two pools with one endpoint, by their fields.
    fn said(first: &str, second: &str) -> Option<String> {
        let pool = |name: &str, fields: &str| {
            format!("- name: {name}\n  {fields}\n  endpoints: [{{url: \"http://10.0.0.1:1\"}}]\n")
        };
        let text = format!("version: 1\npools:\n{}{}", pool("a", first), pool("b", second));
        let warnings = crate::warnings(&crate::parse_str("f", &text).unwrap());
        warnings.iter().map(ToString::to_string).find(|warning| warning.contains("differs from it in"))
    }

    #[test]
    fn what_an_engine_tells_of_its_cache_is_for_the_first_pool() {
        assert_eq!(said("model: x", "model: y"), None, "one server may have several models");
        let both = said("model: x\n  kv_events: {}", "model: y\n  kv_events: {}").unwrap();
        assert!(both.contains("differs from it in model (for kv_events);"), "{both}");
        let none = said("model: x", "model: x2\n  kv_events: {}").unwrap();
        assert!(none.contains("differs from it in kv_events;"), "{none}");
        let address = said("model: x\n  kv_events: {}", "model: y\n  kv_events: {url: \"tcp://{host}:9\"}");
        assert!(address.unwrap().contains("differs from it in kv_events, model (for kv_events);"));
    }
}
