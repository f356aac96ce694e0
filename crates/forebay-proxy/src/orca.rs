//! What an answer says of its endpoint's load (ORCA), in its head or its trailers.

use forebay_core::OrcaLoad;
use forebay_live::Ticket;
use forebay_wire::orca::parse;
use http::HeaderMap;

use crate::endpoint::Endpoint;
use crate::pool_route::PoolRoute;

/// Takes the report out of an answer's head or trailers and tells the Gate of it.
///
/// It is between the endpoint and us: a client that balances by it would take
/// one endpoint's load for the gateway's.
pub(crate) fn take(headers: &mut HeaderMap, pool: &PoolRoute, ticket: Option<&mut Ticket<Endpoint>>) {
    let report = headers.remove("endpoint-load-metrics");
    let binary = headers.remove("endpoint-load-metrics-bin");
    let read = match (&binary, &report) {
        (Some(binary), _) => forebay_wire::orca::parse_binary(binary.as_bytes()),
        (None, Some(report)) => parse(report.as_bytes()),
        (None, None) => return,
    };
    // A report that cannot be read says nothing; the next one may.
    let (Ok((report, _)), Some(ticket)) = (read, ticket) else { return };
    let number = |value: f64| value as f32;
    let metrics: Vec<&str> = pool.orca_metrics.iter().map(String::as_str).collect();
    ticket.orca(OrcaLoad {
        utilization: report.utilization_for(&metrics).map(number),
        qps: report.rps_fractional.map(number),
        eps: report.eps.map(number),
        kv_usage: report.kv_usage(),
        waiting: report.waiting(),
    });
}
