//! From the series to the Prometheus text format.

use std::fmt::{self, Debug, Formatter};
use std::sync::Arc;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{
    DescriptorEncoder, EncodeCounterValue, EncodeGaugeValue, NoLabelSet, prometheus_text,
};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Registry;

use crate::cells::FloatCell;
use crate::endpoint::EndpointSeries;
use crate::histogram::Histogram;
use crate::names::{self, Definition, Kind};
use crate::route::RouteSeries;
use crate::table::Entry;
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
        let mut w = Writer { encoder };
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
    w.gauges(
        names::ENDPOINT_SIGNAL_AGE,
        endpoints
            .iter()
            .filter_map(|e| e.series.signal_age.get().map(|age| ([e.pool.as_str(), e.name.as_str()], age))),
    )?;
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

/// The one unlabelled series of a figure, or none while it is unknown.
fn known(cell: &FloatCell) -> Option<([&'static str; 0], f64)> {
    cell.get().map(|value| ([], value))
}

/// Writes one family at a time; a family without a series is left out whole.
struct Writer<'a> {
    encoder: DescriptorEncoder<'a>,
}

impl Writer<'_> {
    fn counters<'l, const N: usize, V: EncodeCounterValue>(
        &mut self,
        definition: Definition,
        rows: impl IntoIterator<Item = ([&'l str; N], V)>,
    ) -> fmt::Result {
        self.family(definition, rows, |metric, value| {
            metric.encode_counter::<NoLabelSet, V, f64>(&value, None)
        })
    }

    fn gauges<'l, const N: usize, V: EncodeGaugeValue>(
        &mut self,
        definition: Definition,
        rows: impl IntoIterator<Item = ([&'l str; N], V)>,
    ) -> fmt::Result {
        self.family(definition, rows, |metric, value| metric.encode_gauge(&value))
    }

    /// A histogram without an observation is left out: twenty lines of zeros
    /// for each idle model would be most of the page.
    fn histograms<'l, const N: usize>(
        &mut self,
        definition: Definition,
        rows: impl IntoIterator<Item = ([&'l str; N], &'l Histogram)>,
    ) -> fmt::Result {
        let seen = rows
            .into_iter()
            .map(|(labels, histogram)| (labels, histogram.snapshot()))
            .filter(|(_, snapshot)| snapshot.count > 0);
        self.family(definition, seen, |metric, s| {
            metric.encode_histogram::<NoLabelSet>(s.sum, s.count, &s.buckets, None)
        })
    }

    fn family<'l, const N: usize, V>(
        &mut self,
        definition: Definition,
        rows: impl IntoIterator<Item = ([&'l str; N], V)>,
        write: impl Fn(&mut prometheus_client::encoding::MetricEncoder, V) -> fmt::Result,
    ) -> fmt::Result {
        let mut rows = rows.into_iter().peekable();
        if rows.peek().is_none() {
            return Ok(());
        }
        debug_assert_eq!(definition.labels.len(), N, "{}", definition.name);
        let (kind, stem) = match definition.kind {
            // The encoder puts the suffix back.
            Kind::Counter => {
                (MetricType::Counter, definition.name.strip_suffix("_total").unwrap_or(definition.name))
            }
            Kind::Gauge => (MetricType::Gauge, definition.name),
            Kind::Histogram => (MetricType::Histogram, definition.name),
        };
        let mut family = self.encoder.encode_descriptor(stem, definition.help, None, kind)?;
        for (values, value) in rows {
            let labels: Vec<(&str, &str)> = definition.labels.iter().copied().zip(values).collect();
            write(&mut family.encode_family(&labels)?, value)?;
        }
        Ok(())
    }
}
