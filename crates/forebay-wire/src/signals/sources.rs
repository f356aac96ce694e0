//! Which series of which engine tells what.

use super::Dialect;

/// What a series is read into.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Field {
    Running,
    Waiting,
    KvUsage,
    KvBlockSize,
    KvBlocks,
    KvTokens,
    WaitingTokens,
    RunningTokens,
    Throughput,
    MaxRunning,
    PromptTokens,
    GenerationTokens,
    PrefixQueries,
    PrefixHits,
    Preemptions,
    PutBack,
    Requests,
    Rejections,
    GpuUtilization,
    GpuPower,
    ProcessStart,
    Awake,
    Asleep,
    AdapterSlots,
    /// Names in labels; the series with the largest value counts.
    Adapters,
    /// The user's signal of that place.
    Custom(usize),
}

/// How several series become one figure.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Join {
    Sum,
    Max,
    Min,
    Mean,
}

impl Field {
    /// The largest value that can be true.
    pub(super) fn limit(self) -> f64 {
        match self {
            Self::KvUsage | Self::GpuUtilization | Self::Awake | Self::Asleep => 1.0,
            Self::Running
            | Self::Waiting
            | Self::KvBlockSize
            | Self::KvBlocks
            | Self::MaxRunning
            | Self::PutBack
            | Self::AdapterSlots => f64::from(u32::MAX),
            Self::Throughput | Self::GpuPower => 1e9,
            // Seconds of Unix time, and whatever the user names.
            Self::ProcessStart | Self::Adapters => 1e12,
            Self::Custom(_) => 1e21,
            // Up to here every whole number is a double of its own.
            _ => 9_007_199_254_740_992.0,
        }
    }

    /// The smallest value that can be true.
    pub(super) fn floor(self) -> f64 {
        match self {
            Self::Custom(_) => -1e21,
            // Zero is a gauge that nobody has set.
            Self::ProcessStart | Self::KvBlockSize | Self::KvBlocks | Self::KvTokens => 1.0,
            _ => 0.0,
        }
    }

    fn join(self) -> Join {
        match self {
            Self::KvUsage | Self::KvBlockSize | Self::Asleep => Join::Max,
            Self::ProcessStart | Self::Awake => Join::Min,
            Self::GpuUtilization => Join::Mean,
            _ => Join::Sum,
        }
    }
}

/// One series, and what it tells.
#[derive(Clone, Copy, Debug)]
pub(super) struct Source {
    pub(super) field: Field,
    pub(super) name: &'static str,
    /// A counter: the name may end with `_total`, and has a `_created`.
    pub(super) counter: bool,
    /// Only where the field's other names, with a lower age, are missing.
    pub(super) age: u8,
    /// A label that must have this value; one that is missing has the empty one.
    pub(super) only: Option<(&'static str, &'static str)>,
    /// The figure is the number in this label, not the value.
    pub(super) label: Option<&'static str>,
    pub(super) join: Option<Join>,
}

impl Source {
    const fn gauge(field: Field, name: &'static str) -> Self {
        Self { field, name, counter: false, age: 0, only: None, label: None, join: None }
    }

    const fn counter(field: Field, name: &'static str) -> Self {
        Self { counter: true, ..Self::gauge(field, name) }
    }

    const fn older(self) -> Self {
        Self { age: self.age + 1, ..self }
    }

    const fn only(self, label: &'static str, value: &'static str) -> Self {
        Self { only: Some((label, value)), ..self }
    }

    const fn label(self, label: &'static str) -> Self {
        Self { label: Some(label), ..self }
    }

    const fn join(self, join: Join) -> Self {
        Self { join: Some(join), ..self }
    }

    pub(super) fn how(&self) -> Join {
        self.join.unwrap_or(self.field.join())
    }
}

/// Metrics of every process that uses a Prometheus client.
pub(super) const PROCESS: &[Source] = &[Source::gauge(Field::ProcessStart, "process_start_time_seconds")];

/// The beginning of TensorRT-LLM's names, and the one that Dynamo puts there
/// instead.
pub(super) const TRTLLM_PREFIXES: [&str; 2] = ["trtllm_", "trtllm:"];

/// The series that `dialect` has.
pub(super) fn of(dialect: Dialect) -> &'static [Source] {
    match dialect {
        Dialect::Vllm => VLLM,
        Dialect::Sglang => SGLANG,
        Dialect::Trtllm => TRTLLM,
        Dialect::Triton => TRITON,
        Dialect::Tgi => TGI,
        Dialect::Llamacpp => LLAMACPP,
        Dialect::Lmdeploy => LMDEPLOY,
        Dialect::Ollama | Dialect::Openai => &[],
    }
}

const VLLM: &[Source] = &[
    Source::gauge(Field::Running, "vllm:num_requests_running"),
    Source::gauge(Field::Waiting, "vllm:num_requests_waiting"),
    Source::gauge(Field::KvUsage, "vllm:kv_cache_usage_perc"),
    // Until 0.11.
    Source::gauge(Field::KvUsage, "vllm:gpu_cache_usage_perc").older(),
    Source::gauge(Field::KvBlockSize, "vllm:cache_config_info").label("block_size"),
    // Every rank states the sum over all ranks.
    Source::gauge(Field::KvBlocks, "vllm:cache_config_info").label("num_gpu_blocks").join(Join::Max),
    Source::gauge(Field::Awake, "vllm:engine_sleep_state").only("sleep_state", "awake"),
    Source::gauge(Field::Asleep, "vllm:engine_sleep_state").only("sleep_state", "weights_offloaded"),
    Source::gauge(Field::Asleep, "vllm:engine_sleep_state").only("sleep_state", "discard_all"),
    Source::gauge(Field::Adapters, "vllm:lora_requests_info"),
    Source::counter(Field::PromptTokens, "vllm:prompt_tokens"),
    Source::counter(Field::GenerationTokens, "vllm:generation_tokens"),
    Source::counter(Field::PrefixQueries, "vllm:prefix_cache_queries"),
    Source::counter(Field::PrefixQueries, "vllm:gpu_prefix_cache_queries").older(),
    Source::counter(Field::PrefixHits, "vllm:prefix_cache_hits"),
    Source::counter(Field::PrefixHits, "vllm:gpu_prefix_cache_hits").older(),
    Source::counter(Field::Preemptions, "vllm:num_preemptions"),
    Source::counter(Field::Requests, "vllm:request_success"),
    Source::counter(Field::Rejections, "vllm:admission_rejections"),
];

const SGLANG: &[Source] = &[
    // With priority scheduling there is a series for each priority beside the
    // total, whose label is empty.
    Source::gauge(Field::Running, "sglang:num_running_reqs").only("priority", ""),
    Source::gauge(Field::Waiting, "sglang:num_queue_reqs").only("priority", ""),
    Source::gauge(Field::KvUsage, "sglang:token_usage"),
    Source::gauge(Field::RunningTokens, "sglang:num_used_tokens"),
    Source::gauge(Field::Throughput, "sglang:gen_throughput"),
    Source::gauge(Field::KvBlockSize, "sglang:page_size"),
    Source::gauge(Field::KvBlocks, "sglang:num_pages"),
    // Around 0.5.10.
    Source::gauge(Field::KvBlockSize, "sglang:cache_config_info").label("page_size").older(),
    Source::gauge(Field::KvBlocks, "sglang:cache_config_info").label("num_pages").older(),
    Source::gauge(Field::KvTokens, "sglang:max_total_num_tokens"),
    Source::gauge(Field::AdapterSlots, "sglang:lora_pool_slots_total").join(Join::Max),
    Source::counter(Field::PromptTokens, "sglang:prompt_tokens"),
    Source::counter(Field::GenerationTokens, "sglang:generation_tokens"),
    // Every prompt is looked up.
    Source::counter(Field::PrefixQueries, "sglang:prompt_tokens"),
    Source::counter(Field::PrefixHits, "sglang:cached_tokens"),
    Source::counter(Field::Preemptions, "sglang:num_retracted_requests"),
    // Under this name versions differ: with the ending it counts, without it is
    // a gauge, which falls without any restart.
    Source::gauge(Field::Preemptions, "sglang:num_retracted_reqs_total").older(),
    Source::gauge(Field::PutBack, "sglang:num_retracted_reqs"),
    Source::counter(Field::Requests, "sglang:num_requests"),
];

const TRTLLM: &[Source] = &[
    Source::gauge(Field::Running, "trtllm_num_requests_running"),
    Source::gauge(Field::Waiting, "trtllm_num_requests_waiting"),
    Source::gauge(Field::KvUsage, "trtllm_kv_cache_utilization"),
    Source::gauge(Field::KvBlockSize, "trtllm_kv_cache_tokens_per_block"),
    Source::gauge(Field::KvBlocks, "trtllm_kv_cache_max_blocks"),
    Source::gauge(Field::MaxRunning, "trtllm_max_num_active_requests"),
    Source::counter(Field::PromptTokens, "trtllm_prompt_tokens"),
    Source::counter(Field::GenerationTokens, "trtllm_generation_tokens"),
    Source::counter(Field::PrefixQueries, "trtllm_prompt_tokens"),
    Source::counter(Field::PrefixHits, "trtllm_prompt_cached_tokens"),
    Source::counter(Field::Requests, "trtllm_request_success"),
];

const REQUESTS: &str = "nv_trt_llm_request_metrics";
const KV_BLOCKS: &str = "nv_trt_llm_kv_cache_block_metrics";

const TRITON: &[Source] = &[
    Source::gauge(Field::Running, REQUESTS).only("request_type", "scheduled"),
    Source::gauge(Field::Waiting, REQUESTS).only("request_type", "waiting"),
    Source::gauge(Field::MaxRunning, REQUESTS).only("request_type", "max"),
    // Any backend; with TensorRT-LLM's the queue is the backend's.
    Source::gauge(Field::Waiting, "nv_inference_pending_request_count").older(),
    Source::gauge(Field::KvUsage, KV_BLOCKS).only("kv_cache_block_type", "fraction"),
    Source::gauge(Field::KvBlockSize, KV_BLOCKS).only("kv_cache_block_type", "tokens_per"),
    Source::gauge(Field::KvBlocks, KV_BLOCKS).only("kv_cache_block_type", "max"),
    Source::gauge(Field::GpuUtilization, "nv_gpu_utilization"),
    Source::gauge(Field::GpuPower, "nv_gpu_power_usage"),
    Source::counter(Field::Requests, "nv_inference_request_success"),
    Source::counter(Field::Rejections, "nv_inference_request_failure").only("reason", "REJECTED"),
];

const TGI: &[Source] = &[
    Source::gauge(Field::Running, "tgi_batch_current_size"),
    Source::gauge(Field::Waiting, "tgi_queue_size"),
    // What the batch may grow to is set aside when it begins.
    Source::gauge(Field::RunningTokens, "tgi_batch_current_max_tokens"),
    // Sums of histograms; they grow when a request ends.
    Source::gauge(Field::PromptTokens, "tgi_request_input_length_sum"),
    Source::gauge(Field::GenerationTokens, "tgi_request_generated_tokens_sum"),
    Source::counter(Field::Requests, "tgi_request_success"),
];

const LLAMACPP: &[Source] = &[
    Source::gauge(Field::Running, "llamacpp:requests_processing"),
    Source::gauge(Field::Waiting, "llamacpp:requests_deferred"),
    // Gone from newer versions.
    Source::gauge(Field::KvUsage, "llamacpp:kv_cache_usage_ratio"),
    Source::gauge(Field::RunningTokens, "llamacpp:kv_cache_tokens"),
    Source::gauge(Field::Throughput, "llamacpp:predicted_tokens_seconds"),
    Source::counter(Field::PromptTokens, "llamacpp:prompt_tokens"),
    Source::counter(Field::GenerationTokens, "llamacpp:tokens_predicted"),
];

const LMDEPLOY: &[Source] = &[
    Source::gauge(Field::Running, "lmdeploy:num_requests_running"),
    // Those without a request handle yet wait as well.
    Source::gauge(Field::Waiting, "lmdeploy:num_requests_waiting"),
    Source::gauge(Field::Waiting, "lmdeploy:num_api_requests_waiting"),
    Source::gauge(Field::KvUsage, "lmdeploy:gpu_cache_usage_perc"),
    Source::counter(Field::PromptTokens, "lmdeploy:prompt_tokens"),
    Source::counter(Field::GenerationTokens, "lmdeploy:generation_tokens"),
];
