//! Which names clients may ask for, and where each leads.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use bytes::Bytes;
use forebay_config::{Config, Slo, Timeouts};
use forebay_core::{ModelId, PoolId};
use forebay_metrics::{Metrics, RouteMetrics};
use serde_json::json;

use crate::learned::BytesPerToken;

/// Output tokens that a request takes before any was seen.
const FIRST_USUAL_OUTPUT: u32 = 200;

/// What the data plane needs to know of a pool.
#[derive(Debug)]
pub(crate) struct PoolRoute {
    pub(crate) id: PoolId,
    pub(crate) name: String,
    pub(crate) timeouts: Timeouts,
    /// What a good answer is, unless the request says otherwise.
    pub(crate) slo: Slo,
    /// Other endpoints tried when nothing was sent.
    pub(crate) connect_retries: u32,
    pub(crate) preserve_host: bool,
    /// Metrics of load reports that utilisation is computed from.
    pub(crate) orca_metrics: Vec<String>,
}

/// One requested name on its way to one pool.
pub(crate) struct Route {
    pub(crate) pool: Arc<PoolRoute>,
    /// The name the client asked for.
    pub(crate) model: String,
    pub(crate) model_id: ModelId,
    /// The name the engine knows, where it is another one.
    pub(crate) rewrite: Option<String>,
    /// The base model, where this name is a LoRA adapter.
    pub(crate) adapter: Option<String>,
    pub(crate) bytes_per_token: BytesPerToken,
    pub(crate) metrics: RouteMetrics,
    usual_output: AtomicU32,
}

impl Route {
    /// How many tokens an answer on this route usually has.
    pub(crate) fn usual_output(&self) -> u32 {
        self.usual_output.load(Ordering::Relaxed)
    }

    /// Moves the mean a sixteenth of the way. Two at once may lose one; it is a mean.
    pub(crate) fn learn_output(&self, tokens: u64) {
        let old = u64::from(self.usual_output());
        let new = (old * 15 + tokens.min(u64::from(u32::MAX)) + 8) / 16;
        self.usual_output.store(u32::try_from(new).unwrap_or(u32::MAX).max(1), Ordering::Relaxed);
    }
}

/// A requested name: one route, or several by weight.
struct Entry {
    routes: Vec<(f64, Arc<Route>)>,
    /// `GET /v1/models/{id}`
    card: Bytes,
}

/// Every name that clients may ask for.
pub struct Registry {
    entries: BTreeMap<String, Entry>,
    list: Bytes,
}

impl Registry {
    /// The route of a name; `draw` decides between weighted targets.
    pub(crate) fn route(&self, model: &str, draw: u64) -> Option<&Arc<Route>> {
        let routes = &self.entries.get(model)?.routes;
        if let [(_, only)] = routes.as_slice() {
            return Some(only);
        }
        let sum: f64 = routes.iter().map(|(weight, _)| weight).sum();
        let mut left = (draw >> 11) as f64 / (1u64 << 53) as f64 * sum;
        for (weight, route) in routes {
            left -= weight;
            if left < 0.0 {
                return Some(route);
            }
        }
        routes.iter().rev().find(|(weight, _)| *weight > 0.0).map(|(_, route)| route)
    }

    /// `GET /v1/models`
    pub(crate) fn list(&self) -> Bytes {
        self.list.clone()
    }

    /// `GET /v1/models/{id}`
    pub(crate) fn card(&self, model: &str) -> Option<Bytes> {
        self.entries.get(model).map(|entry| entry.card.clone())
    }

    /// Names that look like this one, nearest first; at most three.
    pub(crate) fn close_names(&self, model: &str) -> Vec<&str> {
        // The comparison takes time in proportion to both lengths.
        if model.len() > 256 {
            return Vec::new();
        }
        let mut near: Vec<(f64, &str)> = self
            .entries
            .keys()
            .map(|name| (strsim::jaro_winkler(name, model), name.as_str()))
            .filter(|(similarity, _)| *similarity > 0.75)
            .collect();
        near.sort_by(|a, b| b.0.total_cmp(&a.0));
        near.into_iter().take(3).map(|(_, name)| name).collect()
    }

    /// Requests counted so far, by pool.
    pub fn requests(&self, pool: PoolId) -> u64 {
        self.entries
            .values()
            .flat_map(|entry| &entry.routes)
            .filter(|(_, route)| route.pool.id == pool)
            .map(|(_, route)| route.metrics.requests_total())
            .sum()
    }
}

impl std::fmt::Debug for Registry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Registry").field(&self.entries.keys()).finish()
    }
}

/// Makes a registry from a configuration.
#[derive(Debug)]
pub struct RegistryBuilder;

impl RegistryBuilder {
    /// The registry of a configuration whose pools have the ids of their places.
    /// `created` is a Unix time for the model cards.
    pub fn build(config: &Config, metrics: &Metrics, created: u64) -> Registry {
        let mut entries: BTreeMap<String, Entry> = BTreeMap::new();
        let mut cards = BTreeMap::new();
        let mut next = 0;
        let mut route = |pool: &Arc<PoolRoute>, model: &str, rewrite: Option<&str>, adapter: Option<&str>| {
            let id = ModelId(next);
            next += 1;
            Arc::new(Route {
                pool: Arc::clone(pool),
                model: model.to_owned(),
                model_id: id,
                rewrite: rewrite.map(str::to_owned),
                adapter: adapter.map(str::to_owned),
                bytes_per_token: BytesPerToken::default(),
                metrics: metrics.route(&pool.name, model),
                usual_output: AtomicU32::new(FIRST_USUAL_OUTPUT),
            })
        };
        let mut serving: BTreeMap<&str, (Arc<PoolRoute>, Option<&str>)> = BTreeMap::new();
        for (i, pool) in config.pools.iter().enumerate() {
            let shared = Arc::new(PoolRoute {
                id: PoolId(i as u32),
                name: pool.name.clone(),
                timeouts: pool.timeouts,
                slo: pool.slo,
                connect_retries: pool.retry.connect,
                preserve_host: pool.preserve_host,
                orca_metrics: Vec::new(),
            });
            let parents = std::iter::once(None).chain(pool.adapters.iter().map(|_| Some(&*pool.model)));
            for (name, parent) in std::iter::once(&pool.model).chain(&pool.adapters).zip(parents) {
                serving.insert(name, (Arc::clone(&shared), parent));
                cards.insert(name.clone(), card(name, created, parent));
                let entry =
                    Entry { routes: vec![(1.0, route(&shared, name, None, parent))], card: Bytes::new() };
                entries.insert(name.clone(), entry);
            }
        }
        for alias in &config.models {
            let routes = alias
                .targets
                .iter()
                .filter_map(|target| {
                    let (pool, parent) = serving.get(&*target.model)?;
                    Some((target.weight, route(pool, &alias.name, Some(&target.model), *parent)))
                })
                .collect();
            cards.insert(alias.name.clone(), card(&alias.name, created, None));
            entries.insert(alias.name.clone(), Entry { routes, card: Bytes::new() });
        }
        let list = json!({"object": "list", "data": cards.values().collect::<Vec<_>>()});
        for (name, entry) in &mut entries {
            entry.card = cards.get(name).map(|card| Bytes::from(card.to_string())).unwrap_or_default();
        }
        Registry { entries, list: Bytes::from(list.to_string()) }
    }
}

fn card(name: &str, created: u64, parent: Option<&str>) -> serde_json::Value {
    let mut card = json!({"id": name, "object": "model", "created": created, "owned_by": "forebay"});
    if let Some(parent) = parent {
        card["parent"] = json!(parent);
    }
    card
}
