//! SGLang's `/v1/loads`: the load of every rank, in JSON.

use serde::Deserialize;
use serde_json::Value;

use super::{Signals, SignalsError};

/// The load in an answer to [`Dialect::loads_path`](super::Dialect::loads_path).
///
/// # Errors
/// When the body is not a JSON object with a list of `loads`.
pub fn read_loads(json: &[u8]) -> Result<Signals, SignalsError> {
    let answer: Answer = serde_json::from_slice(json)
        .map_err(|e| SignalsError::Body { what: "/v1/loads", why: e.to_string() })?;
    let mut signals =
        Signals { accelerator: answer.accelerator.as_str().map(str::to_owned), ..Signals::default() };
    let skipped = &mut signals.skipped;
    let mut sum = |pick: fn(&Rank) -> &Value| {
        let mut total = None;
        for rank in &answer.loads {
            match pick(rank).as_f64() {
                Some(v) if (0.0..=9e15).contains(&v) => total = Some(total.unwrap_or(0.0) + v),
                Some(_) => {
                    *skipped += 1;
                    return None;
                }
                None => {}
            }
        }
        total
    };
    let running = sum(|r| &r.num_running_reqs);
    let waiting = sum(|r| &r.num_waiting_reqs);
    signals.waiting_tokens = sum(|r| &r.num_waiting_uncached_tokens).map(|v| v as u64);
    signals.running = running.map(|v| v as u32);
    signals.waiting = waiting.map(|v| v as u32);
    Ok(signals)
}

#[derive(Deserialize)]
struct Answer {
    loads: Vec<Rank>,
    #[serde(default)]
    accelerator: Value,
}

#[derive(Deserialize)]
#[serde(default)]
#[derive(Default)]
struct Rank {
    num_running_reqs: Value,
    num_waiting_reqs: Value,
    num_waiting_uncached_tokens: Value,
}
