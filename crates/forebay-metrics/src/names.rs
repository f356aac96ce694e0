//! Every metric by name: the one list that rendering and the documentation share.

/// What a metric is to Prometheus.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Only goes up; its name ends in `_total`.
    Counter,
    /// Goes up and down.
    Gauge,
    /// Counts by upper bound, with sum and count.
    Histogram,
}

impl Kind {
    /// The word of a `# TYPE` line.
    pub const fn as_str(self) -> &'static str {
        match self {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
            Kind::Histogram => "histogram",
        }
    }
}

/// One metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Definition {
    /// The whole name, as rendered.
    pub name: &'static str,
    /// Counter, gauge or histogram.
    pub kind: Kind,
    /// Label names in the order in which they are rendered, without a histogram's `le`.
    pub labels: &'static [&'static str],
    /// The text of the `# HELP` line: one sentence.
    pub help: &'static str,
}

macro_rules! metrics {
    ($($id:ident $kind:ident $name:literal [$($label:literal),*] $help:literal;)+) => {
        $(pub(crate) const $id: Definition = Definition {
            name: $name, kind: Kind::$kind, labels: &[$($label),*], help: $help,
        };)+
        /// Every metric, in the order in which they are rendered.
        pub const ALL: &[Definition] = &[$($id),+];
    };
}

metrics! {
    BUILD_INFO Gauge "forebay_build_info" ["version"]
        "Always 1; the label names the running version.";
    DRAINING Gauge "forebay_draining" []
        "1 while the process drains before it ends, else 0.";
    REQUESTS Counter "forebay_requests_total" ["pool", "model", "code", "outcome"]
        "Requests that have ended, by the status the client got and by how they ended.";
    REQUEST_DURATION Histogram "forebay_request_duration_seconds" ["pool", "model"]
        "Time from the request's headers to the last byte of the answer.";
    TTFT Histogram "forebay_ttft_seconds" ["pool", "model"]
        "Time from the arrival of a request to the first token event that went to the client.";
    TPOT Histogram "forebay_tpot_seconds" ["pool", "model"]
        "Mean time per output token after the first, one observation per stream.";
    QUEUE_WAIT Histogram "forebay_queue_wait_seconds" ["pool", "model"]
        "Time between the arrival of a request and the pick of its endpoint.";
    TOKENS Counter "forebay_tokens_total" ["pool", "model", "kind"]
        "Tokens as the engines stated them; cached ones are counted in prompt as well.";
    USAGE_UNKNOWN Counter "forebay_usage_unknown_total" ["pool", "model"]
        "Answers whose token counts could not be read.";
    PREFIX_ERROR Histogram "forebay_prefix_prediction_error_tokens" ["pool", "model"]
        "How far the predicted cached tokens were from those that the engine stated, whichever way.";
    DECISION Histogram "forebay_decision_seconds" []
        "Time one decision took, the wait for the lock included.";
    RETRIES Counter "forebay_retries_total" ["reason"]
        "Requests that were sent to an endpoint a second time.";
    REJECTED Counter "forebay_rejected_total" ["reason"]
        "Requests that the gateway itself refused.";
    CLIENT_CONNECTIONS Gauge "forebay_client_connections" []
        "Open connections of clients.";
    ENDPOINT_STATE Gauge "forebay_endpoint_state" ["pool", "endpoint", "state"]
        "1 for the present state of the endpoint, 0 for every other.";
    ENDPOINT_INFLIGHT Gauge "forebay_endpoint_inflight" ["pool", "endpoint"]
        "Requests sent to the endpoint and not finished.";
    ENDPOINT_REQUESTS Counter "forebay_endpoint_requests_total" ["pool", "endpoint"]
        "Requests sent to the endpoint, second tries included.";
    ENDPOINT_SIGNAL_AGE Gauge "forebay_endpoint_signal_age_seconds" ["pool", "endpoint"]
        "Age of the endpoint's last load report; absent while there is none.";
    ENDPOINT_RUNNING Gauge "forebay_endpoint_running" ["pool", "endpoint"]
        "Requests in the engine's running batch, as it said last; absent while unknown.";
    ENDPOINT_WAITING Gauge "forebay_endpoint_waiting" ["pool", "endpoint"]
        "Requests in the engine's own queue, as it said last; absent while unknown.";
    ENDPOINT_KV_USAGE Gauge "forebay_endpoint_kv_usage" ["pool", "endpoint"]
        "Share of the engine's KV memory in use, 0 to 1, as it said last; absent while unknown.";
    KV_FEED_UP Gauge "forebay_kv_feed_up" ["pool", "endpoint"]
        "1 while every publisher of the endpoint's KV-cache events is connected, else 0; absent where none is followed.";
    ENDPOINT_MISSING_SIGNALS Gauge "forebay_endpoint_missing_signals" ["pool", "endpoint"]
        "Signals of the pool's own whose metric is not on the endpoint's page; absent without any.";
    ENDPOINT_UNUSABLE_VALUES Gauge "forebay_endpoint_unusable_values" ["pool", "endpoint"]
        "Values in the endpoint's last load report that mean nothing, so that their figures are unknown; absent while there is no report.";
    ENDPOINT_WEIGHT Gauge "forebay_endpoint_weight" ["pool", "endpoint"]
        "The weight that the pool's policy counts the endpoint with; absent where it goes by none or knows none yet.";
    ENDPOINT_PREFILL_FACTOR Gauge "forebay_endpoint_prefill_factor" ["pool", "endpoint"]
        "How much longer than its class the endpoint takes to compute a prompt, as learned; 1 is as its class.";
    ENDPOINT_DECODE_FACTOR Gauge "forebay_endpoint_decode_factor" ["pool", "endpoint"]
        "How much longer than its class the endpoint takes to generate a token, as learned; 1 is as its class.";
    ENDPOINT_GPU_UTILIZATION Gauge "forebay_endpoint_gpu_utilization" ["pool", "endpoint"]
        "Share of the time in which the endpoint's GPUs ran a kernel, 0 to 1; absent while unknown.";
    ENDPOINT_GPU_TEMPERATURE Gauge "forebay_endpoint_gpu_temperature_celsius" ["pool", "endpoint"]
        "Temperature of the endpoint's hottest GPU; absent while unknown.";
    ENDPOINT_GPU_THROTTLED Gauge "forebay_endpoint_gpu_throttled" ["pool", "endpoint"]
        "1 while power or heat keeps a GPU of the endpoint below its clock, else 0; absent while unknown.";
    ENDPOINT_SCRAPES Counter "forebay_endpoint_scrapes_total" ["pool", "endpoint", "result"]
        "Readings of the endpoint's load.";
    ENDPOINT_CONNECTIONS_OPEN Gauge "forebay_endpoint_connections_open" ["pool", "endpoint"]
        "Connections to the endpoint, idle ones included.";
    ENDPOINT_CONNECTIONS_IDLE Gauge "forebay_endpoint_connections_idle" ["pool", "endpoint"]
        "Connections to the endpoint that wait for their next request.";
    ENDPOINT_DIALS Counter "forebay_endpoint_dials_total" ["pool", "endpoint", "result"]
        "Attempts to open a connection to the endpoint.";
    ENDPOINT_PROBES Counter "forebay_endpoint_probes_total" ["pool", "endpoint", "result"]
        "Readiness probes of the endpoint.";
    SCRAPE_DURATION Histogram "forebay_scrape_duration_seconds" ["page"]
        "Time one page of an endpoint took, from the request to having read it.";
    POLICY_FALLBACK Gauge "forebay_policy_fallback" ["pool"]
        "1 while the pool's policy has given way because its predictions fail, else 0.";
    TTFT_ERROR Gauge "forebay_ttft_prediction_error" ["pool", "statistic"]
        "How far off the predicted times to the first token were in the last minute or two, as factors.";
    TPOT_ERROR Gauge "forebay_tpot_prediction_error" ["pool", "statistic"]
        "How far off the predicted times per output token were in the last minute or two, as factors.";
    OUTPUT_ERROR Gauge "forebay_output_prediction_error" ["pool", "statistic"]
        "How far off the expected lengths of answers were in the last minute or two, as factors.";
    BROKEN_PREDICTIONS Gauge "forebay_broken_predictions_ratio" ["pool"]
        "Share of the predictions within the limit that were broken by far, 0 to 1.";
    TPOT_CORRECTION Gauge "forebay_tpot_correction" ["pool"]
        "The pool's correction of the predicted time per token; 1 is right.";
    ADAPTER_LOAD Gauge "forebay_adapter_load_seconds" ["pool"]
        "What the pool's endpoints take to load an adapter, as learned; 1 while nothing was.";
    SHADOW_AGREEMENT Counter "forebay_shadow_agreement_total" ["pool", "agreed"]
        "Requests that the shadow policy was asked about, by whether it chose the same endpoint.";
    SHADOW_DIFFERENCE Counter "forebay_shadow_price_difference_seconds_total" ["pool", "than_chosen"]
        "By how much the shadow policy's choices were priced dearer or cheaper than those that were made.";
    RULE_WITHOUT_OPINION Counter "forebay_rule_without_opinion_total" ["pool"]
        "Times an expression of the pool's rule had no opinion of a candidate; absent without a rule.";
    TOKENIZED Counter "forebay_tokenizer_prompts_total" ["pool", "result"]
        "Prompts by what came of asking for their tokens; absent without a tokenizer.";
    PREFIX_INDEX_BYTES Gauge "forebay_prefix_index_bytes" []
        "Memory that the prefix index uses, with what is kept of the engines' own caches.";
    PREFIX_INDEX_BLOCKS Gauge "forebay_prefix_index_blocks" []
        "Distinct blocks in the prefix index.";
    PREFIX_INDEX_EVICTIONS Counter "forebay_prefix_index_evictions_total" ["reason"]
        "Blocks of single endpoints that were dropped from the prefix index to make room.";
    KV_EVENTS Counter "forebay_kv_events_total" ["result"]
        "KV-cache events of the engines, unreadable ones by message.";
    KV_BLOCKS Counter "forebay_kv_blocks_total" ["result"]
        "Blocks of the engines' caches that KV-cache events told of, by what became of them.";
    KV_FAULTS Counter "forebay_kv_event_faults_total" ["kind"]
        "What interrupted the KV-cache events of the engines.";
    DECISION_LOG Counter "forebay_decision_log_entries_total" ["result"]
        "Entries of the decision log; absent while there is none.";
    PROCESS_CPU Counter "process_cpu_seconds_total" []
        "User and system CPU time spent.";
    PROCESS_RESIDENT Gauge "process_resident_memory_bytes" []
        "Resident memory.";
    PROCESS_VIRTUAL Gauge "process_virtual_memory_bytes" []
        "Virtual memory.";
    PROCESS_OPEN_FDS Gauge "process_open_fds" []
        "Open file descriptors.";
    PROCESS_MAX_FDS Gauge "process_max_fds" []
        "Limit of open file descriptors.";
    PROCESS_START Gauge "process_start_time_seconds" []
        "Start of the process, in seconds since the Unix epoch.";
}
