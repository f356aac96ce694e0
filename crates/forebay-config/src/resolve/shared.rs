//! Addresses that two endpoints would share by mistake: what one engine says
//! there would be taken for the other's.

use std::collections::BTreeMap;

use super::Resolver;
use crate::choices::Engine;
use crate::endpoint_url::EndpointUrl;
use crate::error::quote;
use crate::pool::{Endpoint, Pool};
use crate::prefix::publishers;
use crate::raw::RawPool;

/// Triton's page of metrics, where the file names none.
const TRITON_PAGE: &str = ":8002/metrics";

impl Resolver<'_> {
    /// Refuses publishers of KV-cache events that several endpoints would follow.
    pub(super) fn check_publishers(&mut self, raw: &[RawPool], pools: &[Pool]) {
        if !self.errors.is_empty() {
            // The lists may not be as long as the file's.
            return;
        }
        for (first, second) in publishers::shared(pools) {
            let pool = &pools[second.pool];
            if pool.is_default_publisher(&pool.endpoints[second.endpoint]) {
                // The engines may say for themselves where they publish: a warning is enough.
                continue;
            }
            let own = pool.endpoints[second.endpoint].kv_events.is_some();
            let path = match own {
                true => format!("{}.kv_events", second.path()),
                false => format!("pools[{}].kv_events.url", second.pool),
            };
            let message = format!(
                "leads to the same publisher for the endpoints {} and {}, so that one's cache would be taken for the \
                 other's; give each endpoint its own kv_events{}",
                written(raw, first.pool, first.endpoint),
                written(raw, second.pool, second.endpoint),
                if second.ranks + first.ranks > 2 { "; each rank takes a port of its own" } else { "" },
            );
            self.error_with(&path, message, &[(&first.path(), "the first of them")]);
        }
    }

    /// Refuses a page of metrics that nobody wrote down and that is another
    /// endpoint's as well.
    pub(super) fn check_metrics_pages(&mut self, raw: &[RawPool], pools: &[Pool]) {
        if !self.errors.is_empty() {
            return;
        }
        // By page: the first endpoint there, and whether its file names the page.
        let mut pages: BTreeMap<String, (usize, usize, bool)> = BTreeMap::new();
        for (p, pool) in pools.iter().enumerate().filter(|(_, pool)| pool.scrape.enabled) {
            for (e, endpoint) in pool.endpoints.iter().enumerate() {
                let Some((page, named)) = metrics_page(pool, endpoint) else { continue };
                let Some((first_pool, first, first_named)) = pages.get(&page).copied() else {
                    pages.insert(page, (p, e, named));
                    continue;
                };
                if (named && first_named) || pools[first_pool].endpoints[first].name == endpoint.name {
                    continue;
                }
                let message = format!(
                    "would be taken to be as busy as {}, whose metrics are at the same address (Triton's are at \
                     {TRITON_PAGE} unless metrics_url says otherwise); give each its metrics_url",
                    written(raw, first_pool, first),
                );
                let first = format!("pools[{first_pool}].endpoints[{first}].url");
                let field = if named { "metrics_url" } else { "url" };
                let path = format!("pools[{p}].endpoints[{e}].{field}");
                self.error_with(&path, message, &[(&first, "the other one")]);
            }
        }
    }
}

/// An endpoint's URL as the file has it.
fn written(raw: &[RawPool], pool: usize, endpoint: usize) -> String {
    let endpoint = raw.get(pool).and_then(|pool| pool.endpoints.as_ref()?.get(endpoint));
    endpoint.and_then(|endpoint| endpoint.url.as_ref()).map_or_else(String::new, |url| quote(&url.text))
}

/// Where the load of an endpoint is read, as far as the file says, and whether it
/// says so itself.
fn metrics_page(pool: &Pool, endpoint: &Endpoint) -> Option<(String, bool)> {
    if let Some(url) = &endpoint.metrics_url {
        return Some((url.clone(), true));
    }
    let url = EndpointUrl { port: 8002, path_prefix: "/metrics".to_owned(), ..endpoint.url.clone() };
    (pool.engine == Engine::Triton).then(|| (url.to_string(), false))
}
