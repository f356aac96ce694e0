//! Pools and endpoints.

use std::collections::BTreeMap;

use super::Resolver;
use super::models::Names;
use crate::choices::{Engine, Protocol};
use crate::endpoint_url::EndpointUrl;
use crate::error::quote;
use crate::places::join;
use crate::pool::{Endpoint, Pool, Slo};
use crate::raw::{RawEndpoint, RawPool, RawPoolLimits, RawSlo};
use crate::sections::{Health, Retry, Timeouts};

/// What a pool has when it does not say otherwise.
pub(super) struct Inherited {
    pub(super) timeouts: Timeouts,
    pub(super) health: Health,
    pub(super) retry: Retry,
}

impl Resolver<'_> {
    pub(super) fn pools(
        &mut self,
        raw: Option<&[RawPool]>,
        inherited: &Inherited,
        names: &mut Names,
    ) -> Vec<Pool> {
        let raw = raw.unwrap_or_default();
        if raw.is_empty() {
            let message = "at least one pool is needed: a name, a model and its endpoints";
            self.error("pools", message.to_owned());
        }
        let mut seen: BTreeMap<String, String> = BTreeMap::new();
        let mut pools = Vec::new();
        for (index, raw) in raw.iter().enumerate() {
            let path = format!("pools[{index}]");
            let pool = self.pool(raw, inherited, &path);
            if let Some(first) = seen.get(&pool.name).filter(|_| !pool.name.is_empty()) {
                let shown = raw.name.as_ref().map_or_else(String::new, |name| quote(&name.text));
                self.error_with(
                    &join(&path, "name"),
                    format!("two pools are called {shown}; pool names must be unique"),
                    &[(first, "the other one")],
                );
            } else {
                seen.insert(pool.name.clone(), join(&path, "name"));
            }
            self.claim_models(raw, &pool, &path, names);
            pools.push(pool);
        }
        pools
    }

    fn pool(&mut self, raw: &RawPool, inherited: &Inherited, path: &str) -> Pool {
        let name = self.required(&raw.name, path, "name").unwrap_or_default();
        let model = self.required(&raw.model, path, "model").unwrap_or_default();
        let default = Pool::new(name, model);
        self.later(path, &[("drain", raw.drain)]);
        let adapters = raw.adapters.as_deref().unwrap_or_default().iter().enumerate();
        let in_flight = match &raw.limits {
            Some(RawPoolLimits { in_flight }) => self.count(in_flight, &join(path, "limits"), "in_flight", 0),
            None => 0,
        };
        Pool {
            adapters: adapters
                .map(|(index, adapter)| {
                    self.scalar(adapter, &format!("{path}.adapters[{index}]")).unwrap_or_default()
                })
                .collect(),
            engine: self.field(&raw.engine, path, "engine", Engine::default()),
            policy: self.field(&raw.policy, path, "policy", default.policy),
            protocol: self.field(&raw.protocol, path, "protocol", Protocol::default()),
            slo: self.slo(raw.slo.as_ref(), &join(path, "slo")),
            endpoints: self.endpoints(raw.endpoints.as_deref(), path),
            timeouts: self.timeouts(raw.timeouts.as_ref(), inherited.timeouts, &join(path, "timeouts")),
            health: self.health(raw.health.as_ref(), inherited.health.clone(), &join(path, "health")),
            retry: self.retry(raw.retry.as_ref(), inherited.retry, &join(path, "retry")),
            preserve_host: self.field(&raw.preserve_host, path, "preserve_host", default.preserve_host),
            hash_balance_factor: self.field(
                &raw.hash_balance_factor,
                path,
                "hash_balance_factor",
                default.hash_balance_factor,
            ),
            h2_connections: self.count(&raw.h2_connections, path, "h2_connections", default.h2_connections),
            max_dials: self.count(&raw.max_dials, path, "max_dials", default.max_dials),
            in_flight: (in_flight > 0).then_some(in_flight),
            ..default
        }
    }

    fn slo(&mut self, raw: Option<&RawSlo>, path: &str) -> Slo {
        let base = Slo::default();
        let Some(raw) = raw else { return base };
        Slo {
            ttft: self.field(&raw.ttft, path, "ttft", base.ttft),
            tpot: self.field(&raw.tpot, path, "tpot", base.tpot),
        }
    }

    fn endpoints(&mut self, raw: Option<&[RawEndpoint]>, pool_path: &str) -> Vec<Endpoint> {
        let raw = raw.unwrap_or_default();
        if raw.is_empty() {
            let message = "at least one endpoint is needed, such as - url: http://127.0.0.1:8000";
            self.error(&join(pool_path, "endpoints"), message.to_owned());
        }
        let mut seen: BTreeMap<EndpointUrl, String> = BTreeMap::new();
        let mut endpoints = Vec::new();
        for (index, raw) in raw.iter().enumerate() {
            let path = format!("{pool_path}.endpoints[{index}]");
            let url = self.required(&raw.url, &path, "url");
            let weight = self.field(&raw.weight, &path, "weight", 1.0);
            let accelerator = self.optional(&raw.accelerator, &path, "accelerator");
            let zone = self.optional(&raw.zone, &path, "zone");
            let Some(url) = url else { continue };
            let url_path = join(&path, "url");
            if let Some(first) = seen.get(&url) {
                let written = raw.url.as_ref().map_or_else(String::new, |url| quote(&url.text));
                self.error_with(
                    &url_path,
                    format!("{written} is in this pool twice; spellings of one address count as the same"),
                    &[(first, "the first one")],
                );
                continue;
            }
            seen.insert(url.clone(), url_path);
            endpoints.push(Endpoint { weight, accelerator, zone, ..Endpoint::new(url) });
        }
        endpoints
    }
}
