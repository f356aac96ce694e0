//! What a pool's policy is given to decide by.

use schemars::JsonSchema;
use serde::Deserialize;

use super::Field;
use crate::choices::OrcaAsk;
use crate::kinds::{Expression, Flag, Fraction, Int, Positive, ReportMetric, Share, Span, Word};
use crate::scalar::Scalar;
use crate::schema::order;

const SECOND: u64 = 1_000;
const MINUTE: u64 = 60 * SECOND;
const HOUR: u64 = 60 * MINUTE;

/// Expressions in CEL over what is known of a candidate, asked for each request and each endpoint.
/// At least one of the two.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Rule", transform = order::<RawRule>)]
pub(crate) struct RawRule {
    /// A condition, such as `kv_usage < 0.95`. An endpoint for which it is false is not
    /// picked, even when there is no other.
    pub(crate) filter: Field<Expression>,

    /// A number of milliseconds, such as `waiting * 20.0`, that is added to an endpoint's price.
    pub(crate) cost_ms: Field<Expression>,
}

/// How an endpoint that is new, or was away, gets its share bit by bit: at the time `t` after it
/// became ready, `max(floor, (t / window) ^ (1 / aggression))` of it.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "SlowStart", transform = order::<RawSlowStart>)]
pub(crate) struct RawSlowStart {
    /// How long it takes; `0s` gives it its whole share at once.
    #[schemars(extend("default" = "10s"))]
    pub(crate) window: Field<Span<0, HOUR>>,

    /// 1 ramps evenly, more is faster at first, less is slower at first.
    #[schemars(extend("default" = 1.0))]
    pub(crate) aggression: Field<Positive>,

    /// The share that it has from the start.
    #[schemars(extend("default" = 0.1))]
    pub(crate) floor: Field<Fraction>,
}

/// Requests that the gateway sends to an endpoint before it becomes ready: engines compile and
/// fill their caches with the first ones. Their answers are thrown away.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "WarmUp", transform = order::<RawWarmUp>)]
pub(crate) struct RawWarmUp {
    /// How many; 0 means none. Engines differ, 50 to 100 is usual.
    #[schemars(extend("default" = 0))]
    pub(crate) requests: Field<Int<0, 10_000>>,

    /// How many of them at once.
    #[schemars(extend("default" = 1))]
    pub(crate) concurrency: Field<Int<1, 1024>>,
}

/// How endpoints are asked what they hold and do: their metrics, their models, their GPUs.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Scrape", transform = order::<RawScrape>)]
pub(crate) struct RawScrape {
    /// Whether they are asked. If not, only the gateway's own requests count as load.
    #[schemars(extend("default" = true))]
    pub(crate) enabled: Field<Flag>,

    /// From one request for the load to the next while an endpoint has work.
    #[schemars(extend("default" = "100ms"))]
    pub(crate) interval_min: Field<Span<10, HOUR>>,

    /// The same while it has none or does not answer. At least `interval_min`.
    #[schemars(extend("default" = "5s"))]
    pub(crate) interval_max: Field<Span<10, HOUR>>,

    /// How long one page may take.
    #[schemars(extend("default" = "2s"))]
    pub(crate) timeout: Field<Span<10, { 5 * MINUTE }>>,

    /// From one request for what changes seldom, models and GPUs, to the next. Models are also read
    /// whenever another engine may have come, and every 5s where the wrong one is.
    #[schemars(extend("default" = "10s"))]
    pub(crate) models_interval: Field<Span<100, HOUR>>,
}

/// Load reports in the heads or trailers of answers (ORCA, `endpoint-load-metrics`). They are
/// read wherever they come and never reach the client.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Orca", transform = order::<RawOrca>)]
pub(crate) struct RawOrca {
    /// Whether endpoints are asked for a report with each answer, by the request header
    /// `endpoint-load-metrics-format`, and in which format. vLLM and Triton report only when asked.
    #[schemars(extend("default" = "none"))]
    pub(crate) ask: Field<Word<OrcaAsk>>,

    /// The metrics that make up an endpoint's utilisation, such as
    /// `named_metrics.kv_cache_usage_perc` for vLLM; the largest counts. Without any, it is the
    /// application's utilisation or else the CPU's, which vLLM and Triton do not report. A report
    /// without requests per second, as theirs, is weighed by this gateway's own requests there.
    pub(crate) metrics: Option<Vec<Scalar<ReportMetric>>>,

    /// For `orca_weighted_round_robin`, like the fields below: a weight is not used until reports
    /// have come for so long.
    #[schemars(extend("default" = "10s"))]
    pub(crate) blackout_period: Field<Span<0, HOUR>>,

    /// Without a report for so long, a weight is unknown again.
    #[schemars(extend("default" = "3m"))]
    pub(crate) weight_expiration_period: Field<Span<100, { 24 * HOUR }>>,

    /// Weights are computed anew so often.
    #[schemars(extend("default" = "1s"))]
    pub(crate) weight_update_period: Field<Span<100, HOUR>>,

    /// What errors count for beside utilisation.
    #[schemars(extend("default" = 1.0))]
    pub(crate) error_utilization_penalty: Field<Share>,
}
