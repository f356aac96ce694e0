//! The series of one pool.

use std::sync::{Arc, OnceLock};

use crate::cells::{Counter, FloatCell};
use crate::labels::{Agreed, ErrorStatistic, PerLabel, ThanChosen, Tokenized};
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
    pub ttft_error: Option<PredictionError>,
    /// The same for the time per output token.
    pub tpot_error: Option<PredictionError>,
    /// The same for the length of answers.
    pub output_error: Option<PredictionError>,
    /// Share of the predictions within the limit that were broken by far.
    pub broken_predictions: Option<f64>,
    /// Correction of the predicted time per token.
    pub tpot_correction: Option<f64>,
    /// What loading an adapter takes, in seconds.
    pub adapter_load_seconds: Option<f64>,
    /// What a shadow policy would have done; none without one.
    pub shadow: Option<ShadowReading>,
    /// How often an expression of its rule had no opinion of a candidate; none
    /// without a rule.
    pub rule_without_opinion: Option<u64>,
}

/// Errors of predictions, as factors.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct PredictionError {
    /// Geometric mean of observed over predicted.
    pub bias: f64,
    /// Mean error, at least 1.
    pub mean: f64,
    /// Median error, at least 1.
    pub p50: f64,
    /// 90th percentile of the error, at least 1.
    pub p90: f64,
}

/// What a shadow policy would have done; each figure only grows.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ShadowReading {
    /// Requests that it was asked about.
    pub asked: u64,
    /// Those on which it agreed.
    pub agreed: u64,
    /// What its choices would have cost more, of those that would have been
    /// dearer, in milliseconds of price.
    pub dearer_ms: f64,
    /// What they would have cost less, of those that would have been cheaper.
    pub cheaper_ms: f64,
}

#[derive(Default)]
pub(crate) struct PoolSeries {
    pub(crate) fallback: FloatCell,
    pub(crate) ttft_error: PerLabel<ErrorStatistic, FloatCell>,
    pub(crate) tpot_error: PerLabel<ErrorStatistic, FloatCell>,
    pub(crate) output_error: PerLabel<ErrorStatistic, FloatCell>,
    pub(crate) broken: FloatCell,
    pub(crate) tpot_correction: FloatCell,
    pub(crate) adapter_load: FloatCell,
    pub(crate) shadow: PerLabel<Agreed, FloatCell>,
    pub(crate) shadow_difference: PerLabel<ThanChosen, FloatCell>,
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
        for (cells, error) in [
            (&series.ttft_error, reading.ttft_error),
            (&series.tpot_error, reading.tpot_error),
            (&series.output_error, reading.output_error),
        ] {
            cells.of(ErrorStatistic::Bias).set(error.map(|e| e.bias));
            cells.of(ErrorStatistic::Mean).set(error.map(|e| e.mean));
            cells.of(ErrorStatistic::P50).set(error.map(|e| e.p50));
            cells.of(ErrorStatistic::P90).set(error.map(|e| e.p90));
        }
        series.broken.set(reading.broken_predictions);
        series.tpot_correction.set(reading.tpot_correction);
        series.adapter_load.set(reading.adapter_load_seconds);
        series.rule_without_opinion.set(reading.rule_without_opinion.map(|n| n as f64));
        let shadow = |of: fn(ShadowReading) -> f64| reading.shadow.map(of);
        series.shadow.of(Agreed::Yes).set(shadow(|s| s.agreed as f64));
        series.shadow.of(Agreed::No).set(shadow(|s| s.asked.saturating_sub(s.agreed) as f64));
        series.shadow_difference.of(ThanChosen::Dearer).set(shadow(|s| s.dearer_ms / 1e3));
        series.shadow_difference.of(ThanChosen::Cheaper).set(shadow(|s| s.cheaper_ms / 1e3));
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
