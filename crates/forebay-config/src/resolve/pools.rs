//! Pools and endpoints.

use std::collections::BTreeMap;

use super::Resolver;
use super::models::Names;
use crate::choices::{Engine, Protocol};
use crate::error::quote;
use crate::kinds::WeightSource;
use crate::places::join;
use crate::pool::{Pool, Slo};
use crate::raw::{RawPool, RawPoolLimits, RawSlo};
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
        let weights = self.field(&raw.weights, path, "weights", WeightSource::Static);
        let pool = Pool {
            adapters: adapters
                .map(|(index, adapter)| {
                    self.scalar(adapter, &format!("{path}.adapters[{index}]")).unwrap_or_default()
                })
                .collect(),
            engine: self.field(&raw.engine, path, "engine", Engine::default()),
            engine_key: self.optional(&raw.engine_key, path, "engine_key"),
            policy: self.field(&raw.policy, path, "policy", default.policy),
            discover_adapters: self.field(
                &raw.discover_adapters,
                path,
                "discover_adapters",
                default.discover_adapters,
            ),
            profile: self.field(&raw.profile, path, "profile", default.profile),
            shadow_policy: self.optional(&raw.shadow_policy, path, "shadow_policy"),
            fallback: self.field(&raw.fallback, path, "fallback", default.fallback),
            dynamic_weights: weights == WeightSource::Dynamic,
            rule: self.rule(raw.rule.as_ref(), raw.signals.as_ref(), &join(path, "rule")),
            signals: self.signals(raw.signals.as_ref(), &join(path, "signals")),
            slow_start: self.slow_start(raw.slow_start.as_ref(), &join(path, "slow_start")),
            warm_up: self.warm_up(raw.warm_up.as_ref(), &join(path, "warm_up")),
            scrape: self.scrape(raw.scrape.as_ref(), &join(path, "scrape")),
            orca: self.orca(raw.orca.as_ref(), &join(path, "orca")),
            tokenizer: self.tokenizer(raw.tokenizer.as_ref(), &join(path, "tokenizer")),
            kv_events: self.kv_events(raw.kv_events.as_ref(), &join(path, "kv_events")),
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
        };
        self.check_kv_events(&pool, path);
        pool
    }

    fn slo(&mut self, raw: Option<&RawSlo>, path: &str) -> Slo {
        let base = Slo::default();
        let Some(raw) = raw else { return base };
        Slo {
            ttft: self.field(&raw.ttft, path, "ttft", base.ttft),
            tpot: self.field(&raw.tpot, path, "tpot", base.tpot),
        }
    }
}
