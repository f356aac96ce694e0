//! What the tests of this crate share.

use std::time::Duration;

use forebay_metrics::{
    ClientConnections, Dial, EndpointMetrics, EndpointStateLabel, Metrics, OutcomeLabel, Probe, ProcessStats,
    Reject, Retry, RouteMetrics,
};

/// Metrics in which every definition has at least one series.
pub(crate) struct Full {
    pub(crate) metrics: Metrics,
    pub(crate) route: RouteMetrics,
    pub(crate) endpoint: EndpointMetrics,
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
    let endpoint = metrics.endpoint("chat", "http://127.0.0.1:8001");
    endpoint.load(1, 1);
    endpoint.state(EndpointStateLabel::Ready);
    endpoint.signal_age(Some(Duration::from_millis(250)));
    endpoint.connections_open().inc();
    endpoint.connections_idle().set(0);
    endpoint.dial(Dial::Ok);
    endpoint.probe(Probe::Failed);
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
    Full { metrics, route, endpoint }
}
