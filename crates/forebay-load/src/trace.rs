//! Recorded traces: when requests came and how long they were.
//!
//! Two public formats are understood, told apart by the first line: Mooncake's
//! JSON lines (with the identity of every 512-token block of a prompt, so that
//! shared prefixes are known) and Azure's CSV (lengths only).

mod azure;
mod mooncake;

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::time::Duration;

#[cfg(test)]
#[path = "trace_tests.rs"]
mod tests;

/// Tokens of a block that a trace identifies.
pub const BLOCK_TOKENS: u32 = 512;

/// Longest prompt or answer that is believed, in tokens: more is a broken file.
const MAX_TOKENS: u64 = 16 << 20;

/// Longest line that is read, in bytes. The longest that is believed, of a
/// prompt of `MAX_TOKENS`, names 32,768 blocks by up to 20 digits each.
const MAX_LINE_BYTES: usize = 1 << 20;

/// One recorded request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceRequest {
    /// When it came, since the first request of the trace.
    pub arrival: Duration,
    /// Prompt length in tokens, at least 1.
    pub input_tokens: u32,
    /// Answer length in tokens, at least 1.
    pub output_tokens: u32,
    /// Identity of each block of [`BLOCK_TOKENS`] prompt tokens, the last one
    /// partly filled; equal ids mean equal prompts up to there. Empty when the
    /// trace does not say.
    pub blocks: Vec<u64>,
}

/// Which format a trace has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TraceFormat {
    /// Mooncake JSON lines.
    Mooncake,
    /// Azure CSV.
    Azure,
}

/// A whole trace, by arrival.
#[derive(Clone, Debug)]
pub struct Trace {
    /// Its format.
    pub format: TraceFormat,
    /// Its requests.
    pub requests: Vec<TraceRequest>,
}

/// Why a trace cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// The file cannot be read.
    #[error("{name}: {source}")]
    Read {
        /// The file.
        name: String,
        /// The system's reason.
        source: std::io::Error,
    },
    /// A line is not what the format says.
    #[error("{name}, line {line}: {what}")]
    Line {
        /// The file.
        name: String,
        /// The line, from 1.
        line: usize,
        /// What is wrong and what was expected.
        what: String,
    },
    /// There is no request in it.
    #[error("{name}: the trace has no requests")]
    Empty {
        /// The file.
        name: String,
    },
}

/// Reads the first `limit` requests of a file (all of them without a limit).
///
/// # Errors
/// The file cannot be read, is of no known format, has a bad line before the
/// limit, or holds no request.
pub fn read(path: &Path, limit: Option<usize>) -> Result<Trace, TraceError> {
    let name = path.display().to_string();
    match File::open(path) {
        Ok(file) => parse(&name, BufReader::new(file), limit),
        Err(source) => Err(TraceError::Read { name, source }),
    }
}

/// As [`read`], from anything; `name` stands in errors.
///
/// # Errors
/// As [`read`].
pub fn parse(name: &str, reader: impl BufRead, limit: Option<usize>) -> Result<Trace, TraceError> {
    let limit = limit.unwrap_or(usize::MAX);
    let mut format = None;
    let mut rows: Vec<(i128, TraceRequest)> = Vec::new();
    let mut lines = Lines::new(name, reader);
    while rows.len() < limit
        && let Some(line) = lines.next_line()?
    {
        let fail = |what| TraceError::Line { name: name.to_owned(), line: line.number, what };
        let text = std::str::from_utf8(line.bytes).map_err(|_| fail("not UTF-8 text".to_owned()))?;
        let text = text.trim_start_matches('\u{feff}').trim();
        if text.is_empty() {
            continue;
        }
        match format {
            None if text.starts_with('{') => {
                format = Some(TraceFormat::Mooncake);
                rows.push(mooncake::row(text).map_err(fail)?);
            }
            None if azure::is_header(text) => format = Some(TraceFormat::Azure),
            None => {
                return Err(fail(
                    "neither a Mooncake trace (JSON lines with timestamp, input_length, output_length, \
                     hash_ids) nor an Azure trace (CSV with the header \
                     TIMESTAMP,ContextTokens,GeneratedTokens)"
                        .to_owned(),
                ));
            }
            Some(TraceFormat::Mooncake) => rows.push(mooncake::row(text).map_err(fail)?),
            Some(TraceFormat::Azure) => rows.push(azure::row(text).map_err(fail)?),
        }
    }
    // Rows nearly always come in order; a stable sort keeps equal ones so.
    rows.sort_by_key(|(at, _)| *at);
    let (Some(format), Some(first)) = (format, rows.first().map(|(at, _)| *at)) else {
        return Err(TraceError::Empty { name: name.to_owned() });
    };
    let requests = rows.into_iter().map(|(at, mut request)| {
        request.arrival = Duration::from_nanos(u64::try_from(at - first).unwrap_or(u64::MAX));
        request
    });
    Ok(Trace { format, requests: requests.collect() })
}

/// The lines of a trace. One that is longer than any request can be is an
/// error and not read to its end, which it may not have.
#[derive(Debug)]
pub struct Lines<'a, R> {
    name: &'a str,
    reader: R,
    line: Vec<u8>,
    number: usize,
}

/// One line of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Line<'a> {
    /// Which, from 1.
    pub number: usize,
    /// Its bytes, those that end it included.
    pub bytes: &'a [u8],
}

impl<'a, R: BufRead> Lines<'a, R> {
    /// Reads from `reader`; `name` stands in errors.
    pub fn new(name: &'a str, reader: R) -> Lines<'a, R> {
        Lines { name, reader, line: Vec::new(), number: 0 }
    }

    /// The next line; none at the end.
    ///
    /// # Errors
    /// It cannot be read, or has more than 1 MiB.
    pub fn next_line(&mut self) -> Result<Option<Line<'_>>, TraceError> {
        self.line.clear();
        self.number += 1;
        let most = MAX_LINE_BYTES as u64 + 1;
        let read = (&mut self.reader).take(most).read_until(b'\n', &mut self.line);
        read.map_err(|source| TraceError::Read { name: self.name.to_owned(), source })?;
        if self.line.len() > MAX_LINE_BYTES {
            let what = "has more than 1 MiB, which is no request".to_owned();
            return Err(TraceError::Line { name: self.name.to_owned(), line: self.number, what });
        }
        let line = Line { number: self.number, bytes: &self.line };
        Ok((!self.line.is_empty()).then_some(line))
    }
}

/// A length in tokens, or what is wrong with it.
fn length(what: &str, tokens: u64) -> Result<u32, String> {
    match u32::try_from(tokens) {
        Ok(n @ 1..) if tokens <= MAX_TOKENS => Ok(n),
        _ => Err(format!("{what} is {tokens}, expected 1 to {MAX_TOKENS}")),
    }
}
