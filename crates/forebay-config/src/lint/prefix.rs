//! Prefixes, tokens and KV-cache events.

use crate::choices::Engine;
use crate::config::Config;
use crate::pool::Pool;
use crate::prefix::KvEvents;
use crate::prefix::publishers::shared;

/// Engines on one host that publish at one address unless they say otherwise.
pub(super) fn publishers(config: &Config, warn: &mut impl FnMut(String, &str)) {
    for (first, second) in shared(&config.pools) {
        // Where the address was written down, it has had its error.
        warn(
            format!("{}.kv_events", second.path()),
            &format!(
                "would be that of {}: both follow the default publisher of one host, unless the engines tell where \
                 they publish, as newer vLLM does; give each endpoint its kv_events",
                first.path()
            ),
        );
    }
}

pub(super) fn check(pool: &Pool, path: &str, warn: &mut impl FnMut(String, &str)) {
    if pool.kv_events.is_none()
        && let Some(index) =
            pool.endpoints.iter().position(|e| e.kv_replay.is_some() && e.kv_events.is_none())
    {
        warn(format!("{path}.endpoints[{index}].kv_replay"), "has no effect without kv_events");
    }
    let followed = pool.endpoints.iter().filter(|endpoint| pool.kv_events_of(endpoint).is_some()).count();
    if followed == 0 {
        return;
    }
    let events = format!("{path}.kv_events");
    if pool.tokenizer.is_none() {
        warn(
            events.clone(),
            "only prompts that come as token ids can use the events without a tokenizer; texts are matched by what \
             this gateway has sent",
        );
    }
    if !matches!(pool.engine, Engine::Auto | Engine::Vllm | Engine::Sglang | Engine::Trtllm) {
        warn(
            events.clone(),
            &format!(
                "engine {} is not known to tell KV-cache events; vllm, sglang and trtllm do",
                pool.engine
            ),
        );
    }
    let default = KvEvents::default();
    if pool.endpoints.iter().any(|endpoint| pool.polls_kv_events(endpoint))
        && let Some(shared) = &pool.kv_events
        && (&shared.replay, &shared.topic, shared.ranks) != (&default.replay, &default.topic, default.ranks)
    {
        warn(
            events.clone(),
            "has replay, topic or ranks without effect: engine trtllm is asked for its events at the endpoint's own url",
        );
    }
    let bind = pool.kv_events.as_ref().is_some_and(|events| events.bind);
    let nowhere = |url: &Option<String>| url.as_ref().is_some_and(|url| url.starts_with("tcp://*:"));
    if let Some(index) =
        pool.endpoints.iter().position(|e| nowhere(&e.kv_replay) || (!bind && nowhere(&e.kv_events)))
    {
        warn(
            format!("{path}.endpoints[{index}].kv_events"),
            "or kv_replay has * for its host, which nobody can connect to",
        );
    }
    if followed < pool.endpoints.len() {
        warn(
            events.clone(),
            "some endpoints have an address for KV-cache events and others have none; those are matched by what this \
             gateway has sent",
        );
    }
    if let Some(shared) = &pool.kv_events
        && shared.bind
        && followed > 1
        && !shared.topic.contains("{host}")
    {
        warn(
            format!("{events}.topic"),
            "is the same for all endpoints, whose events cannot be told apart then; put {host} in it",
        );
    }
}
