//! From a configuration to the names that clients may ask for.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;

use arc_swap::ArcSwap;
use bytes::Bytes;
use forebay_config::Config;
use forebay_core::{ModelId, PoolId};
use forebay_metrics::Metrics;
use parking_lot::Mutex;

use super::{Entry, Registry, card, list};
use crate::model_route::{Base, Route};
use crate::pool_route::PoolRoute;
use crate::versions::Versions;

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
        let mut bases = Vec::with_capacity(config.pools.len());
        let mut next = 0;
        for (i, pool) in config.pools.iter().enumerate() {
            let shared = Arc::new(PoolRoute::new(PoolId(i as u32), pool));
            let mut own = |name: &String, base: Option<&Base>| {
                let route = Arc::new(Route {
                    pool: Arc::clone(&shared),
                    model: name.clone(),
                    model_id: ModelId(next),
                    version: None,
                    rewrite: None,
                    adapter: base.cloned(),
                    metrics: metrics.route(&pool.name, name),
                });
                next += 1;
                cards.insert(name.clone(), card(name, created, base.map(|base| &*base.name)));
                entries.insert(
                    name.clone(),
                    Entry { routes: vec![(1.0, Arc::clone(&route))], card: Bytes::new() },
                );
                route
            };
            let route = own(&pool.model, None);
            let base = Base { name: pool.model.clone(), id: route.model_id };
            bases.push(route);
            for name in &pool.adapters {
                own(name, Some(&base));
            }
        }
        for alias in &config.models {
            let routes = alias
                .targets
                .iter()
                .filter_map(|target| {
                    let (_, leads_to) = entries.get(&target.model)?.routes.first()?;
                    let route = Route {
                        pool: Arc::clone(&leads_to.pool),
                        model: alias.name.clone(),
                        model_id: leads_to.model_id,
                        version: target.version.as_deref().and_then(|name| versions.id(name)),
                        rewrite: Some(target.model.clone()),
                        adapter: leads_to.adapter.clone(),
                        metrics: metrics.route(&leads_to.pool.name, &alias.name),
                    };
                    Some((target.weight, Arc::new(route)))
                })
                .collect();
            cards.insert(alias.name.clone(), card(&alias.name, created, None));
            entries.insert(alias.name.clone(), Entry { routes, card: Bytes::new() });
        }
        for (name, entry) in &mut entries {
            entry.card = cards.get(name).map(|card| Bytes::from(card.to_string())).unwrap_or_default();
        }
        Registry {
            entries,
            bases,
            discovered: ArcSwap::default(),
            listed: Mutex::default(),
            list: ArcSwap::from_pointee(list(&cards)),
            cards,
            next_model: AtomicU32::new(next),
            created,
        }
    }
}
