//! What a run found out.

use hdrhistogram::Histogram;
use serde::Serialize;

use super::timeline::TimelinePoint;

/// A distribution of times, in milliseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Times {
    /// The mean.
    pub mean: f64,
    /// Half are below.
    pub p50: f64,
    /// 95 % are below.
    pub p95: f64,
    /// 99 % are below.
    pub p99: f64,
}

/// What one endpoint did.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct EndpointResult {
    /// Its name in the fleet.
    pub name: String,
    /// Requests that it finished.
    pub requests: u64,
    /// Of all finished requests, 0 to 1.
    pub share: f64,
    /// Of all prompt and output tokens, 0 to 1.
    pub token_share: f64,
    /// Prompt tokens that it had in its cache, of those of its requests, 0 to 1.
    pub prefix_hit: f64,
    /// Share of the time that it was computing, 0 to 1.
    pub utilization: f64,
    /// Times that a sequence there lost its memory, warm-up included.
    pub preemptions: u64,
}

/// Requests of one priority.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct ClassResult {
    /// The number of the priority; 0 is standard.
    pub priority: i32,
    /// Requests that arrived.
    pub requests: u64,
    /// Share of them that met their limits, 0 to 1.
    pub goodput: f64,
    /// Time to the first token, from the arrival.
    pub ttft_ms: Times,
    /// Time to the last token, from the arrival.
    pub e2e_ms: Times,
}

/// What a run found out. Everything but `simulated`, `sim_seconds`, preemptions
/// and the parts of the time leaves the warm-up out.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct SimResult {
    /// The policy's name.
    pub policy: String,
    /// Requests that arrived.
    pub requests: u64,
    /// Requests that broke off or could not be delivered.
    pub failed: u64,
    /// Requests that were turned away.
    pub rejected: u64,
    /// Requests whose clients did not wait for the first token.
    pub cancelled: u64,
    /// Time to the first token, from the arrival.
    pub ttft_ms: Times,
    /// Time per token after the first.
    pub tpot_ms: Times,
    /// Time to the last token, from the arrival.
    pub e2e_ms: Times,
    /// Generated tokens per second.
    pub tokens_per_second: f64,
    /// Share of the requests that arrived that met their limits, 0 to 1.
    pub goodput: f64,
    /// Share of the prompt tokens that came from caches, 0 to 1.
    pub prefix_hit: f64,
    /// Requests at the busiest endpoint over the mean of all.
    pub busiest: f64,
    /// Prompt and output tokens at the endpoint with the most over the mean of all.
    pub busiest_tokens: f64,
    /// Times that a request had to go to another endpoint.
    pub repicked: u64,
    /// By priority, the lowest first; empty when all requests have the same.
    pub classes: Vec<ClassResult>,
    /// By endpoint, in the order of the fleet.
    pub endpoints: Vec<EndpointResult>,
    /// Requests simulated, warm-up included.
    pub simulated: u64,
    /// Simulated seconds from the first arrival to the last end.
    pub sim_seconds: f64,
    /// How the fleet fared over time, when that was asked for.
    pub timeline: Vec<TimelinePoint>,
    /// Where the simulator's own time went, when a clock was given.
    #[serde(skip)]
    pub parts: Parts,
}

/// Nanoseconds of the simulator's own time by what it did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Parts {
    /// Making requests.
    pub workload: u64,
    /// Looking prompts up in the prefix index.
    pub look_up: u64,
    /// Choosing endpoints.
    pub pick: u64,
    /// Changing the prefix index.
    pub index: u64,
    /// Telling gateways of progress and ends.
    pub settle: u64,
    /// Simulating engines.
    pub engine: u64,
    /// Load reports.
    pub report: u64,
    /// The queue of events and whatever else.
    pub rest: u64,
}

/// A histogram of times: three digits, up to a year.
pub(crate) struct Sample {
    histogram: Option<Histogram<u32>>,
    sum_ms: f64,
    count: u64,
}

/// Microseconds that a histogram goes up to: a year.
const MOST_US: u64 = 31_600_000_000_000;

impl Sample {
    pub(crate) fn new() -> Sample {
        Sample { histogram: Histogram::new_with_bounds(1, MOST_US, 3).ok(), sum_ms: 0.0, count: 0 }
    }

    /// Counts a time in nanoseconds.
    pub(crate) fn add(&mut self, ns: f64) {
        self.sum_ms += ns * 1e-6;
        self.count += 1;
        if let Some(histogram) = &mut self.histogram {
            histogram.saturating_record(((ns * 1e-3) as u64).clamp(1, MOST_US));
        }
    }

    pub(crate) fn times(&self) -> Times {
        let Some(histogram) = self.histogram.as_ref().filter(|_| self.count > 0) else {
            return Times::default();
        };
        let at = |quantile| histogram.value_at_quantile(quantile) as f64 * 1e-3;
        Times { mean: self.sum_ms / self.count as f64, p50: at(0.5), p95: at(0.95), p99: at(0.99) }
    }
}
