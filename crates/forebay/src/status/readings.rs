//! Figures that others keep, on their way to the metrics page. Read when the
//! page is asked for, so that a request costs nothing here.

use std::collections::BTreeMap;

use forebay_core::{PoolId, Time};
use forebay_gate::ErrorSummary;
use forebay_live::EndpointView;
use forebay_metrics::{
    DecisionLogReading, EndpointTold, KvReading, PoolReading, PredictionError, PrefixIndexReading,
    ShadowReading,
};
use forebay_proxy::Endpoint;

use super::StatusPage;

impl StatusPage {
    /// Brings every figure up to date.
    pub(super) fn read(&self) {
        let live = self.proxy.live();
        let metrics = self.proxy.metrics();
        let now = live.clock().now();
        let feeds = self.connected_feeds();
        for view in live.endpoints() {
            self.read_endpoint(&view, now, feeds.get(&view.member.name).copied());
        }
        for (i, handle) in self.pools.iter().enumerate() {
            if let Some(reading) = self.pool_reading(PoolId(i as u32)) {
                handle.set(&reading);
            }
        }
        let mut index = PrefixIndexReading::default();
        for (_, held) in live.indexes() {
            let stats = held.stats();
            index.bytes += held.bytes() as u64;
            index.blocks += stats.blocks;
            index.evicted_by_capacity += stats.evicted_by_capacity;
            index.evicted_by_memory += stats.evicted_by_bytes;
        }
        index.bytes += self.caches.as_ref().map_or(0, |caches| caches.bytes() as u64);
        metrics.set_prefix_index(index);
        metrics.set_kv_events(self.kv_reading());
        metrics.set_kv_blocks(self.caches.as_ref().map(|caches| caches.blocks()));
        metrics.set_decision_log(live.log_counts().map(|counts| DecisionLogReading {
            written: counts.written,
            lost: counts.lost,
            failed: counts.failed,
            full: counts.full,
        }));
    }

    /// Whether all publishers of KV events of each endpoint are connected.
    fn connected_feeds(&self) -> BTreeMap<String, bool> {
        let mut up = BTreeMap::new();
        for (source, status) in self.feeds.iter().flat_map(|feeds| feeds.status()) {
            *up.entry(source.endpoint).or_insert(true) &= status.connected;
        }
        up
    }

    fn read_endpoint(&self, view: &EndpointView<Endpoint>, now: Time, kv_feed_up: Option<bool>) {
        let handle = view.member.upstream().metrics();
        let load = &view.load;
        handle.load(u64::from(load.in_flight), load.picked);
        let speed = EndpointTold {
            weight: load.weight_in_use,
            prefill_factor: Some(load.speed.prefill_factor),
            decode_factor: Some(load.speed.decode_factor),
            kv_feed_up,
            ..EndpointTold::default()
        };
        let mut pools = view.pools.iter().filter_map(|pool| self.config.pools.get(pool.index()));
        let has_signals = pools.any(|pool| !pool.signals.is_empty());
        let told = self.table.with(view.key, |told| EndpointTold {
            signal_age: told.at.map(|at| now.since(at)),
            running: told.signals.running,
            waiting: told.signals.waiting,
            kv_usage: told.signals.kv_usage.map(f64::from),
            unusable_values: told.at.map(|_| told.signals.skipped),
            missing_signals: told.at.filter(|_| has_signals).map(|_| told.missing()),
            gpu_utilization: told.signals.gpu.utilization.map(f64::from),
            gpu_temperature_celsius: told.signals.gpu.temperature_c.map(f64::from),
            gpu_throttled: told.signals.gpu.throttled(),
            scrapes_ok: told.scrapes.0,
            scrapes_failed: told.scrapes.1,
            ..speed
        });
        handle.told(&told.unwrap_or(speed));
    }

    fn pool_reading(&self, id: PoolId) -> Option<PoolReading> {
        let load = self.proxy.live().pool(id)?;
        // Without one nothing is compared, also when there was one before.
        let shadowed = self.deciding.of(id).config.shadow.is_some();
        let error = |error: Option<ErrorSummary>| {
            error.map(|e| PredictionError { bias: e.bias, mean: e.mean, p50: e.p50, p90: e.p90 })
        };
        Some(PoolReading {
            fallback: load.fallback,
            ttft_error: error(load.ttft_error),
            tpot_error: error(load.tpot_error),
            output_error: error(load.output_error),
            broken_predictions: Some(load.broken_predictions),
            tpot_correction: Some(load.tpot_correction),
            adapter_load_seconds: Some(load.adapter_load_ms * 1e-3),
            rule_without_opinion: self.proxy.registry().rule_without_opinion(id),
            shadow: shadowed.then_some(ShadowReading {
                asked: load.shadow_asked,
                agreed: load.shadow_agreed,
                dearer_ms: load.shadow_dearer_ms,
                cheaper_ms: load.shadow_cheaper_ms,
            }),
        })
    }

    fn kv_reading(&self) -> Option<KvReading> {
        let feeds = self.feeds.as_ref()?;
        let mut sum = KvReading::default();
        for (_, status) in feeds.status() {
            sum.applied += status.events;
            sum.skipped += status.skipped;
            sum.unreadable += status.unreadable;
            sum.disconnected += status.failures;
            sum.gaps += status.gaps;
            sum.failed_replays += status.failed_replays;
            sum.resets += status.resets;
            sum.restarts += status.restarts;
        }
        sum.mixed_blocks = self.caches.as_ref().map_or(0, |caches| caches.mixed());
        Some(sum)
    }
}
