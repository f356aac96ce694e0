//! Typed handles for every metric of Forebay.
//!
//! Handles are resolved when the configuration is loaded and recorded from
//! anywhere; recording a usual value is a few relaxed atomic operations,
//! without a lock and without an allocation. [`Metrics::render`] writes all
//! of them in the classic Prometheus text format, version 0.0.4.
//!
//! Label values come from closed sets only: the enums of this crate, and the
//! pools, models and endpoints of the configuration. What a client may choose
//! freely (a model or a path that does not exist) is recorded by
//! [`Metrics::unrouted`]. The series of a pool, model or endpoint go away with
//! the last clone of their handle.
//!
//! This crate is pure: times and process figures are passed in.

mod cells;
mod endpoint;
mod histogram;
mod knowledge;
mod labels;
mod names;
mod pool;
mod process;
mod render;
mod route;
mod table;
mod writer;

use std::sync::Arc;
use std::time::Duration;

pub use cells::Gauge;
pub use endpoint::{EndpointMetrics, EndpointTold};
pub use knowledge::{DecisionLogReading, KvBlocksReading, KvReading, PrefixIndexReading};
pub use labels::{
    Agreed, Dial, EndpointStateLabel, ErrorStatistic, Eviction, KvBlock, KvEvent, KvFault, LogEntry,
    OutcomeLabel, Page, Probe, Reject, Retry, Scrape, ThanChosen, Tokenized,
};
pub use names::{ALL, Definition, Kind};
pub use pool::{PoolMetrics, PoolReading, PredictionError, ShadowReading};
pub use process::ProcessStats;
pub use route::RouteMetrics;

use cells::Counter;
use endpoint::EndpointSeries;
use histogram::Histogram;
use knowledge::Knowledge;
use labels::PerLabel;
use pool::PoolSeries;
use process::ProcessSeries;
use route::RouteSeries;
use table::Table;

/// The value of the Content-Type header for what [`Metrics::render`] returns.
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Every metric of one process. Cloning gives another handle to the same series.
#[derive(Clone)]
pub struct Metrics {
    inner: Arc<Inner>,
}

/// The series themselves, as `render` reads them.
struct Inner {
    version: String,
    routes: Table<RouteSeries>,
    unrouted: RouteMetrics,
    endpoints: Table<EndpointSeries>,
    pools: Table<PoolSeries>,
    knowledge: Knowledge,
    scrapes: PerLabel<Page, ScrapeTime>,
    rejected: PerLabel<Reject, Counter>,
    retries: PerLabel<Retry, Counter>,
    decisions: Histogram,
    connections: ClientConnections,
    draining: Gauge,
    process: ProcessSeries,
}

impl Metrics {
    /// All metrics at zero. `version` is the label of `forebay_build_info`.
    pub fn new(version: &str) -> Metrics {
        let routes = Table::new();
        let unrouted = RouteMetrics::new(routes.get_or_insert("none", "other", RouteSeries::new));
        Metrics {
            inner: Arc::new(Inner {
                version: version.to_owned(),
                routes,
                unrouted,
                endpoints: Table::new(),
                pools: Table::new(),
                knowledge: Knowledge::default(),
                scrapes: PerLabel::default(),
                rejected: PerLabel::default(),
                retries: PerLabel::default(),
                decisions: Histogram::new(&histogram::DECISION),
                connections: ClientConnections::default(),
                draining: Gauge::default(),
                process: ProcessSeries::default(),
            }),
        }
    }

    /// The handle for requests of one configured model in one configured pool.
    ///
    /// Call it when a configuration is loaded, never with a name that a client
    /// chose. The same names give the same series as long as one clone lives,
    /// so a reload that takes the new handle before it drops the old one keeps
    /// the counts.
    pub fn route(&self, pool: &str, model: &str) -> RouteMetrics {
        RouteMetrics::new(self.inner.routes.get_or_insert(pool, model, RouteSeries::new))
    }

    /// The handle for requests that never got a route: unknown path or model,
    /// or refused before the model was known. Labels `pool="none"`, `model="other"`.
    pub fn unrouted(&self) -> RouteMetrics {
        self.inner.unrouted.clone()
    }

    /// The handle for one endpoint of one pool; as with [`Metrics::route`] its
    /// series live as long as a clone of it does, or until [`EndpointMetrics::remove`].
    pub fn endpoint(&self, pool: &str, endpoint: &str) -> EndpointMetrics {
        EndpointMetrics::new(self.inner.endpoints.get_or_insert(pool, endpoint, EndpointSeries::new))
    }

    /// The handle for one pool of the configuration; its series live as long as
    /// a clone of it does.
    pub fn pool(&self, pool: &str) -> PoolMetrics {
        PoolMetrics::new(self.inner.pools.get_or_insert(pool, "", PoolSeries::new))
    }

    /// Records how long one page of an endpoint took, whatever came of it.
    pub fn scraped(&self, page: Page, took: Duration) {
        self.inner.scrapes.of(page).0.observe(took);
    }

    /// Stores what the prefix index holds.
    pub fn set_prefix_index(&self, reading: PrefixIndexReading) {
        self.inner.knowledge.set_index(reading);
    }

    /// Stores what engines said of their caches; none while no engine is asked to.
    pub fn set_kv_events(&self, reading: Option<KvReading>) {
        self.inner.knowledge.set_kv_events(reading);
    }

    /// Stores what became of the blocks that KV-cache events told of.
    pub fn set_kv_blocks(&self, reading: Option<KvBlocksReading>) {
        self.inner.knowledge.set_kv_blocks(reading);
    }

    /// Stores what the decision log has done; none while there is none.
    pub fn set_decision_log(&self, reading: Option<DecisionLogReading>) {
        self.inner.knowledge.set_log(reading);
    }

    /// Counts a request that the gateway itself refused.
    pub fn rejected(&self, reason: Reject) {
        self.inner.rejected.of(reason).add(1);
    }

    /// Counts a request that was sent to an endpoint a second time.
    pub fn retried(&self, reason: Retry) {
        self.inner.retries.of(reason).add(1);
    }

    /// Requests refused so far, over all reasons.
    pub fn rejected_total(&self) -> u64 {
        self.inner.rejected.iter().map(|(_, cell)| cell.get()).sum()
    }

    /// Requests sent a second time so far, over all reasons.
    pub fn retried_total(&self) -> u64 {
        self.inner.retries.iter().map(|(_, cell)| cell.get()).sum()
    }

    /// Records how long one decision took, the wait for the Gate's lock included.
    pub fn decision(&self, took: Duration) {
        self.inner.decisions.observe(took);
    }

    /// The gauge of open client connections.
    pub fn connections(&self) -> &ClientConnections {
        &self.inner.connections
    }

    /// Says whether the process is draining.
    pub fn set_draining(&self, draining: bool) {
        self.inner.draining.set(i64::from(draining));
    }

    /// Stores what the operating system said of this process last.
    pub fn set_process(&self, stats: ProcessStats) {
        self.inner.process.set(stats);
    }

    /// Every series in the Prometheus text format, version 0.0.4 (see [`CONTENT_TYPE`]).
    pub fn render(&self) -> String {
        render::render(self)
    }
}

struct ScrapeTime(Histogram);

impl Default for ScrapeTime {
    fn default() -> ScrapeTime {
        ScrapeTime(Histogram::new(&histogram::SCRAPE))
    }
}

/// Open connections of clients, all listeners together.
#[derive(Default)]
pub struct ClientConnections {
    open: Gauge,
}

impl ClientConnections {
    /// A connection was accepted.
    pub fn open(&self) {
        self.open.inc();
    }

    /// A connection is closed.
    pub fn close(&self) {
        self.open.dec();
    }

    /// How many are open.
    pub fn get(&self) -> i64 {
        self.open.get()
    }
}
