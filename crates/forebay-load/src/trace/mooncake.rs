//! One line of a Mooncake trace.

use serde::Deserialize;
use std::time::Duration;

use super::{BLOCK_TOKENS, TraceRequest, length};

#[derive(Deserialize)]
struct Row {
    /// Milliseconds, whole ones in the published traces.
    timestamp: f64,
    input_length: u64,
    output_length: u64,
    #[serde(default)]
    hash_ids: Vec<u64>,
}

/// The time in nanoseconds and the request.
pub(super) fn row(line: &str) -> Result<(i128, TraceRequest), String> {
    let row: Row = serde_json::from_str(line).map_err(|e| format!("not a request: {e}"))?;
    let input_tokens = length("input_length", row.input_length)?;
    let output_tokens = length("output_length", row.output_length)?;
    let want = input_tokens.div_ceil(BLOCK_TOKENS) as usize;
    let have = row.hash_ids.len();
    if have != 0 && have != want {
        return Err(format!(
            "{have} hash_ids for {input_tokens} input tokens, expected {want} (one for each {BLOCK_TOKENS})"
        ));
    }
    let request = TraceRequest { arrival: Duration::ZERO, input_tokens, output_tokens, blocks: row.hash_ids };
    // A cast saturates; JSON has no NaN.
    Ok(((row.timestamp * 1e6) as i128, request))
}
