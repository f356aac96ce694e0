//! SGLang's `/v1/loads`: the load of every rank, in JSON.

use serde::Deserialize;
use serde_json::Value;

use super::{
    Adapters, Signals, SignalsError,
    figure::{Figure, usable},
    models::parse_object,
    page::set,
    sources::{
        Field,
        Join::{self, Max, Sum},
    },
};

/// The fields of a rank that are read.
const FIELDS: [(&str, Field, Join); 8] = [
    ("num_running_reqs", Field::Running, Sum),
    ("num_waiting_reqs", Field::Waiting, Sum),
    ("num_waiting_uncached_tokens", Field::WaitingTokens, Sum),
    ("num_used_tokens", Field::RunningTokens, Sum),
    ("max_total_num_tokens", Field::KvTokens, Sum),
    ("max_running_requests", Field::MaxRunning, Sum),
    ("token_usage", Field::KvUsage, Max),
    ("gen_throughput", Field::Throughput, Sum),
];

/// The load in an answer to [`Dialect::loads_path`](super::Dialect::loads_path),
/// summed over its data-parallel ranks; of KV usage that of the fullest.
///
/// # Errors
/// When the body is not a JSON object with a list of `loads`.
pub fn read_loads(json: &[u8]) -> Result<Signals, SignalsError> {
    let answer: Answer = parse_object("/v1/loads", json)?;
    let mut signals = Signals::default();
    for (name, field, join) in FIELDS {
        let mut figure = Figure::default();
        for rank in &answer.loads {
            let stated = rank.get(name).filter(|value| !value.is_null());
            let Some(stated) = stated else { continue };
            let value = stated.as_f64().and_then(|value| usable(field, value));
            signals.skipped = signals.skipped.saturating_add(value.is_none().into());
            figure.add(value, true, join);
        }
        if let Some(Some(value)) = figure.get(false, join) {
            set(&mut signals, field, value);
        }
    }
    // The slots of one rank; the ranks load the same adapters.
    let slots = answer.loads.iter().filter_map(|rank| rank.get("lora")?.get("slots_total")?.as_u64()).max();
    if let Some(slots) = slots.filter(|slots| *slots > 0) {
        signals.adapters = Some(Adapters { loaded: vec![], max: slots.try_into().ok() });
    }
    signals.accelerator = answer.accelerator.as_str().filter(|name| !name.is_empty()).map(str::to_owned);
    Ok(signals)
}

#[derive(Deserialize)]
struct Answer {
    loads: Vec<Value>,
    #[serde(default)]
    accelerator: Value,
}
