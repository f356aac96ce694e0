//! The series of one model in one pool.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use crate::cells::Counter;
use crate::histogram::{self, Histogram};
use crate::labels::{OutcomeLabel, PerLabel};
use crate::table::Entry;

/// Status codes that have a cell of their own; any other takes a lock.
const USUAL_CODES: [u16; 20] =
    [200, 429, 499, 500, 502, 503, 504, 400, 404, 422, 401, 403, 405, 408, 413, 415, 431, 201, 204, 529];

/// How many pairs of unusual code and outcome one route may show. An engine
/// that invents codes fills these and then `code="other"`.
const MAX_UNUSUAL: usize = 48;

/// The handle for requests of one model in one pool. Cloning is cheap.
#[derive(Clone)]
pub struct RouteMetrics {
    entry: Arc<Entry<RouteSeries>>,
}

pub(crate) struct RouteSeries {
    usual: Box<[PerLabel<OutcomeLabel, Counter>]>,
    /// By code (0 stands for "other") and outcome.
    unusual: Mutex<BTreeMap<(u16, &'static str), u64>>,
    pub(crate) duration: Histogram,
    pub(crate) ttft: Histogram,
    pub(crate) tpot: Histogram,
    pub(crate) queue_wait: Histogram,
    pub(crate) prompt_tokens: Counter,
    pub(crate) cached_tokens: Counter,
    pub(crate) completion_tokens: Counter,
    pub(crate) usage_unknown: Counter,
    pub(crate) prefix_error: Histogram,
}

impl RouteMetrics {
    pub(crate) fn new(entry: Arc<Entry<RouteSeries>>) -> RouteMetrics {
        RouteMetrics { entry }
    }

    fn series(&self) -> &RouteSeries {
        &self.entry.series
    }

    /// Counts one request that has ended, whatever its end.
    ///
    /// `code` is the status that the client got, or 499 when it left before it
    /// got one; outside 100 to 599 it is shown as "other". `duration` runs
    /// from the end of the request's header block to its last byte.
    pub fn request(&self, code: u16, outcome: OutcomeLabel, duration: Duration) {
        self.series().count(code, outcome);
        self.series().duration.observe(duration);
    }

    /// Records the time from the arrival of a request to the first token event
    /// that went to its client.
    pub fn ttft(&self, d: Duration) {
        self.series().ttft.observe(d);
    }

    /// Records the mean time per output token after the first, once a stream.
    pub fn tpot(&self, d: Duration) {
        self.series().tpot.observe(d);
    }

    /// Records how long a request waited between arrival and pick.
    pub fn queue_wait(&self, d: Duration) {
        self.series().queue_wait.observe(d);
    }

    /// Adds the token counts of one request; `cached` is the part of `prompt`
    /// that came from the engine's prefix cache.
    pub fn tokens(&self, prompt: u64, cached: u64, completion: u64) {
        let series = self.series();
        series.prompt_tokens.add(prompt);
        series.cached_tokens.add(cached);
        series.completion_tokens.add(completion);
    }

    /// Counts an answer whose token counts could not be read.
    pub fn usage_unknown(&self) {
        self.series().usage_unknown.add(1);
    }

    /// Compares the tokens that the picked endpoint was taken to hold with those
    /// that its engine says it had. Only for answers that state them.
    pub fn prefix_prediction(&self, predicted: u64, cached: u64) {
        self.series().prefix_error.observe_count(predicted.abs_diff(cached));
    }

    /// Requests that have ended, all codes and outcomes together.
    pub fn requests_total(&self) -> u64 {
        self.series().requests().iter().map(|(_, _, n)| n).sum()
    }
}

impl RouteSeries {
    pub(crate) fn new() -> RouteSeries {
        RouteSeries {
            usual: USUAL_CODES.iter().map(|_| PerLabel::default()).collect(),
            unusual: Mutex::new(BTreeMap::new()),
            duration: Histogram::new(&histogram::REQUEST),
            ttft: Histogram::new(&histogram::TTFT),
            tpot: Histogram::new(&histogram::TPOT),
            queue_wait: Histogram::new(&histogram::QUEUE_WAIT),
            prompt_tokens: Counter::default(),
            cached_tokens: Counter::default(),
            completion_tokens: Counter::default(),
            usage_unknown: Counter::default(),
            prefix_error: Histogram::new(&histogram::PREFIX_ERROR),
        }
    }

    fn count(&self, code: u16, outcome: OutcomeLabel) {
        if let Some(at) = USUAL_CODES.iter().position(|usual| *usual == code) {
            self.usual[at].of(outcome).add(1);
            return;
        }
        let mut unusual = self.unusual.lock();
        let mut key = (if (100..=599).contains(&code) { code } else { 0 }, outcome.as_str());
        if unusual.len() >= MAX_UNUSUAL && !unusual.contains_key(&key) {
            key.0 = 0;
        }
        *unusual.entry(key).or_default() += 1;
    }

    /// Code ("other" for one outside 100 to 599 or beyond the limit), outcome
    /// and count of every pair seen. The first, success, is there from the
    /// start, so that a rate over it has a value before anything happened.
    pub(crate) fn requests(&self) -> Vec<(String, &'static str, u64)> {
        let mut rows = Vec::new();
        for (code, outcomes) in USUAL_CODES.iter().zip(&self.usual) {
            for (outcome, cell) in outcomes.iter() {
                let n = cell.get();
                if n > 0 || (*code == 200 && outcome == OutcomeLabel::Ok.as_str()) {
                    rows.push((code.to_string(), outcome, n));
                }
            }
        }
        for ((code, outcome), n) in self.unusual.lock().iter() {
            let code = if *code == 0 { "other".to_owned() } else { code.to_string() };
            rows.push((code, outcome, *n));
        }
        rows
    }
}
