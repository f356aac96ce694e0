//! ORCA: the load that a backend reports with its answers.
//!
//! The request header [`FORMAT_HEADER`] asks for it, the response header (or
//! trailer) [`HEADER`] carries it: `TEXT name=value, …`, `JSON {…}` or
//! `BIN <base64>` of the message `xds.data.orca.v3.OrcaLoadReport`. gRPC backends send
//! [`BINARY_HEADER`], the same base64 without the word. Reading is lenient: an
//! entry that is unknown or means nothing is skipped and counted.

mod base64;
mod json;
mod proto;
mod report;
mod text;

pub use report::{MAX_ENTRIES, OrcaReport};

/// The request header that asks for reports; its value is `text`, `json` or
/// `bin`.
pub const FORMAT_HEADER: &str = "endpoint-load-metrics-format";
/// The response header that carries a report.
pub const HEADER: &str = "endpoint-load-metrics";
/// The older header, and gRPC's trailer: base64 alone.
pub const BINARY_HEADER: &str = "endpoint-load-metrics-bin";

/// The longest header value that is looked at, in bytes.
pub const MAX_LEN: usize = 16 << 10;

/// Why a whole report cannot be read.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum OrcaError {
    /// The value does not begin with `TEXT`, `JSON` or `BIN` and a space.
    #[error("a load report begins with TEXT, JSON or BIN and a space")]
    UnknownFormat,
    /// The value is longer than [`MAX_LEN`].
    #[error("a load report of {len} bytes is longer than {MAX_LEN}")]
    TooLong {
        /// Its length in bytes.
        len: usize,
    },
    /// What follows `TEXT` or `JSON` is not UTF-8, or not a JSON object.
    #[error("a load report's {format} cannot be read: {why}")]
    Text {
        /// `TEXT` or `JSON`.
        format: &'static str,
        /// What is wrong, and where.
        why: String,
    },
    /// What should be base64 is not.
    #[error("a load report's base64 breaks off or has a foreign letter at byte {at}")]
    Base64 {
        /// Offset within the base64.
        at: usize,
    },
    /// The decoded bytes are not a protobuf message.
    #[error("a load report's message breaks off or has a foreign field at byte {at}")]
    Message {
        /// Offset within the decoded bytes.
        at: usize,
    },
}

/// The report in a value of [`HEADER`], and how many of its entries were
/// skipped: unknown names, values that are not finite or below zero, entries
/// past [`MAX_ENTRIES`]. The top-level figures of the message do not know
/// "unset": zero is not reported. An entry that is there twice (vLLM writes one
/// for each data-parallel rank) counts with its largest value.
///
/// # Errors
/// When the value as a whole cannot be read.
pub fn parse(header_value: &[u8]) -> Result<(OrcaReport, u32), OrcaError> {
    let value = header_value.trim_ascii();
    if value.len() > MAX_LEN {
        return Err(OrcaError::TooLong { len: value.len() });
    }
    // The word alone is an empty report.
    let end = value.iter().position(|b| *b == b' ').unwrap_or(value.len());
    let (format, payload) = (&value[..end], value[end..].trim_ascii_start());
    match format {
        b"TEXT" => text::parse(payload),
        b"JSON" => json::parse(payload),
        b"BIN" => parse_binary(payload),
        _ => Err(OrcaError::UnknownFormat),
    }
}

/// As [`parse`], for a value of [`BINARY_HEADER`]; base64 with or without its
/// padding.
///
/// # Errors
/// When the value as a whole cannot be read.
pub fn parse_binary(base64: &[u8]) -> Result<(OrcaReport, u32), OrcaError> {
    if base64.len() > MAX_LEN {
        return Err(OrcaError::TooLong { len: base64.len() });
    }
    parse_message(&base64::decode(base64.trim_ascii())?)
}

/// As [`parse`], for the serialized message itself, as the out-of-band service
/// streams it.
///
/// # Errors
/// When the bytes are not such a message.
pub fn parse_message(message: &[u8]) -> Result<(OrcaReport, u32), OrcaError> {
    proto::parse(message)
}

#[cfg(test)]
mod tests;
