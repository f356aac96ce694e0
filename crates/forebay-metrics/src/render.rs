//! From the series to the Prometheus text format.

use std::fmt::{self, Debug, Formatter};
use std::sync::Arc;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, prometheus_text};
use prometheus_client::registry::Registry;

use crate::cells::FloatCell;
use crate::endpoint::{EndpointSeries, ToldSeries};
use crate::histogram::Histogram;
use crate::knowledge::Knowledge;
use crate::labels::{ErrorStatistic, Label, PerLabel};
use crate::names::{self, Definition};
use crate::pool::PoolSeries;
use crate::route::RouteSeries;
use crate::table::Entry;
use crate::writer::{Writer, known};
use crate::{Inner, Metrics};

/// Writes everything that `metrics` holds.
pub(crate) fn render(metrics: &Metrics) -> String {
    let mut registry = Registry::default();
    registry.register_collector(Box::new(Sheet(metrics.clone())));
    let mut text = String::new();
    match prometheus_text::encode(&mut text, &registry) {
        Ok(()) => text,
        // Writing to a string does not fail, and no value here is out of the
        // encoder's range; a scrape without series is the visible sign if it did.
        Err(fmt::Error) => String::new(),
    }
}

struct Sheet(Metrics);

impl Debug for Sheet {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str("Sheet")
    }
}

impl Collector for Sheet {
    fn encode(&self, encoder: DescriptorEncoder) -> fmt::Result {
        let metrics: &Inner = &self.0.inner;
        let mut w = Writer::new(encoder);
        w.gauges(names::BUILD_INFO, [([metrics.version.as_str()], 1_i64)])?;
        w.gauges(names::DRAINING, [([], metrics.draining.get())])?;
        write_routes(&mut w, &metrics.routes.live())?;
        w.histograms(names::DECISION, [([], &metrics.decisions)])?;
        w.counters(names::RETRIES, metrics.retries.iter().map(|(reason, n)| ([reason], n.get())))?;
        w.counters(names::REJECTED, metrics.rejected.iter().map(|(reason, n)| ([reason], n.get())))?;
        w.gauges(names::CLIENT_CONNECTIONS, [([], metrics.connections.get())])?;
        let endpoints: Vec<_> =
            metrics.endpoints.live().into_iter().filter(|e| !e.series.is_removed()).collect();
        write_endpoints(&mut w, &endpoints)?;
        let scrapes = metrics.scrapes.iter().map(|(page, time)| ([page], &time.0));
        w.histograms(names::SCRAPE_DURATION, scrapes)?;
        write_pools(&mut w, &metrics.pools.live())?;
        write_knowledge(&mut w, &metrics.knowledge)?;
        let process = &metrics.process;
        w.counters(names::PROCESS_CPU, known(&process.cpu_seconds))?;
        w.gauges(names::PROCESS_RESIDENT, known(&process.resident_bytes))?;
        w.gauges(names::PROCESS_VIRTUAL, known(&process.virtual_bytes))?;
        w.gauges(names::PROCESS_OPEN_FDS, known(&process.open_fds))?;
        w.gauges(names::PROCESS_MAX_FDS, known(&process.max_fds))?;
        w.gauges(names::PROCESS_START, known(&process.start_time_seconds))
    }
}

fn write_routes(w: &mut Writer, routes: &[Arc<Entry<RouteSeries>>]) -> fmt::Result {
    let key = |e: &'_ Arc<Entry<RouteSeries>>| (e.pool.clone(), e.name.clone());
    let requests: Vec<_> = routes
        .iter()
        .flat_map(|e| {
            e.series.requests().into_iter().map(move |(code, outcome, n)| (key(e), code, outcome, n))
        })
        .collect();
    w.counters(
        names::REQUESTS,
        requests.iter().map(|((pool, model), code, outcome, n)| ([pool.as_str(), model, code, outcome], *n)),
    )?;
    let mut histograms = |definition, pick: fn(&RouteSeries) -> &Histogram| {
        w.histograms(definition, routes.iter().map(|e| ([e.pool.as_str(), &e.name], pick(&e.series))))
    };
    histograms(names::REQUEST_DURATION, |s| &s.duration)?;
    histograms(names::TTFT, |s| &s.ttft)?;
    histograms(names::TPOT, |s| &s.tpot)?;
    histograms(names::QUEUE_WAIT, |s| &s.queue_wait)?;
    histograms(names::PREFIX_ERROR, |s| &s.prefix_error)?;
    w.counters(
        names::TOKENS,
        routes.iter().flat_map(|e| {
            let s = &e.series;
            let kinds = [
                ("prompt", &s.prompt_tokens),
                ("cached", &s.cached_tokens),
                ("completion", &s.completion_tokens),
            ];
            kinds.map(|(kind, n)| ([e.pool.as_str(), e.name.as_str(), kind], n.get()))
        }),
    )?;
    w.counters(
        names::USAGE_UNKNOWN,
        routes.iter().map(|e| ([e.pool.as_str(), &e.name], e.series.usage_unknown.get())),
    )
}

fn write_endpoints(w: &mut Writer, endpoints: &[Arc<Entry<EndpointSeries>>]) -> fmt::Result {
    let each = |value: fn(&EndpointSeries) -> i64| {
        endpoints.iter().map(move |e| ([e.pool.as_str(), e.name.as_str()], value(&e.series)))
    };
    w.gauges(
        names::ENDPOINT_STATE,
        endpoints.iter().flat_map(|e| {
            e.series.states().map(|(state, on)| ([e.pool.as_str(), &e.name, state], i64::from(on)))
        }),
    )?;
    w.gauges(names::ENDPOINT_INFLIGHT, each(|s| s.inflight.get()))?;
    w.counters(
        names::ENDPOINT_REQUESTS,
        endpoints.iter().map(|e| ([e.pool.as_str(), &e.name], e.series.forwarded.get())),
    )?;
    write_told(w, endpoints)?;
    w.gauges(names::ENDPOINT_CONNECTIONS_OPEN, each(|s| s.connections_open.get()))?;
    w.gauges(names::ENDPOINT_CONNECTIONS_IDLE, each(|s| s.connections_idle.get()))?;
    w.counters(
        names::ENDPOINT_DIALS,
        endpoints.iter().flat_map(|e| {
            e.series.dials.iter().map(|(result, n)| ([e.pool.as_str(), &e.name, result], n.get()))
        }),
    )?;
    w.counters(
        names::ENDPOINT_PROBES,
        endpoints.iter().flat_map(|e| {
            e.series.probes.iter().map(|(result, n)| ([e.pool.as_str(), &e.name, result], n.get()))
        }),
    )
}

/// One figure of what an endpoint told.
type Figure = fn(&ToldSeries) -> &FloatCell;

/// What endpoints told; an unknown figure has no series.
fn write_told(w: &mut Writer, endpoints: &[Arc<Entry<EndpointSeries>>]) -> fmt::Result {
    let figures: [(Definition, Figure); 13] = [
        (names::ENDPOINT_SIGNAL_AGE, |t| &t.signal_age),
        (names::ENDPOINT_RUNNING, |t| &t.running),
        (names::ENDPOINT_WAITING, |t| &t.waiting),
        (names::ENDPOINT_KV_USAGE, |t| &t.kv_usage),
        (names::KV_FEED_UP, |t| &t.kv_feed_up),
        (names::ENDPOINT_MISSING_SIGNALS, |t| &t.missing_signals),
        (names::ENDPOINT_UNUSABLE_VALUES, |t| &t.unusable_values),
        (names::ENDPOINT_WEIGHT, |t| &t.weight),
        (names::ENDPOINT_PREFILL_FACTOR, |t| &t.prefill_factor),
        (names::ENDPOINT_DECODE_FACTOR, |t| &t.decode_factor),
        (names::ENDPOINT_GPU_UTILIZATION, |t| &t.gpu_utilization),
        (names::ENDPOINT_GPU_TEMPERATURE, |t| &t.gpu_temperature),
        (names::ENDPOINT_GPU_THROTTLED, |t| &t.gpu_throttled),
    ];
    for (definition, of) in figures {
        let rows = endpoints.iter().filter_map(|e| {
            let value = of(&e.series.told).get()?;
            Some(([e.pool.as_str(), e.name.as_str()], value))
        });
        w.gauges(definition, rows)?;
    }
    w.counters(
        names::ENDPOINT_SCRAPES,
        endpoints.iter().flat_map(|e| {
            e.series.told.scrapes.iter().map(|(result, n)| ([e.pool.as_str(), &e.name, result], n.get()))
        }),
    )
}

fn write_pools(w: &mut Writer, pools: &[Arc<Entry<PoolSeries>>]) -> fmt::Result {
    let one = |of: fn(&PoolSeries) -> &FloatCell| {
        pools.iter().filter_map(move |p| Some(([p.pool.as_str()], of(&p.series).get()?)))
    };
    w.gauges(names::POLICY_FALLBACK, one(|s| &s.fallback))?;
    let errors = |of: fn(&PoolSeries) -> &PerLabel<ErrorStatistic, FloatCell>| {
        pools.iter().flat_map(move |p| {
            let cells = of(&p.series).iter();
            cells.filter_map(|(statistic, cell)| Some(([p.pool.as_str(), statistic], cell.get()?)))
        })
    };
    w.gauges(names::TTFT_ERROR, errors(|s| &s.ttft_error))?;
    w.gauges(names::TPOT_ERROR, errors(|s| &s.tpot_error))?;
    w.gauges(names::OUTPUT_ERROR, errors(|s| &s.output_error))?;
    w.gauges(names::BROKEN_PREDICTIONS, one(|s| &s.broken))?;
    w.gauges(names::TPOT_CORRECTION, one(|s| &s.tpot_correction))?;
    w.gauges(names::ADAPTER_LOAD, one(|s| &s.adapter_load))?;
    w.counters(
        names::SHADOW_AGREEMENT,
        pools.iter().flat_map(|p| {
            let cells = p.series.shadow.iter();
            cells.filter_map(|(agreed, cell)| Some(([p.pool.as_str(), agreed], cell.get()?)))
        }),
    )?;
    w.counters(
        names::SHADOW_DIFFERENCE,
        pools.iter().flat_map(|p| {
            let cells = p.series.shadow_difference.iter();
            cells.filter_map(|(than, cell)| Some(([p.pool.as_str(), than], cell.get()?)))
        }),
    )?;
    w.counters(names::RULE_WITHOUT_OPINION, one(|s| &s.rule_without_opinion))?;
    w.counters(
        names::TOKENIZED,
        pools.iter().flat_map(|p| {
            let cells = p.series.tokenized.get().into_iter().flat_map(PerLabel::iter);
            cells.map(|(result, cell)| ([p.pool.as_str(), result], cell.get()))
        }),
    )
}

fn write_knowledge(w: &mut Writer, known_of: &Knowledge) -> fmt::Result {
    w.gauges(names::PREFIX_INDEX_BYTES, known(&known_of.index_bytes))?;
    w.gauges(names::PREFIX_INDEX_BLOCKS, known(&known_of.index_blocks))?;
    w.counters(names::PREFIX_INDEX_EVICTIONS, each(&known_of.evictions))?;
    w.counters(names::KV_EVENTS, each(&known_of.kv_events))?;
    w.counters(names::KV_BLOCKS, each(&known_of.kv_blocks))?;
    w.counters(names::KV_FAULTS, each(&known_of.kv_faults))?;
    w.counters(names::DECISION_LOG, each(&known_of.log))
}

/// The known figures by their one label.
fn each<L: Label>(cells: &PerLabel<L, FloatCell>) -> impl Iterator<Item = ([&'static str; 1], f64)> {
    cells.iter().filter_map(|(word, cell)| Some(([word], cell.get()?)))
}
