//! Figures of a run that is going on, cheap to write and to read.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use hdrhistogram::Histogram;
use tokio::time::Instant;

/// Written by the requests of a run, read by whoever shows it.
///
/// The counts are separate atomics: a view may be off by the request that is
/// ending at that moment.
#[derive(Default)]
pub struct Live {
    in_flight: AtomicU64,
    done: AtomicU64,
    failed: AtomicU64,
    rejected: AtomicU64,
    tokens: AtomicU64,
    times: Mutex<Times>,
}

#[derive(Default)]
struct Times {
    started: Option<Instant>,
    time_scale: f64,
    /// TTFT in microseconds of engine time.
    ttft: Option<Histogram<u64>>,
    /// Where the last view's token rate ended.
    last: Option<(Instant, u64)>,
    rate: f64,
}

/// One look at a run.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct LiveView {
    /// Wall time since the run began; zero before.
    pub elapsed: Duration,
    /// Requests sent and not finished.
    pub in_flight: u64,
    /// Requests that finished well.
    pub done: u64,
    /// Requests that failed.
    pub failed: u64,
    /// Requests answered with 429 or 503.
    pub rejected: u64,
    /// Output tokens so far.
    pub tokens: u64,
    /// Output tokens per second of engine time since the last view that is at
    /// least half a second old.
    pub tokens_per_second: f64,
    /// Median TTFT so far, in milliseconds of engine time.
    pub ttft_p50_ms: Option<f64>,
    /// 99th percentile of TTFT so far, in milliseconds of engine time.
    pub ttft_p99_ms: Option<f64>,
}

/// How a request ended, as far as counting goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Done,
    Rejected,
    Failed,
}

impl Live {
    /// The figures now.
    pub fn view(&self) -> LiveView {
        let tokens = self.tokens.load(Relaxed);
        let mut times = self.times();
        let now = Instant::now();
        let (since, before) = times.last.unwrap_or((now, tokens));
        let wall = now.saturating_duration_since(since).as_secs_f64();
        if wall >= 0.5 {
            times.rate =
                tokens.saturating_sub(before) as f64 / (wall * times.time_scale.max(f64::MIN_POSITIVE));
            times.last = Some((now, tokens));
        }
        let ttft = times.ttft.as_ref().filter(|h| !h.is_empty());
        let quantile = |q| ttft.map(|h| h.value_at_quantile(q) as f64 / 1e3);
        LiveView {
            elapsed: times.started.map_or(Duration::ZERO, |s| now.saturating_duration_since(s)),
            in_flight: self.in_flight.load(Relaxed),
            done: self.done.load(Relaxed),
            failed: self.failed.load(Relaxed),
            rejected: self.rejected.load(Relaxed),
            tokens,
            tokens_per_second: times.rate,
            ttft_p50_ms: quantile(0.5),
            ttft_p99_ms: quantile(0.99),
        }
    }

    /// The run begins.
    pub(crate) fn begin(&self, time_scale: f64) {
        let mut times = self.times();
        let now = Instant::now();
        *times = Times {
            started: Some(now),
            time_scale,
            // Three digits, growing with what is recorded: creation cannot fail.
            ttft: Histogram::new(3).ok(),
            last: Some((now, 0)),
            rate: 0.0,
        };
    }

    /// A request is being sent until the guard is dropped.
    pub(crate) fn sending(&self) -> InFlight<'_> {
        self.in_flight.fetch_add(1, Relaxed);
        InFlight(self)
    }

    pub(crate) fn first_token(&self, wall: Duration) {
        let mut times = self.times();
        let micros = wall.as_secs_f64() * times.time_scale * 1e6;
        if let Some(ttft) = &mut times.ttft {
            // Fails only beyond what 64 bits can count.
            let _ = ttft.record(micros as u64);
        }
    }

    pub(crate) fn more_tokens(&self, n: u64) {
        self.tokens.fetch_add(n, Relaxed);
    }

    pub(crate) fn ended(&self, kind: Kind) {
        let count = match kind {
            Kind::Done => &self.done,
            Kind::Rejected => &self.rejected,
            Kind::Failed => &self.failed,
        };
        count.fetch_add(1, Relaxed);
    }

    fn times(&self) -> MutexGuard<'_, Times> {
        // Every state in between is a valid one.
        self.times.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Keeps a request in the in-flight count.
pub(crate) struct InFlight<'a>(&'a Live);

impl Drop for InFlight<'_> {
    fn drop(&mut self) {
        self.0.in_flight.fetch_sub(1, Relaxed);
    }
}
