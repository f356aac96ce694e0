//! What other engines than vLLM show on their metrics pages, as far as a
//! gateway reads it. Rates are means since the engine started.

use std::fmt::Write as _;

use forebay_sim::engine::EngineLoad;

use crate::dialect::MetricsDialect;
use crate::page::{Page, date, escape};

/// A series: kind, name and value.
type Series = (&'static str, &'static str, f64);

const GAUGE: &str = "gauge";
const COUNTER: &str = "counter";

/// The page under the names of `dialect`, which is not vLLM's own.
pub(crate) fn render(dialect: MetricsDialect, page: &Page<'_>) -> String {
    let model = escape(page.model);
    let (prefix, labels) = match dialect {
        MetricsDialect::Sglang => (
            "sglang:",
            format!(
                "{{engine_type=\"unified\",model_name=\"{model}\",moe_ep_rank=\"0\",pp_rank=\"0\",tp_rank=\"0\"}}"
            ),
        ),
        MetricsDialect::Lmdeploy => ("lmdeploy:", format!("{{engine=\"0\",model_name=\"{model}\"}}")),
        MetricsDialect::Llamacpp => ("llamacpp:", String::new()),
        MetricsDialect::Tgi | MetricsDialect::Vllm => ("tgi_", String::new()),
    };
    let mut out = String::with_capacity(4 * 1024);
    for (kind, name, value) in series(dialect, page) {
        let _ = writeln!(out, "# TYPE {prefix}{name} {kind}\n{prefix}{name}{labels} {value:?}");
    }
    // Clients of Prometheus in Python add it.
    if matches!(dialect, MetricsDialect::Sglang | MetricsDialect::Lmdeploy) {
        let name = "process_start_time_seconds";
        let _ = writeln!(out, "# TYPE {name} gauge\n{name} {}", date(page.started));
    }
    out
}

fn series(dialect: MetricsDialect, page: &Page<'_>) -> Vec<Series> {
    let EngineLoad { prefix_hits, prompt_tokens, generation_tokens, preemptions, .. } = page.load;
    let load = &page.load;
    let (running, waiting) = (f64::from(load.running), f64::from(load.waiting + page.deferred));
    let (prompt, generated) = (prompt_tokens as f64, generation_tokens as f64);
    let block = f64::from(page.profile.block_size);
    let tokens = |blocks: u32| f64::from(blocks) * block;
    let rate = |tokens: f64| if page.elapsed > 0.0 { tokens / page.elapsed } else { 0.0 };
    let finished = page.metrics.finished.values().sum::<u64>() as f64;
    match dialect {
        MetricsDialect::Sglang => vec![
            (GAUGE, "num_running_reqs", running),
            (GAUGE, "num_queue_reqs", waiting),
            (GAUGE, "token_usage", load.kv_usage),
            (GAUGE, "num_used_tokens", tokens(load.blocks_used)),
            (GAUGE, "max_total_num_tokens", tokens(load.blocks_total)),
            (GAUGE, "page_size", block),
            (GAUGE, "num_pages", f64::from(load.blocks_total)),
            (GAUGE, "gen_throughput", rate(generated)),
            (GAUGE, "cache_hit_rate", prefix_hits as f64 / (load.prefix_queries as f64).max(1.0)),
            (COUNTER, "prompt_tokens_total", prompt),
            (COUNTER, "generation_tokens_total", generated),
            (COUNTER, "cached_tokens_total", prefix_hits as f64),
            (COUNTER, "num_requests_total", finished),
            (COUNTER, "num_retracted_requests_total", preemptions as f64),
        ],
        MetricsDialect::Llamacpp => vec![
            (COUNTER, "prompt_tokens_total", prompt),
            (COUNTER, "tokens_predicted_total", generated),
            (GAUGE, "prompt_tokens_seconds", rate(prompt)),
            (GAUGE, "predicted_tokens_seconds", rate(generated)),
            (GAUGE, "requests_processing", running),
            (GAUGE, "requests_deferred", waiting),
        ],
        MetricsDialect::Lmdeploy => vec![
            (GAUGE, "num_requests_running", running),
            (GAUGE, "num_requests_waiting", waiting),
            (GAUGE, "num_api_requests_waiting", 0.0),
            (GAUGE, "gpu_cache_usage_perc", load.kv_usage),
            (COUNTER, "prompt_tokens_total", prompt),
            (COUNTER, "generation_tokens_total", generated),
        ],
        MetricsDialect::Tgi | MetricsDialect::Vllm => vec![
            (GAUGE, "batch_current_size", running),
            (GAUGE, "queue_size", waiting),
            (GAUGE, "batch_current_max_tokens", tokens(load.blocks_used)),
            (COUNTER, "request_count", finished + running + waiting),
            (COUNTER, "request_success", finished),
        ],
    }
}

/// SGLang's `GET /v1/loads`.
pub(crate) fn loads(page: &Page<'_>, accelerator: &str) -> String {
    let load = &page.load;
    let block = page.profile.block_size;
    let waiting = load.waiting + page.deferred;
    let rate = if page.elapsed > 0.0 { load.generation_tokens as f64 / page.elapsed } else { 0.0 };
    serde_json::json!({
        "version": "0.5.23",
        "accelerator": accelerator,
        "num_accelerators": 1,
        "loads": [{
            "dp_rank": 0,
            "num_running_reqs": load.running,
            "num_waiting_reqs": waiting,
            "num_used_tokens": load.blocks_used * block,
            "max_total_num_tokens": load.blocks_total * block,
            "max_running_requests": page.profile.max_num_seqs,
            "token_usage": load.kv_usage,
            "gen_throughput": rate,
        }],
    })
    .to_string()
}
