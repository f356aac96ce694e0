//! Which names clients may ask for, and where each leads.

mod build;
mod discovered;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use arc_swap::ArcSwap;
use bytes::Bytes;
use forebay_core::{ModelId, PoolId};
use parking_lot::Mutex;
use serde_json::{Value, json};

pub use build::RegistryBuilder;
use discovered::{Discovered, Listed};

use crate::model_route::Route;
use crate::pool_route::OWN_BLOCK;
use crate::tokens::PromptTokens;

/// A requested name: one route, or several by weight.
struct Entry {
    routes: Vec<(f64, Arc<Route>)>,
    /// `GET /v1/models/{id}`
    card: Bytes,
}

/// The longest name that is taken apart, in bytes; a name of the configuration
/// has 256.
const MAX_ON_BASE: usize = 1024;

/// Every name that clients may ask for.
pub struct Registry {
    entries: BTreeMap<String, Entry>,
    /// The routes of the pools' own models, by the pools' ids.
    bases: Vec<Arc<Route>>,
    /// Adapters found at endpoints, by name.
    discovered: ArcSwap<Discovered>,
    /// What they were made of; held while they are made anew.
    listed: Mutex<Listed>,
    /// Every list is made anew with it.
    cards: BTreeMap<String, Value>,
    list: ArcSwap<Bytes>,
    next_model: AtomicU32,
    created: u64,
}

impl Registry {
    /// The route of a name; `draw` decides between weighted targets.
    pub(crate) fn route(&self, model: &str, draw: u64) -> Option<Arc<Route>> {
        let Some(entry) = self.entries.get(model) else {
            let discovered = self.discovered.load();
            let plain = discovered.get(model).and_then(|routes| routes.first()).map(Arc::clone);
            return plain.or_else(|| self.adapter_on_base(model, &discovered));
        };
        let routes = &entry.routes;
        if let [(_, only)] = routes.as_slice() {
            return Some(Arc::clone(only));
        }
        let sum: f64 = routes.iter().map(|(weight, _)| weight).sum();
        let mut left = (draw >> 11) as f64 / (1u64 << 53) as f64 * sum;
        for (weight, route) in routes {
            left -= weight;
            if left < 0.0 {
                return Some(Arc::clone(route));
            }
        }
        routes.iter().rev().find(|(weight, _)| *weight > 0.0).map(|(_, route)| Arc::clone(route))
    }

    /// The route of an adapter that is asked for as `BASE:ADAPTER`, as SGLang's
    /// clients do. Either may hold a colon itself.
    fn adapter_on_base(&self, model: &str, discovered: &Discovered) -> Option<Arc<Route>> {
        // Every colon is tried, and the name is the client's.
        if model.len() > MAX_ON_BASE {
            return None;
        }
        model.match_indices(':').find_map(|(at, _)| {
            let (base, name) = (&model[..at], &model[at + 1..]);
            let configured =
                self.entries.get(name).into_iter().flat_map(|entry| &entry.routes).map(|(_, r)| r);
            let found = discovered.get(name).into_iter().flatten();
            // An alias of an adapter is no adapter's name.
            let is_it =
                |r: &&Arc<Route>| r.rewrite.is_none() && r.adapter.as_ref().is_some_and(|b| b.name == base);
            configured.chain(found).find(is_it).map(Arc::clone)
        })
    }

    /// `GET /v1/models`
    pub(crate) fn list(&self) -> Bytes {
        Bytes::clone(&self.list.load())
    }

    /// `GET /v1/models/{id}`
    pub(crate) fn card(&self, model: &str) -> Option<Bytes> {
        if let Some(entry) = self.entries.get(model) {
            return Some(entry.card.clone());
        }
        let route = self.route(model, 0)?;
        let base = route.adapter.as_ref().map(|base| &*base.name);
        Some(Bytes::from(card(model, self.created, base).to_string()))
    }

    /// The id of an adapter's name, whether the configuration or an endpoint
    /// named it. It stays the same for as long as somebody lists the name.
    pub fn adapter(&self, name: &str) -> Option<ModelId> {
        if let Some(Entry { routes, .. }) = self.entries.get(name) {
            // An alias is not what an endpoint lists.
            return routes.first().filter(|(_, r)| r.rewrite.is_none()).and_then(|(_, r)| r.adapter_id());
        }
        self.discovered.load().get(name)?.first()?.adapter_id()
    }

    /// The adapters that the endpoints of a pool list now: those that no
    /// configuration names become known, those that are gone are forgotten, or
    /// found in another pool that lists them.
    pub fn discover<'a>(&self, pool: PoolId, listed: impl Iterator<Item = &'a str>) {
        let mut all = self.listed.lock();
        all.set(pool, listed.filter(|name| !self.entries.contains_key(*name)));
        let old = self.discovered.load();
        let next = || ModelId(self.next_model.fetch_add(1, Ordering::Relaxed));
        let new = all.routes(&old, |pool| self.base(pool).map(Arc::clone), next);
        let same = |(a, b): (&Vec<Arc<Route>>, &Vec<Arc<Route>>)| {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| Arc::ptr_eq(a, b))
        };
        if new.len() == old.len() && new.keys().eq(old.keys()) && new.values().zip(old.values()).all(same) {
            return;
        }
        let mut cards = self.cards.clone();
        for (name, routes) in &new {
            let base = routes.first().and_then(|route| route.adapter.as_ref());
            cards.insert(name.clone(), card(name, self.created, base.map(|base| &*base.name)));
        }
        self.discovered.store(Arc::new(new));
        self.list.store(Arc::new(list(&cards)));
    }

    /// Says who can tell a pool's prompts as tokens; the first to say so stays.
    pub fn set_tokens(&self, pool: PoolId, tokens: Arc<dyn PromptTokens>) {
        if let Some(route) = self.base(pool) {
            let _ = route.pool.tokens.set(tokens);
        }
    }

    /// The engines of a pool showed how long a block of the index is there.
    pub fn set_index_block(&self, pool: PoolId, tokens: u32) {
        if let Some(route) = self.base(pool) {
            route.pool.index_block.store(tokens, Ordering::Relaxed);
        }
    }

    /// Tokens that a block of the index stands for in a pool.
    pub fn block_tokens(&self, pool: PoolId) -> f32 {
        self.base(pool).map_or(OWN_BLOCK as f32, |base| base.pool.block_tokens())
    }

    /// The route of a pool's own model.
    fn base(&self, pool: PoolId) -> Option<&Arc<Route>> {
        self.bases.get(pool.index())
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

    /// How often an expression of a pool's rule had no opinion of a candidate,
    /// because what it needs was unknown; none without a rule.
    pub fn rule_without_opinion(&self, pool: PoolId) -> Option<u64> {
        Some(self.base(pool)?.pool.rule.as_ref()?.no_opinion())
    }

    /// Requests counted so far, by pool.
    pub fn requests(&self, pool: PoolId) -> u64 {
        // Targets of one alias in one pool are counted together.
        let names = self.entries.values().filter_map(|entry| {
            entry.routes.iter().find(|(_, route)| route.pool.id == pool).map(|(_, route)| route)
        });
        names.map(|route| route.metrics.requests_total()).sum()
    }
}

impl std::fmt::Debug for Registry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Registry").field(&self.entries.keys()).finish()
    }
}

/// The body of `GET /v1/models`.
fn list(cards: &BTreeMap<String, Value>) -> Bytes {
    Bytes::from(json!({"object": "list", "data": cards.values().collect::<Vec<_>>()}).to_string())
}

fn card(name: &str, created: u64, parent: Option<&str>) -> serde_json::Value {
    let mut card = json!({"id": name, "object": "model", "created": created, "owned_by": "forebay"});
    if let Some(parent) = parent {
        card["parent"] = json!(parent);
    }
    card
}
