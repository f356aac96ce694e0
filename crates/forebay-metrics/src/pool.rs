//! The series of one pool.

use std::sync::{Arc, OnceLock};

use crate::cells::{Counter, FloatCell};
use crate::labels::{Agreed, ErrorStatistic, PerLabel, Tokenized};
use crate::table::Entry;

/// The handle for one pool. Cloning is cheap; the series are shown as long as
/// a clone lives.
#[derive(Clone)]
pub struct PoolMetrics {
    entry: Arc<Entry<PoolSeries>>,
}

/// How a pool decides and how well it predicts; unknown figures are none.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct PoolReading {
    /// Its policy has given way because its predictions fail.
    pub fallback: bool,
    /// How far off its predicted times to the first token were lately.
    pub ttft_error: Option<TtftError>,
    /// Share of the predictions within the limit that were broken by far.
    pub broken_predictions: Option<f64>,
    /// Correction of the predicted time per token.
    pub tpot_correction: Option<f64>,
    /// Requests that a shadow policy was asked about, and those on which it
    /// agreed; none without one.
    pub shadow: Option<(u64, u64)>,
    /// How often an expression of its rule had no opinion of a candidate; none
    /// without a rule.
    pub rule_without_opinion: Option<u64>,
}

/// Errors of predictions, as factors.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct TtftError {
    /// Geometric mean of observed over predicted.
    pub bias: f64,
    /// Mean error, at least 1.
    pub mean: f64,
    /// Median error, at least 1.
    pub p50: f64,
    /// 90th percentile of the error, at least 1.
    pub p90: f64,
}

#[derive(Default)]
pub(crate) struct PoolSeries {
    pub(crate) fallback: FloatCell,
    pub(crate) ttft_error: PerLabel<ErrorStatistic, FloatCell>,
    pub(crate) broken: FloatCell,
    pub(crate) tpot_correction: FloatCell,
    pub(crate) shadow: PerLabel<Agreed, FloatCell>,
    pub(crate) rule_without_opinion: FloatCell,
    /// Empty for a pool without a tokenizer.
    pub(crate) tokenized: OnceLock<PerLabel<Tokenized, Counter>>,
}

impl PoolMetrics {
    pub(crate) fn new(entry: Arc<Entry<PoolSeries>>) -> PoolMetrics {
        PoolMetrics { entry }
    }

    /// Takes over what the Gate knows of the pool. Called before each rendering.
    pub fn set(&self, reading: &PoolReading) {
        let series = &self.entry.series;
        series.fallback.set(Some(f64::from(u8::from(reading.fallback))));
        let error = |statistic, value: fn(TtftError) -> f64| {
            series.ttft_error.of(statistic).set(reading.ttft_error.map(value));
        };
        error(ErrorStatistic::Bias, |e| e.bias);
        error(ErrorStatistic::Mean, |e| e.mean);
        error(ErrorStatistic::P50, |e| e.p50);
        error(ErrorStatistic::P90, |e| e.p90);
        series.broken.set(reading.broken_predictions);
        series.tpot_correction.set(reading.tpot_correction);
        series.rule_without_opinion.set(reading.rule_without_opinion.map(|n| n as f64));
        let (asked, agreed) = reading.shadow.unzip();
        series.shadow.of(Agreed::Yes).set(agreed.map(|n| n as f64));
        let other = asked.zip(agreed).map(|(asked, agreed)| asked.saturating_sub(agreed) as f64);
        series.shadow.of(Agreed::No).set(other);
    }
}

impl PoolMetrics {
    /// The pool has a tokenizer: what comes of it is shown from now on.
    pub fn has_tokenizer(&self) {
        self.entry.series.tokenized.get_or_init(PerLabel::default);
    }

    /// Counts a prompt whose tokens were asked for.
    pub fn tokenized(&self, result: Tokenized) {
        self.entry.series.tokenized.get_or_init(PerLabel::default).of(result).add(1);
    }
}

impl PoolSeries {
    pub(crate) fn new() -> PoolSeries {
        PoolSeries::default()
    }
}
