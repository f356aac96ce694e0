//! A decision, as data.

use serde::Serialize;

/// Why one request went where it went; an element of `GET /api/v1/decisions`.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct DecisionView {
    /// Seconds since the decision.
    pub age_seconds: f64,
    /// The pool that was asked.
    pub pool: String,
    /// The adapter that was asked for, or else the pool's model.
    pub model: String,
    /// URL of the picked endpoint; empty when it has left since.
    pub endpoint: String,
    /// The policy that chose.
    pub policy: String,
    /// It chose in place of the configured one, whose predictions fail.
    pub fallback: bool,
    /// Where the shadow policy would have sent it; null without one.
    pub shadow: Option<String>,
    /// Prompt tokens, as estimated before the engine counts them.
    pub prompt_tokens: u32,
    /// Expected output tokens.
    pub output_tokens: u32,
    /// How many endpoints were eligible.
    pub candidates: u32,
    /// What the policy minimised, at the picked endpoint, in the policy's own unit.
    pub score: f64,
    /// Requests in flight there before this one.
    pub in_flight: u32,
    /// The same in one line.
    pub reason: String,
    /// The picked endpoint, then the cheapest others (with `predictive`) or
    /// some others; at most eight, each with its price.
    pub candidates_priced: Vec<CandidateView>,
}

/// What one candidate would have cost, in milliseconds where nothing else is said.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct CandidateView {
    /// Its URL; empty when it has left since.
    pub endpoint: String,
    /// Tokens of the prompt that it holds.
    pub held_tokens: f32,
    /// Wait behind the prefill already owed there and for KV memory.
    pub wait_ms: f32,
    /// The request's own prefill.
    pub prefill_ms: f32,
    /// Network and adapter load.
    pub fixed_ms: f32,
    /// Predicted time to the first token: the three above.
    pub ttft_ms: f32,
    /// The operator's own cost, and that of driving out an adapter; counts as
    /// much as the time to the first token.
    pub extra_ms: f32,
    /// The request's own decoding.
    pub decode_ms: f32,
    /// Delay of the streams already there, all together.
    pub harm_ms: f32,
    /// Capacity consumed, in milliseconds of the pool's fastest endpoint.
    pub capacity_ms: f32,
    /// What that capacity costs now.
    pub price_ms: f32,
    /// What keeping it busier than its fair share costs.
    pub crowding_ms: f32,
    /// Predicted time per output token after it has joined.
    pub tpot_ms: f32,
    /// Chance of missing its own limits, 0 to 1.
    pub miss: f32,
    /// Cost of that and of the misses it causes others.
    pub miss_ms: f32,
    /// The weighted sum: what `predictive` minimises.
    pub total_ms: f32,
}
