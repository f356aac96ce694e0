//! Everything that is known of an endpoint, from wherever it is known.

use std::collections::BTreeMap;

use forebay_admin::{
    AdapterStatus, EndpointStatus, GpuStatus, KvEventStatus, ScrapeStatus, SignalStatus, SpeedStatus,
};
use forebay_config::{Engine, Pool};
use forebay_core::Time;
use forebay_fleet::kv::{KvSource, KvStatus};
use forebay_live::{EndpointKey, EndpointView};
use forebay_proxy::Endpoint;

use super::StatusPage;
use crate::signals_table::Told;

/// How the control API names an endpoint.
pub(crate) fn id(key: EndpointKey) -> String {
    format!("{}.{}.{}", key.gate, key.id.slot, key.id.generation)
}

/// What is read once for all endpoints.
pub(super) struct Described<'a> {
    page: &'a StatusPage,
    now: Time,
    feeds: BTreeMap<String, Vec<KvEventStatus>>,
}

impl<'a> Described<'a> {
    pub(super) fn new(page: &'a StatusPage) -> Described<'a> {
        let mut feeds: BTreeMap<String, Vec<KvEventStatus>> = BTreeMap::new();
        for (source, status) in page.feeds.iter().flat_map(|feeds| feeds.status()) {
            feeds.entry(source.endpoint.clone()).or_default().push(feed(&source, &status));
        }
        Described { page, now: page.proxy.live().clock().now(), feeds }
    }

    pub(super) fn endpoint(
        &self,
        pool: &Pool,
        configured: Option<&forebay_config::Endpoint>,
        view: &EndpointView<Endpoint>,
    ) -> EndpointStatus {
        let told = self.page.table.get(view.key).unwrap_or_default();
        let load = &view.load;
        let url = &view.member.name;
        let detected = told.dialect.filter(|_| pool.engine == Engine::Auto);
        EndpointStatus {
            id: id(view.key),
            pool: pool.name.clone(),
            url: url.clone(),
            engine: detected.map_or(pool.engine.as_str(), |dialect| dialect.as_str()).to_owned(),
            accelerator: configured.and_then(|endpoint| endpoint.accelerator.clone()),
            state: load.state.as_str().to_owned(),
            model_check: self.page.members.model_check(view.key).map(|check| check.as_str().to_owned()),
            weight: load.weight,
            in_flight: u64::from(load.in_flight),
            requests: load.picked,
            owed_ms: load.owed_ms,
            blocks_in_flight: load.blocks,
            foreign_requests: load.foreign,
            ramp: load.ramp,
            speed: SpeedStatus {
                prefill_factor: load.speed.prefill_factor,
                decode_factor: load.speed.decode_factor,
                prefill_ms_per_token: load.speed.prefill_ms_per_token,
                step_ms: load.speed.step_ms,
                network_ms: load.speed.network_ms,
            },
            signal_age_seconds: told.at.map(|at| self.now.since(at).as_secs_f64()),
            signals: signals(pool, &told),
            gpu: GpuStatus {
                utilization: told.signals.gpu.utilization,
                temperature_celsius: told.signals.gpu.temperature_c,
                throttled: told.signals.gpu.throttled(),
            },
            adapters: adapters(self.page.members.adapters(view.key), &told),
            scrapes: ScrapeStatus {
                ok: told.scrapes.0,
                failed: told.scrapes.1,
                last_failure: told.failure.map(str::to_owned),
            },
            kv_events: self.feeds.get(url).cloned().unwrap_or_default(),
        }
    }
}

fn signals(pool: &Pool, told: &Told) -> SignalStatus {
    let signals = &told.signals;
    let counters = &signals.counters;
    let looked_up = counters.prefix_queries.filter(|queries| *queries > 0.0);
    let values = pool.signals.iter().zip(&signals.custom);
    let missing = pool.signals.iter().zip(signals.custom_missing).filter(|(_, missing)| *missing);
    SignalStatus {
        running: signals.running,
        waiting: signals.waiting,
        kv_usage: signals.kv_usage,
        kv_tokens: signals.kv_tokens,
        waiting_tokens: signals.waiting_tokens,
        tokens_per_second: signals.generation_throughput,
        prefix_hit: counters.prefix_hits.zip(looked_up).map(|(hits, queries)| hits / queries),
        custom: values.filter_map(|(named, value)| Some((named.name.clone(), (*value)?))).collect(),
        missing: missing.map(|(named, _)| named.name.clone()).collect(),
        unusable: signals.skipped,
    }
}

fn adapters(listed: Vec<String>, told: &Told) -> AdapterStatus {
    let loaded = told.signals.adapters.as_ref();
    AdapterStatus {
        listed,
        loaded: loaded.map(|adapters| adapters.loaded.clone()).unwrap_or_default(),
        max: loaded.and_then(|adapters| adapters.max),
    }
}

fn feed(source: &KvSource, status: &KvStatus) -> KvEventStatus {
    KvEventStatus {
        rank: source.rank,
        address: source.events.to_string(),
        connected: status.connected,
        events: status.events,
        unreadable: status.unreadable,
        gaps: status.gaps,
        failed_replays: status.failed_replays,
        resets: status.resets,
        restarts: status.restarts,
    }
}
