//! What the tests of this crate share.

use std::time::Duration;

use forebay_metrics::{
    ClientConnections, DecisionLogReading, Dial, EndpointMetrics, EndpointStateLabel, EndpointTold,
    KvBlocksReading, KvReading, Metrics, OutcomeLabel, Page, PoolMetrics, PoolReading, PredictionError,
    PrefixIndexReading, Probe, ProcessStats, Reject, Retry, RouteMetrics, ShadowReading, Tokenized,
};

/// Metrics in which every definition has at least one series.
pub(crate) struct Full {
    pub(crate) metrics: Metrics,
    pub(crate) route: RouteMetrics,
    pub(crate) endpoint: EndpointMetrics,
    pub(crate) pool: PoolMetrics,
}

/// Records something under every name.
pub(crate) fn full() -> Full {
    let metrics = Metrics::new("0.1.0");
    let route = metrics.route("chat", "tide-7b");
    route.request(200, OutcomeLabel::Ok, Duration::from_millis(1_500));
    route.request(418, OutcomeLabel::ClientError, Duration::from_millis(7));
    route.ttft(Duration::from_millis(120));
    route.tpot(Duration::from_millis(21));
    route.queue_wait(Duration::from_micros(40));
    route.tokens(900, 512, 180);
    route.usage_unknown();
    route.prefix_prediction(1_000, 900);
    route.prefix_prediction(900, 900);
    let endpoint = metrics.endpoint("chat", "http://127.0.0.1:8001");
    endpoint.load(1, 1);
    endpoint.state(EndpointStateLabel::Ready);
    endpoint.told(&EndpointTold {
        signal_age: Some(Duration::from_millis(250)),
        running: Some(7),
        waiting: Some(2),
        kv_usage: Some(0.75),
        kv_feed_up: Some(true),
        missing_signals: Some(1),
        unusable_values: Some(2),
        weight: Some(2.5),
        prefill_factor: Some(1.25),
        decode_factor: Some(1.5),
        gpu_utilization: Some(0.5),
        gpu_temperature_celsius: Some(71.0),
        gpu_throttled: Some(true),
        scrapes_ok: 11,
        scrapes_failed: 3,
    });
    endpoint.connections_open().inc();
    endpoint.connections_idle().set(0);
    endpoint.dial(Dial::Ok);
    endpoint.probe(Probe::Failed);
    let pool = metrics.pool("chat");
    pool.set(&PoolReading {
        fallback: true,
        ttft_error: Some(PredictionError { bias: 0.9, mean: 1.3, p50: 1.2, p90: 2.0 }),
        tpot_error: Some(PredictionError { bias: 1.1, mean: 1.2, p50: 1.15, p90: 1.5 }),
        output_error: Some(PredictionError { bias: 0.5, mean: 3.0, p50: 2.0, p90: 8.0 }),
        broken_predictions: Some(0.02),
        tpot_correction: Some(1.1),
        adapter_load_seconds: Some(0.4),
        shadow: Some(ShadowReading { asked: 10, agreed: 6, dearer_ms: 1_500.0, cheaper_ms: 250.0 }),
        rule_without_opinion: Some(3),
    });
    pool.tokenized(Tokenized::Slow);
    metrics.scraped(Page::Metrics, Duration::from_millis(3));
    metrics.set_prefix_index(PrefixIndexReading {
        bytes: 4096,
        blocks: 12,
        evicted_by_capacity: 5,
        evicted_by_memory: 4,
    });
    metrics.set_kv_events(Some(KvReading { applied: 100, gaps: 1, ..KvReading::default() }));
    metrics.set_kv_blocks(Some(KvBlocksReading { stored: 90, over_limit: 3, ..KvBlocksReading::default() }));
    metrics.set_decision_log(Some(DecisionLogReading { written: 50, lost: 2, failed: 0, full: 0 }));
    metrics.rejected(Reject::NotReady);
    metrics.retried(Retry::Connect);
    metrics.decision(Duration::from_nanos(900));
    let connections: &ClientConnections = metrics.connections();
    connections.open();
    metrics.set_draining(true);
    metrics.set_process(ProcessStats {
        cpu_seconds: Some(1.5),
        resident_bytes: Some(20e6),
        virtual_bytes: Some(1e9),
        open_fds: Some(30.0),
        max_fds: Some(1024.0),
        start_time_seconds: Some(1.7e9),
    });
    Full { metrics, route, endpoint, pool }
}
