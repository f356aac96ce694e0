//! What the control plane shows of a running gateway.

mod decisions;
mod edits;
mod endpoints;
mod fallbacks;
mod readings;

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

use forebay_admin::{
    DecisionView, PoolReadiness, PoolStatus, PredictionError, PrefixIndexStatus, Readiness, RequestTotals,
    ShadowStatus, Status, StatusSource,
};
use forebay_config::{Config, Endpoint as ConfiguredEndpoint, Pool};
use forebay_core::PoolId;
use forebay_fleet::Fleet;
use forebay_fleet::kv::KvFeeds;
use forebay_gate::{ErrorSummary, PoolLoad};
use forebay_live::EndpointView;
use forebay_metrics::PoolMetrics;
use forebay_proxy::{DrainPhase, Endpoint, Proxy};

use crate::control::{Decides, Deciding, Watched};
use crate::kv::Caches;
use crate::members::Members;
use crate::signals_table::SignalsTable;

pub(crate) use edits::adapters_of as adapter_edits_of;
pub(crate) use endpoints::id as endpoint_id;
pub(crate) use fallbacks::watch as watch_fallbacks;

/// Reads the state of the gateway when asked, and changes it when told.
pub(crate) struct StatusPage {
    pub(crate) proxy: Arc<Proxy>,
    pub(crate) members: Arc<Members>,
    pub(crate) fleet: Weak<Fleet<Members>>,
    pub(crate) watched: Watched,
    /// How each pool decides now.
    pub(crate) deciding: Deciding,
    pub(crate) config: Config,
    table: Arc<SignalsTable>,
    feeds: Option<Arc<KvFeeds>>,
    caches: Option<Arc<Caches>>,
    pools: Vec<PoolMetrics>,
    file: Option<String>,
}

/// What a page is made of.
pub(crate) struct Sources {
    pub(crate) proxy: Arc<Proxy>,
    pub(crate) members: Arc<Members>,
    pub(crate) fleet: Weak<Fleet<Members>>,
    /// What the fleet watches.
    pub(crate) watched: Watched,
    pub(crate) table: Arc<SignalsTable>,
    /// None where no engine tells what it holds.
    pub(crate) feeds: Option<Arc<KvFeeds>>,
    pub(crate) caches: Option<Arc<Caches>>,
}

impl StatusPage {
    pub(crate) fn new(sources: Sources, config: Config, file: Option<String>) -> StatusPage {
        let Sources { proxy, members, fleet, watched, table, feeds, caches } = sources;
        let pools = config.pools.iter().map(|pool| proxy.metrics().pool(&pool.name)).collect();
        let deciding = Deciding::new(&config);
        StatusPage { proxy, members, fleet, watched, deciding, config, table, feeds, caches, pools, file }
    }

    /// Every pool as it is now.
    pub(crate) fn pools(&self) -> Vec<PoolStatus> {
        let endpoints = self.proxy.live().endpoints();
        let described = endpoints::Described::new(self);
        let pools = self.config.pools.iter().enumerate();
        pools.map(|(i, pool)| self.pool(PoolId(i as u32), pool, &endpoints, &described)).collect()
    }

    fn pool(
        &self,
        id: PoolId,
        pool: &Pool,
        endpoints: &[EndpointView<Endpoint>],
        described: &endpoints::Described<'_>,
    ) -> PoolStatus {
        let load = self.proxy.live().pool(id);
        let decides = self.deciding.of(id);
        let members: Vec<_> = endpoints.iter().filter(|view| view.pools.contains(&id)).collect();
        let configured: BTreeMap<&str, &ConfiguredEndpoint> =
            pool.endpoints.iter().map(|endpoint| (&*endpoint.name, endpoint)).collect();
        let gate = members.first().map(|view| view.key.gate);
        PoolStatus {
            name: pool.name.clone(),
            model: pool.model.clone(),
            policy: decides.config.policy.to_string(),
            profile: decides.config.profile.to_string(),
            fallback: load.is_some_and(|load| load.fallback),
            ready: load.map_or(0, |load| load.ready),
            in_flight: load.map_or(0, |load| load.in_flight.into()),
            waiting: load.map_or(0, |load| load.waiting.into()),
            ttft_error: load.and_then(|load| load.ttft_error).map(told),
            tpot_error: load.and_then(|load| load.tpot_error).map(told),
            output_error: load.and_then(|load| load.output_error).map(told),
            broken_predictions: load.map_or(0.0, |load| load.broken_predictions),
            tpot_correction: load.map_or(1.0, |load| load.tpot_correction),
            adapter_load_ms: load.map_or(0.0, |load| load.adapter_load_ms),
            shadow: load.and_then(|load| shadow(&decides, &load)),
            prefix_index: gate.map(|gate| self.index(gate)).unwrap_or_default(),
            endpoints: members
                .iter()
                .map(|view| described.endpoint(pool, configured.get(&*view.member.name).copied(), view))
                .collect(),
        }
    }

    fn index(&self, gate: u32) -> PrefixIndexStatus {
        self.proxy.live().index(gate).map_or_else(PrefixIndexStatus::default, |index| {
            let stats = index.stats();
            PrefixIndexStatus {
                bytes: index.bytes() as u64,
                blocks: stats.blocks,
                evicted_by_capacity: stats.evicted_by_capacity,
                evicted_by_memory: stats.evicted_by_bytes,
            }
        })
    }
}

fn told(error: ErrorSummary) -> PredictionError {
    PredictionError {
        count: error.count.into(),
        bias: error.bias,
        mean: error.mean,
        p50: error.p50,
        p90: error.p90,
    }
}

/// The counts since this shadow policy was set.
fn shadow(decides: &Decides, load: &PoolLoad) -> Option<ShadowStatus> {
    let policy = decides.config.shadow?;
    let asked = load.shadow_asked.saturating_sub(decides.shadow_since.asked);
    let agreed = load.shadow_agreed.saturating_sub(decides.shadow_since.agreed);
    let difference = load.shadow_dearer_ms - load.shadow_cheaper_ms - decides.shadow_since.difference_ms;
    let mean = |sum: f64| (asked > 0).then(|| sum / asked as f64);
    Some(ShadowStatus {
        policy: policy.to_string(),
        asked,
        agreement: mean(agreed as f64),
        mean_difference_ms: mean(difference),
    })
}

impl StatusSource for StatusPage {
    fn status(&self) -> Status {
        let metrics = self.proxy.metrics();
        let pools = self.config.pools.len();
        let total = (0..pools).map(|i| self.proxy.registry().requests(PoolId(i as u32))).sum();
        Status {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            uptime_seconds: self.proxy.live().clock().now().as_millis_f64() / 1e3,
            config_file: self.file.clone(),
            draining: self.proxy.phase() != DrainPhase::Serving,
            requests: RequestTotals {
                total,
                rejected: metrics.rejected_total(),
                retries: metrics.retried_total(),
                in_flight: u64::from(self.proxy.requests_in_flight()),
                client_connections: u64::from(self.proxy.open_connections()),
            },
            pools: self.pools(),
            body_edits: self.edits(),
        }
    }

    fn ready(&self) -> Readiness {
        let draining = self.proxy.phase() != DrainPhase::Serving;
        Readiness {
            serving: !draining,
            draining,
            pools: self
                .config
                .pools
                .iter()
                .enumerate()
                .map(|(i, pool)| PoolReadiness {
                    name: pool.name.clone(),
                    ready: self.proxy.live().pool(PoolId(i as u32)).map_or(0, |pool| pool.ready),
                })
                .collect(),
        }
    }

    fn decisions(&self, last: usize) -> Vec<DecisionView> {
        self.explain(last)
    }

    fn metrics(&self) -> String {
        self.read();
        let metrics = self.proxy.metrics();
        metrics.set_process(forebay_admin::process_stats());
        metrics.render()
    }
}
