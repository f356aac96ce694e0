//! The settings that come in sections, most of which a pool can override.

use std::time::Duration;

/// Time limits of one request to an endpoint. `None` means no limit (`0s` in the file).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Timeouts {
    /// For the connection to be established.
    pub connect: Option<Duration>,
    /// Streamed answers: from the request's last byte to the first event;
    /// comments do not end it.
    pub first_byte: Option<Duration>,
    /// The same wait when the answer is not streamed: the engine sends nothing
    /// until the whole text is there.
    pub answer: Option<Duration>,
    /// Between two reads of an answer's body; comments count as reads.
    pub idle: Option<Duration>,
    /// From the request's arrival to the answer's last byte.
    pub total: Option<Duration>,
}

impl Default for Timeouts {
    fn default() -> Self {
        Timeouts {
            connect: Some(Duration::from_secs(2)),
            first_byte: Some(Duration::from_secs(120)),
            answer: Some(Duration::from_secs(15 * 60)),
            idle: Some(Duration::from_secs(60)),
            total: None,
        }
    }
}

/// What one client, and all together, may use.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Bytes of one request's body; above it, 413.
    pub body: u64,
    /// Bytes of all requests' bodies together; above it reading pauses, then 503.
    pub body_memory: u64,
    /// Bytes of one request's head; above it, 431.
    pub header_bytes: usize,
    /// For a request's head to arrive, from its first byte or the connection's start.
    pub header_read: Duration,
    /// Without a byte of a request's body; then 408.
    pub body_stall: Duration,
    /// Client connections of this process; above it, new ones get 503 and are closed.
    pub connections: u32,
    /// Requests inside this process at once; above it, 503. 0 means no limit.
    pub in_flight: u32,
    /// How long a kept-alive client connection may wait for its next request.
    pub client_idle: Duration,
    /// Streams at once on one HTTP/2 client connection.
    pub max_streams: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            body: 64 << 20,
            body_memory: 1 << 30,
            header_bytes: 64 << 10,
            header_read: Duration::from_secs(10),
            body_stall: Duration::from_secs(30),
            connections: 65_536,
            in_flight: 0,
            client_idle: Duration::from_secs(75),
            max_streams: 250,
        }
    }
}

/// How the program ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Drain {
    /// How long it goes on accepting after it has turned unready, so that load
    /// balancers in front of it can notice.
    pub delay: Duration,
    /// How long running requests may take after that before they are cut.
    pub limit: Duration,
}

impl Default for Drain {
    fn default() -> Self {
        Drain { delay: Duration::from_secs(5), limit: Duration::from_secs(600) }
    }
}

/// How endpoints are probed.
///
/// A busy engine answers its probes late: the time-out is long, and one missed
/// probe changes nothing. A refused connection needs no probe to be noticed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Health {
    /// Whether endpoints are probed at all; if not, they start ready.
    pub enabled: bool,
    /// The path that is asked for; any 2xx answer is healthy. It begins with `/`.
    pub path: String,
    /// From the start of one probe to the start of the next; a probe that is
    /// still waiting is never overtaken.
    pub interval: Duration,
    /// How long one probe may take.
    pub timeout: Duration,
    /// Failed probes in a row that make a ready endpoint unready; at least 1.
    pub fall: u32,
    /// Good probes in a row that make an unready endpoint ready; at least 1.
    pub rise: u32,
}

impl Default for Health {
    fn default() -> Self {
        Health {
            enabled: true,
            path: "/health".to_owned(),
            interval: Duration::from_secs(2),
            timeout: Duration::from_secs(5),
            fall: 3,
            rise: 1,
        }
    }
}

/// When a request is tried on another endpoint.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Retry {
    /// Other endpoints that are tried when nothing of the request had been sent.
    pub connect: u32,
}

impl Default for Retry {
    fn default() -> Self {
        Retry { connect: 1 }
    }
}
