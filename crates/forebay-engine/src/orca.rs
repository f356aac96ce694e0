//! The load in a header of the answer (ORCA), when the request asks for it.

use forebay_sim::engine::EngineLoad;
use http::{HeaderMap, HeaderValue};

/// In which format. (The binary one is ignored, and so are streams.)
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Orca {
    Text,
    Json,
}

impl Orca {
    /// What the request asks for.
    pub(crate) fn asked(headers: &HeaderMap) -> Option<Orca> {
        match headers.get("endpoint-load-metrics-format")?.to_str().ok()? {
            "TEXT" => Some(Orca::Text),
            "JSON" => Some(Orca::Json),
            _ => None,
        }
    }

    /// Adds the header.
    pub(crate) fn tell(self, load: &EngineLoad, headers: &mut HeaderMap) {
        let (waiting, usage) = (f64::from(load.waiting), load.kv_usage);
        let value = match self {
            Orca::Text => format!(
                "TEXT named_metrics.num_requests_waiting={waiting:?}, named_metrics.kv_cache_usage_perc={usage:?}"
            ),
            Orca::Json => format!(
                "JSON {{\"named_metrics\": {{\"num_requests_waiting\": {waiting:?}, \
                 \"kv_cache_usage_perc\": {usage:?}}}}}"
            ),
        };
        if let Ok(value) = HeaderValue::try_from(value) {
            headers.insert("endpoint-load-metrics", value);
        }
    }
}
