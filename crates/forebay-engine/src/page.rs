//! `GET /metrics` under vLLM's names.

use std::fmt::Write as _;

use forebay_sim::engine::{EngineLoad, Profile};

use crate::answer::FinishReason;
use crate::metrics::Metrics;

/// Everything a page shows.
pub(crate) struct Page<'a> {
    pub(crate) model: &'a str,
    pub(crate) profile: &'a Profile,
    pub(crate) load: EngineLoad,
    /// Sequences that wait for their adapter.
    pub(crate) deferred: u32,
    pub(crate) metrics: &'a Metrics,
    /// How many adapters fit into memory, and each combination of running ones
    /// with the date when it was last so.
    pub(crate) adapters: Option<(usize, &'a [(String, f64)])>,
    /// When the engine started, in seconds since 1970.
    pub(crate) started: f64,
    /// Engine time since then, in seconds.
    pub(crate) elapsed: f64,
}

/// The label that every series of an engine has, beside the model.
const ENGINE: &str = "engine=\"0\"";

impl Page<'_> {
    /// The text, in the Prometheus exposition format.
    pub(crate) fn render(&self) -> String {
        let mut out = String::with_capacity(24 * 1024);
        let model = format!("model_name=\"{}\"", escape(self.model));
        self.gauges_and_counters(&mut out, &model);
        self.histograms(&mut out, &model);
        self.adapters(&mut out);
        self.cache_config(&mut out);
        self.process(&mut out);
        out
    }

    fn gauges_and_counters(&self, out: &mut String, model: &str) {
        let load = &self.load;
        let total = |n: u64| n as f64;
        for (name, kind, help, value) in [
            (
                "num_requests_running",
                "gauge",
                "Number of requests in model execution batches.",
                f64::from(load.running),
            ),
            (
                "num_requests_waiting",
                "gauge",
                "Number of requests waiting to be processed.",
                f64::from(load.waiting + self.deferred),
            ),
            ("kv_cache_usage_perc", "gauge", "KV-cache usage. 1 means 100 percent usage.", load.kv_usage),
            (
                "prefix_cache_queries_total",
                "counter",
                "Prefix cache queries, in terms of number of queried tokens.",
                total(load.prefix_queries),
            ),
            (
                "prefix_cache_hits_total",
                "counter",
                "Prefix cache hits, in terms of number of cached tokens.",
                total(load.prefix_hits),
            ),
            (
                "num_preemptions_total",
                "counter",
                "Cumulative number of preemption from the engine.",
                total(load.preemptions),
            ),
            (
                "prompt_tokens_total",
                "counter",
                "Number of prefill tokens processed.",
                total(load.prompt_tokens),
            ),
            (
                "prompt_tokens_cached_total",
                "counter",
                "Number of cached prompt tokens (local + external).",
                total(load.prefix_hits),
            ),
            (
                "generation_tokens_total",
                "counter",
                "Number of generation tokens processed.",
                total(load.generation_tokens),
            ),
        ] {
            header(out, name, kind, help);
            let _ = writeln!(out, "vllm:{name}{{{ENGINE},{model}}} {value:?}");
        }
        let name = "num_requests_waiting_by_reason";
        header(out, name, "gauge", "Number of waiting requests by reason.");
        for (reason, value) in [("capacity", load.waiting), ("deferred", self.deferred)] {
            let _ = writeln!(out, "vllm:{name}{{{ENGINE},{model},reason=\"{reason}\"}} {value}.0");
        }
        let name = "engine_sleep_state";
        header(out, name, "gauge", "Engine sleep state; awake = 0 means engine is sleeping.");
        for (state, value) in [("awake", 1), ("weights_offloaded", 0), ("discard_all", 0)] {
            let _ = writeln!(out, "vllm:{name}{{{ENGINE},{model},sleep_state=\"{state}\"}} {value}.0");
        }
        let name = "request_success_total";
        header(out, name, "counter", "Count of successfully processed requests.");
        let ended = |reason| self.metrics.finished.get(&reason).copied().unwrap_or(0);
        for (reason, value) in [
            ("stop", ended(FinishReason::Stop)),
            ("length", ended(FinishReason::Length)),
            ("abort", ended(FinishReason::Abort)),
            ("error", 0),
            ("repetition", 0),
        ] {
            let _ = writeln!(out, "vllm:{name}{{{ENGINE},finished_reason=\"{reason}\",{model}}} {value}.0");
        }
        let name = "admission_rejections_total";
        header(out, name, "counter", "Number of admission attempts rejected by a queue limit, by reason.");
        let rejected = self.metrics.rejected;
        let _ = writeln!(out, "vllm:{name}{{{model},reason=\"max_num_queued_reqs\"}} {rejected}.0");
    }

    fn histograms(&self, out: &mut String, model: &str) {
        let m = self.metrics;
        for (name, help, histogram) in [
            ("request_prompt_tokens", "Number of prefill tokens processed.", &m.prompt_len),
            ("request_generation_tokens", "Number of generation tokens processed.", &m.output_len),
            ("time_to_first_token_seconds", "Histogram of time to first token in seconds.", &m.first_token),
            ("inter_token_latency_seconds", "Histogram of inter-token latency in seconds.", &m.inter_token),
            (
                "request_time_per_output_token_seconds",
                "Histogram of time_per_output_token_seconds per request.",
                &m.per_token,
            ),
            ("e2e_request_latency_seconds", "Histogram of e2e request latency in seconds.", &m.e2e),
            ("request_queue_time_seconds", "Histogram of time spent in WAITING phase for request.", &m.queue),
            (
                "request_inference_time_seconds",
                "Histogram of time spent in RUNNING phase for request.",
                &m.inference,
            ),
            (
                "request_prefill_time_seconds",
                "Histogram of time spent in PREFILL phase for request.",
                &m.prefill,
            ),
            (
                "request_decode_time_seconds",
                "Histogram of time spent in DECODE phase for request.",
                &m.decode,
            ),
        ] {
            header(out, name, "histogram", help);
            histogram.render(out, &format!("vllm:{name}"), (ENGINE, model));
        }
    }

    /// Only with adapters. As in the engine, both labels have the same names,
    /// and combinations of the past stay.
    fn adapters(&self, out: &mut String) {
        let Some((most, told)) = self.adapters else { return };
        let name = "lora_requests_info";
        header(out, name, "gauge", "Running stats on lora requests.");
        for (running, unix) in told {
            let running = escape(running);
            let labels = format!(
                "max_lora=\"{most}\",running_lora_adapters=\"{running}\",waiting_lora_adapters=\"{running}\""
            );
            let _ = writeln!(out, "vllm:{name}{{{labels}}} {}", date(*unix));
        }
    }

    fn process(&self, out: &mut String) {
        let name = "process_start_time_seconds";
        let _ = writeln!(out, "# HELP {name} Start time of the process since unix epoch in seconds.");
        let _ = writeln!(out, "# TYPE {name} gauge\n{name} {}", date(self.started));
    }

    fn cache_config(&self, out: &mut String) {
        let name = "cache_config_info";
        header(out, name, "gauge", "Information of the LLMEngine CacheConfig");
        let Profile { block_size, kv_tokens, .. } = self.profile;
        let blocks = self.profile.blocks();
        let labels = format!(
            "block_size=\"{block_size}\",cache_dtype=\"auto\",enable_prefix_caching=\"True\",{ENGINE},\
             kv_cache_size_tokens=\"{kv_tokens}\",num_gpu_blocks=\"{blocks}\""
        );
        let _ = writeln!(out, "vllm:{name}{{{labels}}} 1.0");
    }
}

/// Seconds since 1970 as the original writes them.
pub(crate) fn date(unix: f64) -> String {
    format!("{unix:e}").replace('e', "e+0")
}

fn header(out: &mut String, name: &str, kind: &str, help: &str) {
    let _ = writeln!(out, "# HELP vllm:{name} {help}\n# TYPE vllm:{name} {kind}");
}

/// A label value as the exposition format wants it.
pub(crate) fn escape(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}
