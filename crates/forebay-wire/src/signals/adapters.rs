//! Adapter names in labels.

use super::{Adapters, MAX_ADAPTERS};
use crate::prom::Sample;

/// How many names of one label are looked at; most are met twice.
const MAX_NAMES: usize = 4 * MAX_ADAPTERS;

/// The adapters in a series of `vllm:lora_requests_info`.
pub(super) fn running_and_waiting(sample: &Sample<'_>) -> Adapters {
    let mut adapters = Adapters::default();
    for label in ["running_lora_adapters", "waiting_lora_adapters"] {
        let names = sample.label(label).unwrap_or_default();
        for name in names.split(',').map(str::trim).filter(|name| !name.is_empty()).take(MAX_NAMES) {
            if adapters.loaded.len() < MAX_ADAPTERS && !adapters.loaded.iter().any(|known| known == name) {
                adapters.loaded.push(name.to_owned());
            }
        }
    }
    adapters.max = sample.label("max_lora").and_then(|max| max.parse().ok());
    adapters
}
