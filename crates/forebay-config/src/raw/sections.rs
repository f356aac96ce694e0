//! The other sections.

use std::borrow::Cow;
use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

use super::{Field, Format, Level};
use crate::kinds::{Bytes, Flag, Int, Span, SpanOrOff, UrlPath};
use crate::schema::order;

const SECOND: u64 = 1_000;
const MINUTE: u64 = 60 * SECOND;
const HOUR: u64 = 60 * MINUTE;
const DAY: u64 = 24 * HOUR;
const KIB: u64 = 1 << 10;
const GIB: u64 = 1 << 30;

/// Time limits of a request to an endpoint. `0s` switches one off.
#[derive(Debug, serde::Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Timeouts", transform = order::<RawTimeouts>)]
pub(crate) struct RawTimeouts {
    /// For the connection to be established.
    #[schemars(extend("default" = "2s"))]
    pub(crate) connect: Field<SpanOrOff<HOUR>>,

    /// Streamed answers: from the request's last byte to the first event. Comments in the stream
    /// do not end this wait.
    #[schemars(extend("default" = "120s"))]
    pub(crate) first_byte: Field<SpanOrOff<DAY>>,

    /// Answers that are not streamed: the same wait. An engine sends nothing until the whole text
    /// is there, so this is the longest generation.
    #[schemars(extend("default" = "15m"))]
    pub(crate) answer: Field<SpanOrOff<DAY>>,

    /// Between two pieces of an answer. Comments count as pieces.
    #[schemars(extend("default" = "60s"))]
    pub(crate) idle: Field<SpanOrOff<DAY>>,

    /// From the arrival of the request to the last byte of its answer. Off by default, because
    /// healthy generations can be long.
    #[schemars(extend("default" = "0s"))]
    pub(crate) total: Field<SpanOrOff<{ 7 * DAY }>>,
}

/// When a request is tried on another endpoint.
#[derive(Debug, serde::Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Retry", transform = order::<RawRetry>)]
pub(crate) struct RawRetry {
    /// How many other endpoints are tried when the connection failed before any byte of the
    /// request had been sent.
    #[schemars(extend("default" = 1))]
    pub(crate) connect: Field<Int<0, 10>>,
}

/// How endpoints are probed. A busy engine answers its probes late, so the time-out is long and
/// one missed probe changes nothing; a refused connection is noticed without any probe. Requests
/// that are running at an endpoint are never cut because a probe failed.
#[derive(Debug, serde::Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Health", transform = order::<RawHealth>)]
pub(crate) struct RawHealth {
    /// Whether endpoints are probed. If not, they start ready, and only failed requests count.
    #[schemars(extend("default" = true))]
    pub(crate) enabled: Field<Flag>,

    /// The path that is asked for. Any 2xx answer is healthy.
    #[schemars(extend("default" = "/health"))]
    pub(crate) path: Field<UrlPath>,

    /// From the start of one probe to the start of the next. The next waits for the one before.
    #[schemars(extend("default" = "2s"))]
    pub(crate) interval: Field<Span<100, HOUR>>,

    /// How long one probe may take.
    #[schemars(extend("default" = "5s"))]
    pub(crate) timeout: Field<Span<100, { 5 * MINUTE }>>,

    /// Failed probes in a row that make an endpoint unready.
    #[schemars(extend("default" = 3))]
    pub(crate) fall: Field<Int<1, 100>>,

    /// Good probes in a row that make it ready again.
    #[schemars(extend("default" = 1))]
    pub(crate) rise: Field<Int<1, 100>>,
}

/// What one client, and all clients together, may use.
#[derive(Debug, serde::Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Limits", transform = order::<RawLimits>)]
pub(crate) struct RawLimits {
    /// The body of one request; above it, 413.
    #[schemars(extend("default" = "64MiB"))]
    pub(crate) body: Field<Bytes<KIB, { 16 * GIB }>>,

    /// The bodies of all requests together. Above it reading pauses, then 503. At least `body`.
    #[schemars(extend("default" = "1GiB"))]
    pub(crate) body_memory: Field<Bytes<KIB, { 1024 * GIB }>>,

    /// The head of one request: its first line and headers; above it, 431.
    #[schemars(extend("default" = "64KiB"))]
    pub(crate) header_bytes: Field<Bytes<{ 4 * KIB }, { 1024 * KIB }>>,

    /// For the head of a request to arrive, and for a new connection's first one.
    #[schemars(extend("default" = "10s"))]
    pub(crate) header_read: Field<Span<100, { 10 * MINUTE }>>,

    /// Without a byte of the request's body; then 408.
    #[schemars(extend("default" = "30s"))]
    pub(crate) body_stall: Field<Span<100, HOUR>>,

    /// Connections of clients to this process. Above it, new ones get 503 and are closed.
    #[schemars(extend("default" = 65_536))]
    pub(crate) connections: Field<Int<1, 1_048_576>>,

    /// Requests inside this process at once; above it, 503. 0 means no limit.
    #[schemars(extend("default" = 0))]
    pub(crate) in_flight: Field<Int<0, 1_000_000>>,

    /// How long a client's connection may wait for its next request, and how long a client may leave
    /// its answer unread.
    #[schemars(extend("default" = "75s"))]
    pub(crate) client_idle: Field<Span<SECOND, DAY>>,

    /// Requests at once on one HTTP/2 connection of a client.
    #[schemars(extend("default" = 250))]
    pub(crate) max_streams: Field<Int<1, 10_000>>,
}

/// How the program ends after SIGTERM. A second SIGTERM ends it at once.
#[derive(Debug, serde::Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Drain", transform = order::<RawDrain>)]
pub(crate) struct RawDrain {
    /// How long it goes on accepting requests after `/readyz` has turned to 503, so that what
    /// balances load in front of it can notice.
    #[schemars(extend("default" = "5s"))]
    pub(crate) delay: Field<Span<0, HOUR>>,

    /// How long running requests may take after that before they are cut.
    #[schemars(extend("default" = "10m"))]
    pub(crate) limit: Field<Span<0, DAY>>,
}

/// What is logged, and how. Prompts and credentials never are.
#[derive(Debug, serde::Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Log", transform = order::<RawLog>)]
pub(crate) struct RawLog {
    /// The least important messages that are logged.
    #[schemars(extend("default" = "info"))]
    pub(crate) level: Field<Level>,

    /// `text` for people, `json` for machines: one object a line.
    #[schemars(extend("default" = "text"))]
    pub(crate) format: Field<Format>,

    /// Whether every request gets a line.
    #[schemars(extend("default" = false))]
    pub(crate) access: Field<Flag>,
}

/// Optional headers on answers.
#[derive(Debug, serde::Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "ResponseHeaders", transform = order::<RawResponseHeaders>)]
pub(crate) struct RawResponseHeaders {
    /// `x-forebay-endpoint`: the endpoint that answered. It tells clients about your machines.
    #[schemars(extend("default" = false))]
    pub(crate) endpoint: Field<Flag>,

    /// `server-timing`: where the time went.
    #[schemars(extend("default" = false))]
    pub(crate) server_timing: Field<Flag>,

    /// `x-forebay-held-tokens`: how many tokens of the prompt the endpoint was taken to hold, to be
    /// compared with the `cached_tokens` of its answer.
    #[schemars(extend("default" = false))]
    pub(crate) held_tokens: Field<Flag>,
}

/// A section whose name is fixed, for a later version.
#[derive(Debug, PartialEq, Eq, Clone, Copy)]
pub(crate) enum Later {
    /// An empty list or mapping.
    Empty,
    /// Anything else.
    Filled,
}

impl<'de> Deserialize<'de> for Later {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(LaterVisitor)
    }
}

impl JsonSchema for Later {
    fn schema_name() -> Cow<'static, str> {
        "Later".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": ["array", "object", "null"], "maxItems": 0, "maxProperties": 0, "x-kind": "reserved" })
    }
}

struct LaterVisitor;

impl<'de> Visitor<'de> for LaterVisitor {
    type Value = Later;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("nothing")
    }

    fn visit_bool<E>(self, _: bool) -> Result<Later, E> {
        Ok(Later::Filled)
    }

    fn visit_i64<E>(self, _: i64) -> Result<Later, E> {
        Ok(Later::Filled)
    }

    fn visit_u64<E>(self, _: u64) -> Result<Later, E> {
        Ok(Later::Filled)
    }

    fn visit_f64<E>(self, _: f64) -> Result<Later, E> {
        Ok(Later::Filled)
    }

    fn visit_str<E>(self, _: &str) -> Result<Later, E> {
        Ok(Later::Filled)
    }

    fn visit_unit<E>(self) -> Result<Later, E> {
        Ok(Later::Empty)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Later, A::Error> {
        let mut found = Later::Empty;
        while seq.next_element::<IgnoredAny>()?.is_some() {
            found = Later::Filled;
        }
        Ok(found)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Later, A::Error> {
        let mut found = Later::Empty;
        while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {
            found = Later::Filled;
        }
        Ok(found)
    }
}
