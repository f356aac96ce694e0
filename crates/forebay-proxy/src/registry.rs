//! Which names clients may ask for, and where each leads.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};

use arc_swap::ArcSwap;
use bytes::Bytes;
use forebay_config::{Config, OrcaAsk, Pool, Slo, Timeouts};
use forebay_core::{ModelId, PoolId, VersionId};
use forebay_metrics::{Metrics, RouteMetrics};
use forebay_rule::Rule;
use forebay_wire::body::BLOCK_BYTES;
use serde_json::{Value, json};

use crate::learned::BytesPerToken;
use crate::tokens::PromptTokens;
use crate::versions::Versions;

/// Output tokens that a request takes before any was seen.
const FIRST_USUAL_OUTPUT: u32 = 200;

/// What the data plane needs to know of a pool.
pub(crate) struct PoolRoute {
    pub(crate) id: PoolId,
    pub(crate) name: String,
    pub(crate) timeouts: Timeouts,
    /// What a good answer is, unless the request says otherwise.
    pub(crate) slo: Slo,
    /// Other endpoints tried when nothing was sent.
    pub(crate) connect_retries: u32,
    pub(crate) preserve_host: bool,
    /// Engines tell of their caches: token ids can be found there exactly.
    pub(crate) kv_events: bool,
    /// Tokens in a block of the index, as the engines' own blocks are; 0 while
    /// none has shown them.
    pub(crate) index_block: AtomicU32,
    /// Adapters have their base model's tokenizer, so that it is one for all.
    pub(crate) bytes_per_token: BytesPerToken,
    /// Who can tell prompts as tokens; set once, before the first request.
    pub(crate) tokens: OnceLock<Arc<dyn PromptTokens>>,
    /// Metrics of load reports that utilisation is computed from.
    pub(crate) orca_metrics: Vec<String>,
    /// In which form endpoints are asked for load reports.
    pub(crate) orca_ask: OrcaAsk,
    /// The operator's own say in which endpoint a request gets.
    pub(crate) rule: Option<Rule>,
}

/// Tokens in a block of the index where engines tell nothing of theirs.
const OWN_BLOCK: u32 = 64;

impl PoolRoute {
    /// Tokens in a block of the index, where prompts can be found there as
    /// tokens; none while that is not known or not asked for.
    pub(crate) fn token_block(&self) -> Option<u32> {
        if self.kv_events {
            return Some(self.index_block.load(Ordering::Relaxed)).filter(|block| *block > 0);
        }
        self.tokens.get().map(|_| OWN_BLOCK)
    }

    /// Tokens that a block of the index stands for, as prompts are found there.
    fn block_tokens(&self) -> f32 {
        let text = || BLOCK_BYTES as f32 / self.bytes_per_token.mean();
        self.token_block().map_or_else(text, |tokens| tokens as f32)
    }
}

/// One requested name on its way to one pool.
pub(crate) struct Route {
    pub(crate) pool: Arc<PoolRoute>,
    /// The name the client asked for.
    pub(crate) model: String,
    pub(crate) model_id: ModelId,
    /// The only version of the endpoints that it may go to.
    pub(crate) version: Option<VersionId>,
    /// The name the engine knows, where it is another one.
    pub(crate) rewrite: Option<String>,
    /// The base model, where this name is a LoRA adapter.
    pub(crate) adapter: Option<String>,
    pub(crate) metrics: RouteMetrics,
    usual_output: AtomicU32,
}

impl Route {
    /// What the engines call the model, and the adapter on it where it is one.
    pub(crate) fn names(&self) -> (&str, Option<&str>) {
        let model = self.rewrite.as_deref().unwrap_or(&self.model);
        match &self.adapter {
            Some(base) => (base, Some(model)),
            None => (model, None),
        }
    }

    /// How many tokens an answer on this route usually has.
    pub(crate) fn usual_output(&self) -> u32 {
        self.usual_output.load(Ordering::Relaxed)
    }

    /// Moves the mean a sixteenth of the way. Two at once may lose one; it is a mean.
    pub(crate) fn learn_output(&self, tokens: u64) {
        let old = u64::from(self.usual_output());
        // No single answer counts for more than a few of the usual ones: what
        // engines state is theirs to state.
        let new = (old * 15 + tokens.min(old * 8 + 1024) + 8) / 16;
        self.usual_output.store(u32::try_from(new).unwrap_or(u32::MAX).max(1), Ordering::Relaxed);
    }
}

/// A requested name: one route, or several by weight.
struct Entry {
    routes: Vec<(f64, Arc<Route>)>,
    /// `GET /v1/models/{id}`
    card: Bytes,
}

/// Adapters that endpoints list and no configuration names, at most: names
/// come from engines, whose adapters clients may be allowed to load.
const MAX_DISCOVERED: usize = 4096;

/// Every name that clients may ask for.
pub struct Registry {
    entries: BTreeMap<String, Entry>,
    /// By their ids.
    pools: Vec<Arc<PoolRoute>>,
    /// Adapters found at endpoints, by name.
    discovered: ArcSwap<Discovered>,
    /// Every list is made anew with it.
    cards: BTreeMap<String, Value>,
    list: ArcSwap<Bytes>,
    next_model: AtomicU32,
    created: u64,
}

/// Names found at endpoints, each with its one route.
type Discovered = BTreeMap<String, Arc<Route>>;

impl Registry {
    /// The route of a name; `draw` decides between weighted targets.
    pub(crate) fn route(&self, model: &str, draw: u64) -> Option<Arc<Route>> {
        let Some(entry) = self.entries.get(model) else {
            return self.discovered.load().get(model).map(Arc::clone);
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

    /// `GET /v1/models`
    pub(crate) fn list(&self) -> Bytes {
        Bytes::clone(&self.list.load())
    }

    /// `GET /v1/models/{id}`
    pub(crate) fn card(&self, model: &str) -> Option<Bytes> {
        if let Some(entry) = self.entries.get(model) {
            return Some(entry.card.clone());
        }
        let route = self.discovered.load().get(model).map(Arc::clone)?;
        Some(Bytes::from(card(model, self.created, route.adapter.as_deref()).to_string()))
    }

    /// The id of an adapter's name, whether the configuration or an endpoint named it.
    pub fn adapter(&self, name: &str) -> Option<ModelId> {
        if let Some(Entry { routes, .. }) = self.entries.get(name) {
            return routes
                .first()
                .filter(|(_, route)| route.adapter.is_some())
                .map(|(_, route)| route.model_id);
        }
        self.discovered.load().get(name).map(|route| route.model_id)
    }

    /// The adapters that the endpoints of a pool list now: those that no
    /// configuration names become known, those that are gone are forgotten.
    /// They are counted under their pool's own model, so that names which come
    /// and go leave no series behind.
    pub fn discover<'a>(&self, pool: PoolId, listed: impl Iterator<Item = &'a str>) {
        let Some(base) = self.base(pool) else { return };
        let old = self.discovered.load();
        let mut new: Discovered =
            old.iter().filter(|(_, r)| r.pool.id != pool).map(|(n, r)| (n.clone(), Arc::clone(r))).collect();
        for name in listed {
            if self.entries.contains_key(name) || new.contains_key(name) || new.len() >= MAX_DISCOVERED {
                continue;
            }
            let route = match old.get(name) {
                Some(route) if route.pool.id == pool => Arc::clone(route),
                _ => Arc::new(Route {
                    pool: Arc::clone(&base.pool),
                    model: name.to_owned(),
                    model_id: ModelId(self.next_model.fetch_add(1, Ordering::Relaxed)),
                    version: None,
                    rewrite: None,
                    adapter: Some(base.model.clone()),
                    metrics: base.metrics.clone(),
                    usual_output: AtomicU32::new(base.usual_output()),
                }),
            };
            new.insert(name.to_owned(), route);
        }
        let same = new.len() == old.len() && new.keys().eq(old.keys());
        if same {
            return;
        }
        let mut cards = self.cards.clone();
        for (name, route) in &new {
            cards.insert(name.clone(), card(name, self.created, route.adapter.as_deref()));
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
        self.pools.get(pool.index()).map_or(OWN_BLOCK as f32, |pool| pool.block_tokens())
    }

    /// The route of a pool's own model.
    fn base(&self, pool: PoolId) -> Option<Arc<Route>> {
        let mut routes = self.entries.values().flat_map(|entry| &entry.routes).map(|(_, route)| route);
        routes.find(|r| r.pool.id == pool && r.adapter.is_none() && r.rewrite.is_none()).map(Arc::clone)
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
        let versions = Versions::of(config);
        let mut entries: BTreeMap<String, Entry> = BTreeMap::new();
        let mut cards = BTreeMap::new();
        let mut next = 0;
        let mut route =
            |pool: &Arc<PoolRoute>, model: &str, rewrite: Option<&str>, adapter: Option<&str>, version| {
                let id = ModelId(next);
                next += 1;
                Arc::new(Route {
                    pool: Arc::clone(pool),
                    model: model.to_owned(),
                    model_id: id,
                    version,
                    rewrite: rewrite.map(str::to_owned),
                    adapter: adapter.map(str::to_owned),
                    metrics: metrics.route(&pool.name, model),
                    usual_output: AtomicU32::new(FIRST_USUAL_OUTPUT),
                })
            };
        let mut pools = Vec::with_capacity(config.pools.len());
        let mut serving: BTreeMap<&str, (Arc<PoolRoute>, Option<&str>)> = BTreeMap::new();
        for (i, pool) in config.pools.iter().enumerate() {
            let shared = Arc::new(PoolRoute {
                id: PoolId(i as u32),
                name: pool.name.clone(),
                timeouts: pool.timeouts,
                slo: pool.slo,
                connect_retries: pool.retry.connect,
                preserve_host: pool.preserve_host,
                kv_events: pool.endpoints.iter().any(|endpoint| pool.kv_events_of(endpoint).is_some()),
                index_block: AtomicU32::new(0),
                bytes_per_token: BytesPerToken::default(),
                tokens: OnceLock::new(),
                orca_metrics: pool.orca.metrics.clone(),
                orca_ask: pool.orca.ask,
                rule: rule(pool),
            });
            pools.push(Arc::clone(&shared));
            let parents = std::iter::once(None).chain(pool.adapters.iter().map(|_| Some(&*pool.model)));
            for (name, parent) in std::iter::once(&pool.model).chain(&pool.adapters).zip(parents) {
                serving.insert(name, (Arc::clone(&shared), parent));
                cards.insert(name.clone(), card(name, created, parent));
                let entry = Entry {
                    routes: vec![(1.0, route(&shared, name, None, parent, None))],
                    card: Bytes::new(),
                };
                entries.insert(name.clone(), entry);
            }
        }
        for alias in &config.models {
            let routes = alias
                .targets
                .iter()
                .filter_map(|target| {
                    let (pool, parent) = serving.get(&*target.model)?;
                    let version = target.version.as_deref().and_then(|name| versions.id(name));
                    let rewrite = (target.model != alias.name).then_some(&*target.model);
                    Some((target.weight, route(pool, &alias.name, rewrite, *parent, version)))
                })
                .collect();
            cards.insert(alias.name.clone(), card(&alias.name, created, None));
            entries.insert(alias.name.clone(), Entry { routes, card: Bytes::new() });
        }
        for (name, entry) in &mut entries {
            entry.card = cards.get(name).map(|card| Bytes::from(card.to_string())).unwrap_or_default();
        }
        let list = ArcSwap::from_pointee(list(&cards));
        let discovered = ArcSwap::default();
        Registry { entries, pools, discovered, cards, list, next_model: AtomicU32::new(next), created }
    }
}

/// The pool's rule. That it compiles was seen when the configuration was read.
fn rule(pool: &Pool) -> Option<Rule> {
    let rule = pool.rule.as_ref()?;
    let signals: Vec<&str> = pool.signals.iter().map(|signal| &*signal.name).collect();
    match Rule::compile(rule.filter.as_deref(), rule.cost_ms.as_deref(), &signals) {
        Ok(rule) => Some(rule),
        Err(error) => {
            tracing::error!(pool = pool.name, %error, "the pool's rule does not compile and is not used");
            None
        }
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
