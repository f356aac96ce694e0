//! What a run came to. The JSON keys are a contract.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Result of a run, in engine time (wall time × time scale).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// The gateway's policy, where it is known.
    pub policy: Option<String>,
    /// Requests that were sent, however they ended.
    pub requests: u64,
    /// Requests that ended neither well nor with backpressure.
    pub failed: u64,
    /// Requests that were answered with 429 or 503.
    pub rejected: u64,
    /// Time to the first event with text, of the finished requests.
    pub ttft_ms: Quantiles,
    /// Time per output token after the first, of the finished requests with
    /// two tokens or more.
    pub tpot_ms: Quantiles,
    /// Time to the end of the answer, of the finished requests.
    pub e2e_ms: Quantiles,
    /// Output tokens of the finished requests in a second of engine time, from
    /// the first request's start to the last one's end.
    pub tokens_per_second: f64,
    /// Share of all requests that finished within `slo`, 0 to 1.
    pub goodput: f64,
    /// What `goodput` was measured by.
    pub slo: Slo,
    /// Share of all prompt tokens that came from a prefix cache, 0 to 1; none
    /// when no answer said anything about it.
    pub prefix_hit: Option<f64>,
    /// Per endpoint, by name, where answers say which one it was.
    pub endpoints: Vec<EndpointShare>,
    /// How much faster than life the engines ran.
    pub time_scale: f64,
    /// Finished requests whose token counts were not the trace's; only for a
    /// replay.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token_mismatches: Option<u64>,
    /// What `prefix_hit` would be with one infinite cache for all endpoints;
    /// only for a workload that knows it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ideal_prefix_hit: Option<f64>,
    /// Tokens (prompt and answer) of the busiest endpoint over the mean of all
    /// endpoints, at least 1; only where shares are counted by windows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub busiest_share: Option<f64>,
    /// The endpoints' shares over the run, where they are counted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub windows: Vec<ShareWindow>,
}

/// What was sent to whom in one part of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ShareWindow {
    /// Its begin, in seconds of engine time since the run's.
    pub from_s: f64,
    /// Its end, likewise.
    pub to_s: f64,
    /// By name; an endpoint that got nothing in this window is not in it.
    pub endpoints: Vec<WindowShare>,
}

/// One endpoint's part of a window. A request belongs to the window in which it
/// was sent, whenever it ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WindowShare {
    /// As the gateway names it.
    pub name: String,
    /// Requests.
    pub requests: u64,
    /// Their tokens, prompt (cached or not) and answer.
    pub tokens: u64,
    /// The tokens as a share of those of all endpoints, 0 to 1.
    pub share: f64,
}

/// Mean and nearest-rank percentiles; none when nothing was measured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Quantiles {
    /// Arithmetic mean.
    pub mean: Option<f64>,
    /// Median.
    pub p50: Option<f64>,
    /// 95th percentile.
    pub p95: Option<f64>,
    /// 99th percentile.
    pub p99: Option<f64>,
}

/// When a request counts as good.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Slo {
    /// Highest TTFT, in milliseconds of engine time.
    pub ttft_ms: f64,
    /// Highest TPOT, in milliseconds of engine time.
    pub tpot_ms: f64,
}

impl Default for Slo {
    fn default() -> Slo {
        Slo { ttft_ms: 2_000.0, tpot_ms: 50.0 }
    }
}

/// One endpoint's part of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EndpointShare {
    /// As the gateway names it.
    pub name: String,
    /// Requests that it answered.
    pub requests: u64,
    /// The same as a share of the requests of all endpoints, 0 to 1.
    pub share: f64,
    /// Share of its prompt tokens that came from its prefix cache; none when
    /// it said nothing about it.
    pub prefix_hit: Option<f64>,
}

/// All that is left of a run.
#[derive(Clone, Debug)]
pub struct Finished {
    /// The figures.
    pub summary: Summary,
    /// The first failures and other things that deserve a look, a line each.
    pub remarks: Vec<String>,
}

impl fmt::Display for Finished {
    /// The summary's table, then the remarks.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.summary.fmt(f)?;
        for (i, remark) in self.remarks.iter().enumerate() {
            writeln!(f, "{}{remark}", if i == 0 { "\n" } else { "" })?;
        }
        Ok(())
    }
}

impl Quantiles {
    /// Of `samples`, in any order; leaves them sorted.
    pub(crate) fn of(samples: &mut [f64]) -> Quantiles {
        if samples.is_empty() {
            return Quantiles::default();
        }
        samples.sort_unstable_by(f64::total_cmp);
        let n = samples.len();
        let rank = |p: f64| samples.get(((p * n as f64).ceil() as usize).clamp(1, n) - 1).copied();
        Quantiles {
            mean: Some(samples.iter().sum::<f64>() / n as f64),
            p50: rank(0.50),
            p95: rank(0.95),
            p99: rank(0.99),
        }
    }
}
