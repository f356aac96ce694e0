//! `GET /kv_event_sources`: where each rank of a vLLM server publishes.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::KvEventError;

/// Where one data-parallel rank publishes its events.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventSource {
    /// The data-parallel rank.
    pub rank: u32,
    /// The address of its PUB socket as the engine wrote it: the host may be
    /// `*`, or one that means something only there.
    pub endpoint: String,
    /// The address of its ROUTER socket for replays.
    pub replay: Option<String>,
    /// What it publishes under.
    pub topic: String,
}

#[derive(Deserialize)]
struct Raw {
    #[serde(default)]
    enable_kv_cache_events: bool,
    #[serde(default)]
    publisher: Option<String>,
    #[serde(default)]
    endpoint: Option<String>,
    #[serde(default)]
    replay_endpoint: Option<String>,
    #[serde(default)]
    topic: String,
}

/// The sources in the body of an answer, by rank. Ranks that do not publish
/// over ZeroMQ are left out.
///
/// # Errors
///
/// When the body is not a JSON object from rank to configuration.
pub fn decode_sources(body: &[u8]) -> Result<Vec<EventSource>, KvEventError> {
    let ranks: BTreeMap<u32, Raw> =
        serde_json::from_slice(body).map_err(|error| KvEventError::Json(error.to_string()))?;
    let sources = ranks.into_iter().filter_map(|(rank, raw)| {
        let zmq = raw.publisher.as_deref().is_none_or(|publisher| publisher == "zmq");
        if !raw.enable_kv_cache_events || !zmq {
            return None;
        }
        let replay = raw.replay_endpoint.filter(|address| !address.is_empty());
        Some(EventSource { rank, endpoint: raw.endpoint?, replay, topic: raw.topic })
    });
    Ok(sources.collect())
}
