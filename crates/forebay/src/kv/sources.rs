//! Which engines are listened to, as the configuration says.

use std::collections::{BTreeMap, BTreeSet};

use forebay_config::{Config, Endpoint, Engine, Host, KvEvents, Pool};
use forebay_fleet::kv::{KvAddressError, KvDiscovery, KvFeeds, KvSource, KvTemplate};

/// The publishers of every endpoint that is followed, each with its endpoint's name.
#[derive(Debug, Default)]
pub(crate) struct KvSources {
    /// Those whose addresses are known.
    pub(crate) known: Vec<KvSource>,
    /// Those who are asked for them.
    pub(crate) asked: Vec<KvDiscovery>,
    /// The model whose prompts each endpoint caches, by the endpoint's name.
    pub(crate) models: BTreeMap<String, String>,
}

impl KvSources {
    /// Of an endpoint in several pools the first one counts, as in everything that
    /// an endpoint has once.
    ///
    /// # Errors
    /// An address that cannot be read.
    pub(crate) fn new(config: &Config) -> Result<KvSources, KvAddressError> {
        let mut found = KvSources::default();
        let mut seen = BTreeSet::new();
        for pool in &config.pools {
            for endpoint in pool.endpoints.iter().filter(|endpoint| seen.insert(endpoint.name.as_str())) {
                found.add(pool, endpoint)?;
            }
        }
        // What several would be looked for at is at most one's, and nobody knows whose.
        let mut times: BTreeMap<String, u32> = BTreeMap::new();
        let all = found.known.iter().chain(found.asked.iter().flat_map(|asked| &asked.fallback));
        all.for_each(|source| *times.entry(source.events.to_string()).or_default() += 1);
        for asked in &mut found.asked {
            asked.fallback.retain(|source| times.get(&source.events.to_string()).is_none_or(|n| *n == 1));
        }
        Ok(found)
    }

    fn add(&mut self, pool: &Pool, endpoint: &Endpoint) -> Result<(), KvAddressError> {
        let Some(events) = pool.kv_events_of(endpoint) else { return Ok(()) };
        self.models.insert(endpoint.name.clone(), pool.model.clone());
        let url = endpoint.url.to_string();
        if pool.polls_kv_events(endpoint) {
            self.known.push(KvSource::polled(&endpoint.name, &url).with_key(pool.engine_key.clone()));
            return Ok(());
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
        let sources = template.sources(&endpoint.name, &host)?;
        if is_asked(pool, endpoint) {
            let (endpoint, key) = (endpoint.name.clone(), pool.engine_key.clone());
            self.asked.push(KvDiscovery { endpoint, url, key, host, fallback: sources });
        } else {
            self.known.extend(sources);
        }
        Ok(())
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.models.is_empty()
    }

    /// Follows all of them.
    pub(crate) fn follow(self, feeds: &KvFeeds) {
        self.known.into_iter().for_each(|source| feeds.follow(source));
        self.asked.into_iter().for_each(|asked| feeds.discover(asked));
    }
}

/// Whether an engine is asked where it publishes: it may be one that says so, and
/// the file says nothing of it but that it publishes.
fn is_asked(pool: &Pool, endpoint: &Endpoint) -> bool {
    matches!(pool.engine, Engine::Auto | Engine::Vllm)
        && pool.kv_events.as_ref() == Some(&KvEvents::default())
        && endpoint.kv_events.is_none()
        && endpoint.kv_replay.is_none()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(pools: &str) -> Config {
        forebay_config::parse_str("f", &format!("version: 1\npools:\n{pools}")).unwrap()
    }

    fn shown(sources: &[KvSource]) -> Vec<String> {
        sources.iter().map(|source| source.events.to_string()).collect()
    }

    #[test]
    fn tensorrt_llm_is_asked_where_it_answers_and_others_are_listened_to() {
        let sources = |fields: &str, endpoint: &str| {
            let text = format!(
                "- name: chat\n  model: tide-7b\n  {fields}\n  endpoints: [{{url: \"http://10.0.0.1:8000\"{endpoint}}}]\n"
            );
            let found = KvSources::new(&config(&text)).unwrap();
            let asked =
                found.asked.iter().flat_map(|asked| shown(&asked.fallback)).map(|a| format!("ask or {a}"));
            shown(&found.known).into_iter().chain(asked).collect::<Vec<_>>()
        };
        let at = |url: &str| vec![url.to_owned()];
        let own = ", kv_events: \"tcp://10.0.0.1:9\"";
        for (fields, endpoint, expect) in [
            ("engine: trtllm", "", vec![]),
            ("engine: trtllm\n  kv_events: {}", "", at("http://10.0.0.1:8000/kv_cache_events")),
            ("engine: trtllm\n  kv_events: {}", own, at("tcp://10.0.0.1:9")),
            ("engine: trtllm\n  kv_events: {url: \"tcp://{host}:6\"}", "", at("tcp://10.0.0.1:6")),
            ("engine: vllm\n  kv_events: {}", "", at("ask or tcp://10.0.0.1:5557")),
            ("kv_events: {}", "", at("ask or tcp://10.0.0.1:5557")),
            ("engine: sglang\n  kv_events: {}", "", at("tcp://10.0.0.1:5557")),
            ("engine: vllm\n  kv_events: {topic: a}", "", at("tcp://10.0.0.1:5557")),
            ("engine: vllm\n  kv_events: {}", own, at("tcp://10.0.0.1:9")),
        ] {
            assert_eq!(sources(fields, endpoint), expect, "{fields}{endpoint}");
        }
    }

    #[test]
    fn an_address_that_several_would_have_is_nobodys() {
        let text = "- name: chat\n  model: m\n  kv_events: {}\n  endpoints: [{url: \"http://10.0.0.1:1\"}, {url: \"http://10.0.0.1:2\"}, {url: \"http://10.0.0.2:1\"}]\n";
        let found = KvSources::new(&config(text)).unwrap();
        let fallbacks: Vec<_> = found.asked.iter().map(|asked| shown(&asked.fallback).len()).collect();
        assert_eq!(fallbacks, [0, 0, 1]);
    }

    #[test]
    fn the_first_pool_of_an_endpoint_counts() {
        let text = "- name: a\n  model: base-a\n  kv_events: {url: \"tcp://{host}:1\"}\n  endpoints: [{url: \"http://10.0.0.1:1\"}]\n\
                    - name: b\n  model: base-b\n  kv_events: {url: \"tcp://{host}:2\"}\n  endpoints: [{url: \"http://10.0.0.1:1\"}]\n";
        let found = KvSources::new(&config(text)).unwrap();
        assert_eq!(shown(&found.known), ["tcp://10.0.0.1:1"]);
        assert_eq!(found.models.into_values().collect::<Vec<_>>(), ["base-a"]);
    }
}
