//! What an endpoint tells of itself, in the same words for every engine.

/// How many signals of the user's own a [`Reader`](super::Reader) takes.
pub const MAX_CUSTOM: usize = 8;

/// How many model names [`Signals::models`] keeps.
pub const MAX_MODELS: usize = 16;

/// How many adapter names [`Adapters::loaded`] keeps.
pub const MAX_ADAPTERS: usize = 256;

/// How many models [`read_models`](super::read_models) gives.
pub const MAX_RESIDENT: usize = 4096;

/// Everything that one reading told. `None` is unknown, never zero: an engine
/// that does not publish a figure, or publishes nonsense, is not an idle one.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Signals {
    /// Requests in the running batch, summed over data-parallel ranks.
    pub running: Option<u32>,
    /// Requests in the engine's own queue, summed over ranks.
    pub waiting: Option<u32>,
    /// Share of the KV memory in use, 0 to 1: that of the fullest rank.
    pub kv_usage: Option<f32>,
    /// Tokens in one block of KV memory.
    pub kv_block_size: Option<u32>,
    /// Blocks of KV memory, of all ranks together.
    pub kv_blocks: Option<u32>,
    /// Tokens that the KV memory of all ranks together can hold.
    pub kv_tokens: Option<u64>,
    /// Prompt tokens that wait and are not cached (SGLang's `/v1/loads`).
    pub waiting_tokens: Option<u64>,
    /// Tokens whose KV is held for running requests.
    pub running_tokens: Option<u64>,
    /// Tokens per second that the engine says it generates.
    pub generation_throughput: Option<f32>,
    /// Requests that may run at once.
    pub max_running: Option<u32>,
    /// Running requests that were put back a moment ago for want of KV memory
    /// (SGLang; others count all of them, see [`Counters::preemptions`]).
    pub put_back: Option<u32>,
    /// Whether the model has been put to sleep: alive, but not serving.
    pub asleep: Option<bool>,
    /// What only grows while the engine lives.
    pub counters: Counters,
    /// When the process began, in seconds of Unix time: the process metric, or
    /// else the earliest `_created` of the counters.
    pub process_start: Option<f64>,
    /// The accelerators' own figures.
    pub gpu: Gpu,
    /// The user's signals, by place in the list given to the reader.
    pub custom: [Option<f64>; MAX_CUSTOM],
    /// Those of them that no series of the page told of: none has the metric
    /// with the labels. One that told nonsense is unknown, and not missing.
    pub custom_missing: [bool; MAX_CUSTOM],
    /// The accelerator's name as the engine spells it.
    pub accelerator: Option<String>,
    /// LoRA adapters, where the engine tells.
    pub adapters: Option<Adapters>,
    /// Model names met in labels, in order of appearance, at most [`MAX_MODELS`].
    pub models: Vec<String>,
    /// Values met for a wanted figure that mean nothing: NaN, infinite,
    /// negative, beyond any possible size, or not a number at all.
    pub skipped: u32,
}

/// Counters; they begin again at zero when the engine restarts, see
/// [`rates`](super::rates).
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Counters {
    /// Prompt tokens taken in, cached ones included.
    pub prompt_tokens: Option<f64>,
    /// Tokens generated.
    pub generation_tokens: Option<f64>,
    /// Prompt tokens looked up in the prefix cache.
    pub prefix_queries: Option<f64>,
    /// Prompt tokens found in the prefix cache.
    pub prefix_hits: Option<f64>,
    /// Times that a running request was put back for want of KV memory.
    pub preemptions: Option<f64>,
    /// Requests finished, for whatever reason.
    pub requests: Option<f64>,
    /// Requests turned away because a queue was full.
    pub rejections: Option<f64>,
}

/// Figures of the accelerators behind an endpoint, several brought together.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Gpu {
    /// Share of the time in which a kernel ran, 0 to 1; the mean.
    pub utilization: Option<f32>,
    /// Degrees Celsius; the hottest.
    pub temperature_c: Option<f32>,
    /// NVIDIA's clock-event reasons, any of them: see [`Gpu::throttled`].
    pub throttle: Option<u64>,
    /// Watts; the sum.
    pub power_w: Option<f32>,
    /// MHz of the streaming multiprocessors; the slowest.
    pub sm_clock_mhz: Option<f32>,
}

impl Gpu {
    /// Bits of [`throttle`](Self::throttle) that mean lost speed: power cap
    /// (0x4), hardware slowdown (0x8), thermal (0x20, 0x40) and power brake
    /// (0x80). Idle (0x1), clocks set by hand (0x2), sync boost (0x10) and
    /// display settings (0x100) are left out.
    pub const SLOWING: u64 = 0x4 | 0x8 | 0x20 | 0x40 | 0x80;

    /// Whether some accelerator is kept below its clock by power or heat.
    pub fn throttled(&self) -> Option<bool> {
        self.throttle.map(|bits| bits & Self::SLOWING != 0)
    }
}

/// What an engine tells of its LoRA adapters.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Adapters {
    /// Adapters known to be in use, each once, at most [`MAX_ADAPTERS`]. Others
    /// may be loaded as well: vLLM names only those with requests, SGLang none.
    pub loaded: Vec<String>,
    /// How many can be in memory at once.
    pub max: Option<u32>,
}

/// A metric of the user's choice, to be read into [`Signals::custom`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CustomSignal {
    /// The series' full name as the page has it.
    pub metric: String,
    /// Labels that a series must carry, with these values.
    pub labels: Vec<(String, String)>,
    /// How several series become one number.
    pub combine: Combine,
}

/// How several series become one number.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Combine {
    /// Added up.
    #[default]
    Sum,
    /// The largest.
    Max,
    /// The arithmetic mean.
    Mean,
}

/// A model that an endpoint says it has.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ResidentModel {
    /// The name by which it is asked for.
    pub id: String,
    /// The base model, when this is an adapter.
    pub parent: Option<String>,
    /// Whether it can serve now.
    pub ready: bool,
}

/// Why an answer could not be read.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum SignalsError {
    /// The body is not JSON of the expected shape.
    #[error("{what}: {why}")]
    Body {
        /// What was being read.
        what: &'static str,
        /// What is wrong, and where.
        why: String,
    },
}
