//! An endpoint, as data.

use std::collections::BTreeMap;

use serde::Serialize;

/// One endpoint of one pool; also an element of `GET /api/v1/endpoints`.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct EndpointStatus {
    /// How the control API names it.
    pub id: String,
    /// The pool.
    pub pool: String,
    /// Its address.
    pub url: String,
    /// The software there: as configured, or with `auto` as it was found; `auto`
    /// until it was.
    pub engine: String,
    /// Its GPU class, where the configuration names one.
    pub accelerator: Option<String>,
    /// `starting`, `ready`, `unready`, `draining` or `disabled`.
    pub state: String,
    /// Whether it serves the pool's model: `listed`, as its list or its metrics
    /// say; `unlisted`, where neither does and it is taken to serve it; `other`, where it lists
    /// only other models and gets no requests; `checking`, while something else
    /// may answer there. Null while nobody looked.
    pub model_check: Option<String>,
    /// Relative capacity.
    pub weight: f64,
    /// Requests sent there and not finished.
    pub in_flight: u64,
    /// Requests sent there since the process started.
    pub requests: u64,
    /// Prefill that was sent there and not seen to be done, in milliseconds.
    pub owed_ms: f64,
    /// Distinct blocks of prompts in flight there.
    pub blocks_in_flight: u64,
    /// Requests there that this gateway did not send, as reported; fades with age.
    pub foreign_requests: f64,
    /// Share of its load that it may get while it ramps up; 1 when it is done.
    pub ramp: f64,
    /// Its speed, as learned.
    pub speed: SpeedStatus,
    /// Age of its last load report in seconds; none while there is none.
    pub signal_age_seconds: Option<f64>,
    /// What that report said.
    pub signals: SignalStatus,
    /// Its accelerators.
    pub gpu: GpuStatus,
    /// LoRA adapters there.
    pub adapters: AdapterStatus,
    /// How its load is read.
    pub scrapes: ScrapeStatus,
    /// Its KV-cache events, one for each rank; empty where none are asked for.
    pub kv_events: Vec<KvEventStatus>,
}

/// How fast an endpoint is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct SpeedStatus {
    /// How much longer than its class it takes to compute a prompt; 1 is as its class.
    pub prefill_factor: f64,
    /// … to generate a token.
    pub decode_factor: f64,
    /// Milliseconds for one prompt token.
    pub prefill_ms_per_token: f64,
    /// Milliseconds of an empty decode step.
    pub step_ms: f64,
    /// Network time there and back, in milliseconds.
    pub network_ms: f64,
}

/// What an engine said last of its load; null is unknown.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct SignalStatus {
    /// Requests in the running batch.
    pub running: Option<u32>,
    /// Requests in the engine's own queue.
    pub waiting: Option<u32>,
    /// Share of the KV memory in use, 0 to 1.
    pub kv_usage: Option<f32>,
    /// Tokens that the KV memory holds in all.
    pub kv_tokens: Option<u64>,
    /// Prompt tokens in the engine's queue that it must still compute.
    pub waiting_tokens: Option<u64>,
    /// Tokens generated per second, where the engine says so.
    pub tokens_per_second: Option<f32>,
    /// Share of prompt tokens found in the engine's prefix cache since it
    /// started, 0 to 1.
    pub prefix_hit: Option<f64>,
    /// The operator's own signals, by name; unknown ones are left out.
    pub custom: BTreeMap<String, f64>,
    /// Those of them whose metric is not on the endpoint's page.
    pub missing: Vec<String>,
    /// Values in that report that mean nothing, such as NaN: their figures are
    /// unknown.
    pub unusable: u32,
}

/// What the exporter of a node's GPUs said last; null is unknown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct GpuStatus {
    /// Share of the time in which a kernel ran, 0 to 1.
    pub utilization: Option<f32>,
    /// The hottest one's temperature, in degrees Celsius.
    pub temperature_celsius: Option<f32>,
    /// Whether power or heat keeps one below its clock.
    pub throttled: Option<bool>,
}

/// LoRA adapters at an endpoint.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct AdapterStatus {
    /// Those that it lists.
    pub listed: Vec<String>,
    /// Those that it said are in memory; it may name only those with requests.
    pub loaded: Vec<String>,
    /// How many fit in memory; null is unknown.
    pub max: Option<u32>,
}

/// How the reading of an endpoint's load goes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ScrapeStatus {
    /// Readings that told something.
    pub ok: u64,
    /// Readings that did not.
    pub failed: u64,
    /// Why the last one failed; null when it did not.
    pub last_failure: Option<String>,
}

/// One subscription to an engine's KV-cache events.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct KvEventStatus {
    /// Data-parallel rank.
    pub rank: u32,
    /// Where it publishes, or where it is listened for.
    pub address: String,
    /// The publisher is connected now.
    pub connected: bool,
    /// Events handed on since the start.
    pub events: u64,
    /// Messages that could not be read.
    pub unreadable: u64,
    /// Times that batches were missed.
    pub gaps: u64,
    /// Replays of missed batches that failed.
    pub failed_replays: u64,
    /// Times that all was forgotten because batches stayed missing.
    pub resets: u64,
    /// Restarts of the engine that were noticed.
    pub restarts: u64,
}
