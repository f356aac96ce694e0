//! The series of one endpoint in one pool.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use crate::cells::{Counter, FloatCell, Gauge};
use crate::labels::{Dial, EndpointStateLabel, Label, PerLabel, Probe, Scrape};
use crate::table::Entry;

/// The handle for one endpoint of one pool. Cloning is cheap; the series are
/// shown as long as a clone lives.
#[derive(Clone)]
pub struct EndpointMetrics {
    entry: Arc<Entry<EndpointSeries>>,
}

#[derive(Default)]
pub(crate) struct EndpointSeries {
    pub(crate) inflight: Gauge,
    pub(crate) forwarded: Counter,
    /// Index of the present state in `EndpointStateLabel::ALL`.
    state: AtomicUsize,
    pub(crate) told: ToldSeries,
    pub(crate) connections_open: Gauge,
    pub(crate) connections_idle: Gauge,
    pub(crate) dials: PerLabel<Dial, Counter>,
    pub(crate) probes: PerLabel<Probe, Counter>,
    removed: AtomicBool,
}

/// What an endpoint told last and what was learned of it; unknown figures are none.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct EndpointTold {
    /// Age of the last load report.
    pub signal_age: Option<Duration>,
    /// Requests in the engine's running batch.
    pub running: Option<u32>,
    /// Requests in the engine's own queue.
    pub waiting: Option<u32>,
    /// Share of the KV memory in use, 0 to 1.
    pub kv_usage: Option<f64>,
    /// Every publisher of its KV-cache events is connected.
    pub kv_feed_up: Option<bool>,
    /// Signals of the operator's own that its page does not have.
    pub missing_signals: Option<u32>,
    /// Values in the last report that mean nothing.
    pub unusable_values: Option<u32>,
    /// The weight that the pool's policy counts it with.
    pub weight: Option<f64>,
    /// How much longer than its class it takes to compute a prompt.
    pub prefill_factor: Option<f64>,
    /// … to generate a token.
    pub decode_factor: Option<f64>,
    /// Share of the time in which its GPUs ran a kernel, 0 to 1.
    pub gpu_utilization: Option<f64>,
    /// Temperature of its hottest GPU.
    pub gpu_temperature_celsius: Option<f64>,
    /// Whether power or heat keeps a GPU below its clock.
    pub gpu_throttled: Option<bool>,
    /// Readings of its load that told something, since the process started.
    pub scrapes_ok: u64,
    /// Readings that did not.
    pub scrapes_failed: u64,
}

#[derive(Default)]
pub(crate) struct ToldSeries {
    pub(crate) signal_age: FloatCell,
    pub(crate) running: FloatCell,
    pub(crate) waiting: FloatCell,
    pub(crate) kv_usage: FloatCell,
    pub(crate) kv_feed_up: FloatCell,
    pub(crate) missing_signals: FloatCell,
    pub(crate) unusable_values: FloatCell,
    pub(crate) weight: FloatCell,
    pub(crate) prefill_factor: FloatCell,
    pub(crate) decode_factor: FloatCell,
    pub(crate) gpu_utilization: FloatCell,
    pub(crate) gpu_temperature: FloatCell,
    pub(crate) gpu_throttled: FloatCell,
    pub(crate) scrapes: PerLabel<Scrape, Counter>,
}

impl EndpointMetrics {
    pub(crate) fn new(entry: Arc<Entry<EndpointSeries>>) -> EndpointMetrics {
        // An endpoint that comes back while old streams still run on it goes
        // on with their count: they are load it really has.
        entry.series.removed.store(false, Relaxed);
        EndpointMetrics { entry }
    }

    fn series(&self) -> &EndpointSeries {
        &self.entry.series
    }

    /// Takes over the load that the Gate keeps: requests in flight now, and
    /// requests sent in all. Called before each rendering, so that a request
    /// costs nothing here and the page can never disagree with the decisions.
    pub fn load(&self, in_flight: u64, requests: u64) {
        self.series().inflight.set(i64::try_from(in_flight).unwrap_or(i64::MAX));
        self.series().forwarded.mirror(requests);
    }

    /// Requests sent here and not finished.
    pub fn inflight(&self) -> i64 {
        self.series().inflight.get()
    }

    /// Requests sent here since the series began.
    pub fn requests_total(&self) -> u64 {
        self.series().forwarded.get()
    }

    /// The endpoint's present state; `starting` until told otherwise.
    pub fn state(&self, state: EndpointStateLabel) {
        self.series().state.store(state.index(), Relaxed);
    }

    /// Takes over what the endpoint told and what was learned of it. Called
    /// before each rendering, as [`EndpointMetrics::load`] is.
    pub fn told(&self, told: &EndpointTold) {
        let series = &self.series().told;
        series.signal_age.set(told.signal_age.map(|age| age.as_secs_f64()));
        series.running.set(told.running.map(f64::from));
        series.waiting.set(told.waiting.map(f64::from));
        series.kv_usage.set(told.kv_usage);
        series.kv_feed_up.set(told.kv_feed_up.map(|up| f64::from(u8::from(up))));
        series.missing_signals.set(told.missing_signals.map(f64::from));
        series.unusable_values.set(told.unusable_values.map(f64::from));
        series.weight.set(told.weight);
        series.prefill_factor.set(told.prefill_factor);
        series.decode_factor.set(told.decode_factor);
        series.gpu_utilization.set(told.gpu_utilization);
        series.gpu_temperature.set(told.gpu_temperature_celsius);
        series.gpu_throttled.set(told.gpu_throttled.map(|on| f64::from(u8::from(on))));
        series.scrapes.of(Scrape::Ok).mirror(told.scrapes_ok);
        series.scrapes.of(Scrape::Failed).mirror(told.scrapes_failed);
    }

    /// Connections to the endpoint, idle ones included.
    pub fn connections_open(&self) -> &Gauge {
        &self.series().connections_open
    }

    /// Connections to the endpoint that wait for their next request.
    pub fn connections_idle(&self) -> &Gauge {
        &self.series().connections_idle
    }

    /// Counts an attempt to open a connection.
    pub fn dial(&self, result: Dial) {
        self.series().dials.of(result).add(1);
    }

    /// Counts a readiness probe.
    pub fn probe(&self, result: Probe) {
        self.series().probes.of(result).add(1);
    }

    /// Takes the series out of what is rendered, though other clones still
    /// live. [`crate::Metrics::endpoint`] with the same names shows them again.
    pub fn remove(&self) {
        self.series().removed.store(true, Relaxed);
    }
}

impl EndpointSeries {
    pub(crate) fn new() -> EndpointSeries {
        EndpointSeries::default()
    }

    pub(crate) fn is_removed(&self) -> bool {
        self.removed.load(Relaxed)
    }

    /// Every state with whether it is the present one.
    pub(crate) fn states(&self) -> impl Iterator<Item = (&'static str, bool)> {
        let now = self.state.load(Relaxed);
        EndpointStateLabel::ALL.iter().map(move |s| (s.as_str(), s.index() == now))
    }
}
