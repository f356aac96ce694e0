//! A pool, as data.

use serde::Serialize;

use super::EndpointStatus;

/// One pool.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct PoolStatus {
    /// Its name.
    pub name: String,
    /// The model that clients ask for.
    pub model: String,
    /// How an endpoint is picked, by the configuration or as it was changed since.
    pub policy: String,
    /// What the terms of `predictive` count for.
    pub profile: String,
    /// The policy has given way to `least_work` with prefixes, because its
    /// predictions fail.
    pub fallback: bool,
    /// How many of its endpoints may be picked.
    pub ready: usize,
    /// Requests in flight on all its endpoints.
    pub in_flight: u64,
    /// Requests that wait in the gateway.
    pub waiting: u64,
    /// How far off the predicted times to the first token were in the last
    /// minute or two; none when there were none.
    pub ttft_error: Option<PredictionError>,
    /// The same for the time per output token.
    pub tpot_error: Option<PredictionError>,
    /// The same for the length of answers, in tokens.
    pub output_error: Option<PredictionError>,
    /// Share of the predictions within the limit that were broken by far, 0 to 1.
    pub broken_predictions: f64,
    /// Correction of the predicted time per token; 1 is right.
    pub tpot_correction: f64,
    /// What loading an adapter takes, in milliseconds, as learned; 1,000 while
    /// nothing was.
    pub adapter_load_ms: f64,
    /// The second policy that is asked and not obeyed; none without one.
    pub shadow: Option<ShadowStatus>,
    /// The index of held prefixes, which pools that share an endpoint share.
    pub prefix_index: PrefixIndexStatus,
    /// Its endpoints, in the order of the configuration.
    pub endpoints: Vec<EndpointStatus>,
}

/// Errors of predictions, as factors.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct PredictionError {
    /// Predictions compared.
    pub count: u64,
    /// Geometric mean of observed over predicted: above 1, predictions are too short.
    pub bias: f64,
    /// Mean error, whichever way, at least 1: 1.2 is a fifth off.
    pub mean: f64,
    /// Its median.
    pub p50: f64,
    /// Its 90th percentile.
    pub p90: f64,
}

/// What a shadow policy would have done since it was set.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct ShadowStatus {
    /// Its name.
    pub policy: String,
    /// Requests that it was asked about.
    pub asked: u64,
    /// Share of them that it would have sent to the same endpoint, 0 to 1; none
    /// before the first.
    pub agreement: Option<f64>,
    /// What its choices would have cost more, in milliseconds of price for each
    /// request on average; below 0 when they would have been cheaper.
    pub mean_difference_ms: Option<f64>,
}

/// What the prefix index holds and has dropped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct PrefixIndexStatus {
    /// Memory that it uses.
    pub bytes: u64,
    /// Distinct blocks in it.
    pub blocks: u64,
    /// Blocks of single endpoints dropped because the endpoint holds no more.
    pub evicted_by_capacity: u64,
    /// The same because the index may use no more memory.
    pub evicted_by_memory: u64,
}
