//! Families in the encoder's words.

use std::fmt;

use prometheus_client::encoding::{DescriptorEncoder, EncodeCounterValue, EncodeGaugeValue, NoLabelSet};
use prometheus_client::metrics::MetricType;

use crate::cells::FloatCell;
use crate::histogram::Histogram;
use crate::names::{Definition, Kind};

/// The one unlabelled series of a figure, or none while it is unknown.
pub(crate) fn known(cell: &FloatCell) -> Option<([&'static str; 0], f64)> {
    cell.get().map(|value| ([], value))
}

/// Writes one family at a time; a family without a series is left out whole.
pub(crate) struct Writer<'a> {
    encoder: DescriptorEncoder<'a>,
}

impl<'a> Writer<'a> {
    pub(crate) fn new(encoder: DescriptorEncoder<'a>) -> Writer<'a> {
        Writer { encoder }
    }

    pub(crate) fn counters<'l, const N: usize, V: EncodeCounterValue>(
        &mut self,
        definition: Definition,
        rows: impl IntoIterator<Item = ([&'l str; N], V)>,
    ) -> fmt::Result {
        self.family(definition, rows, |metric, value| {
            metric.encode_counter::<NoLabelSet, V, f64>(&value, None)
        })
    }

    pub(crate) fn gauges<'l, const N: usize, V: EncodeGaugeValue>(
        &mut self,
        definition: Definition,
        rows: impl IntoIterator<Item = ([&'l str; N], V)>,
    ) -> fmt::Result {
        self.family(definition, rows, |metric, value| metric.encode_gauge(&value))
    }

    /// A histogram without an observation is left out: twenty lines of zeros
    /// for each idle model would be most of the page.
    pub(crate) fn histograms<'l, const N: usize>(
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
