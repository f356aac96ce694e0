//! Asking an engine where it publishes: `GET /kv_event_sources` of vLLM.

use std::net::IpAddr;
use std::sync::Weak;
use std::time::Duration;

use bytes::Bytes;
use forebay_config::Secret;
use forebay_net::client::{Client, ClientError, ClientOptions};
use forebay_wire::kv_events::decode_sources;
use http::Request;
use http_body_util::Full;
use tokio::time::sleep;

use super::address::KvAddress;
use super::feeds::{Feeds, pause};
use super::source::{KvSource, discovered};
use crate::key;

/// Where the engine answers, behind its URL.
const PATH: &str = "/kv_event_sources";

/// The longest answer that is read: some hundred bytes for each rank.
const MAX_ANSWER: usize = 1 << 20;

/// Ranks of one engine that are followed at most.
const MAX_RANKS: usize = 256;

/// How often it is looked whether the sources are connected, and how many times
/// in a row one is not before the engine is asked again: another process may be
/// there, which publishes elsewhere.
const LOOK: Duration = Duration::from_secs(5);
const ASK_AGAIN_AFTER: u32 = 6;

/// An endpoint whose engine is asked where it publishes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KvDiscovery {
    /// The owner's name for the endpoint.
    pub endpoint: String,
    /// Where its engine answers.
    pub url: String,
    /// What the engine wants to be shown.
    pub key: Option<Secret>,
    /// Its host: where addresses with `*` are reached.
    pub host: String,
    /// What is followed where the engine does not say.
    pub fallback: Vec<KvSource>,
}

/// Why an engine's answer names nothing to follow.
#[derive(Debug, thiserror::Error)]
enum Unusable {
    #[error("it does not say where it publishes: {0}")]
    NoAnswer(ClientError),
    #[error("it does not say where it publishes: status {0}")]
    Status(u16),
    #[error("{0}")]
    Answer(String),
    #[error("it publishes no KV events: they are off in its settings")]
    Off,
    #[error("it publishes at {0}, which cannot be reached from here; give kv_events a url")]
    Elsewhere(KvAddress),
}

/// Asks until there is an answer, and again when what it named is not there.
pub(super) async fn run(feeds: Weak<Feeds>, plan: KvDiscovery) {
    let Some(settings) = feeds.upgrade().map(|feeds| feeds.settings().clone()) else { return };
    let options =
        ClientOptions { connect_timeout: settings.connect, max_idle_per_host: 1, ..ClientOptions::default() };
    let client = Client::new(options);
    let (mut failures, mut warned) = (0, false);
    loop {
        let url = format!("{}{PATH}", plan.url.trim_end_matches('/'));
        let Ok(uri) = url.parse() else {
            tracing::warn!(endpoint = %plan.endpoint, url, "the URL cannot be asked for KV events");
            return;
        };
        let mut request = Request::<Full<Bytes>>::default();
        *request.uri_mut() = uri;
        key::show(&mut request, plan.key.as_ref());
        let answer = client.fetch(request, settings.message, MAX_ANSWER).await;
        let found = match answer {
            // It is not there yet, or still loading.
            Err(ClientError::Connect { .. } | ClientError::Timeout { .. }) => None,
            Ok((status, ..)) if status.is_server_error() => None,
            Err(error) => Some(Err(Unusable::NoAnswer(error))),
            Ok((status, ..)) if !status.is_success() => Some(Err(Unusable::Status(status.as_u16()))),
            Ok((_, _, body)) => Some(usable(&plan, &body)),
        };
        let Some(found) = found else {
            sleep(pause(&settings, &plan.endpoint, failures)).await;
            failures = failures.saturating_add(1);
            continue;
        };
        failures = 0;
        let sources = found.unwrap_or_else(|why| {
            let endpoint = &plan.endpoint;
            match why {
                Unusable::NoAnswer(_) | Unusable::Status(_) => {
                    tracing::debug!(%endpoint, %why, "KV events are looked for at the usual address");
                }
                _ if !warned => {
                    warned = true;
                    tracing::warn!(%endpoint, %why, "KV events are looked for at the usual address");
                }
                _ => {}
            }
            plan.fallback.clone()
        });
        match feeds.upgrade() {
            Some(feeds) => feeds.follow_only(&plan.endpoint, sources),
            None => return,
        }
        let mut missing = 0;
        while missing < ASK_AGAIN_AFTER {
            sleep(LOOK).await;
            match feeds.upgrade() {
                Some(feeds) if feeds.all_connected(&plan.endpoint) => missing = 0,
                Some(_) => missing += 1,
                None => return,
            }
        }
    }
}

/// The sources that an answer names, if they can be reached.
///
/// What an engine writes decides where this process connects: only the
/// endpoint's own host is believed, and sockets of this one where the engine is
/// on it. To be connected to is for the configuration to say.
fn usable(plan: &KvDiscovery, body: &[u8]) -> Result<Vec<KvSource>, Unusable> {
    let mut told = decode_sources(body).map_err(|error| Unusable::Answer(error.to_string()))?;
    told.truncate(MAX_RANKS);
    if told.is_empty() {
        return Err(Unusable::Off);
    }
    let sources = discovered(&plan.endpoint, &plan.host, &told);
    let sources = sources.map_err(|error| Unusable::Answer(error.to_string()))?;
    let local = plan.host == "localhost" || plan.host.parse().is_ok_and(|ip: IpAddr| ip.is_loopback());
    let reachable = |address: &KvAddress| match address {
        KvAddress::Tcp { host, .. } => *host == plan.host,
        KvAddress::Ipc(_) => local,
        KvAddress::Http(_) => false,
    };
    let elsewhere = sources.iter().find(|source| source.bind || !reachable(&source.events));
    if let Some(source) = elsewhere {
        return Err(Unusable::Elsewhere(source.events.clone()));
    }
    let replay = |source: KvSource| KvSource { replay: source.replay.filter(&reachable), ..source };
    Ok(sources.into_iter().map(replay).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(host: &str) -> KvDiscovery {
        let url = format!("http://{host}:8000");
        let (endpoint, host) = ("e".to_owned(), host.to_owned());
        KvDiscovery { endpoint, url, key: None, host, fallback: Vec::new() }
    }

    fn answer(address: &str, replay: &str) -> Vec<u8> {
        format!(
            r#"{{"0":{{"enable_kv_cache_events":true,"publisher":"zmq","endpoint":"{address}","replay_endpoint":"{replay}","topic":"kv"}}}}"#
        )
        .into_bytes()
    }

    #[test]
    fn an_engine_sends_nobody_elsewhere() {
        let found = usable(&plan("10.0.0.7"), &answer("tcp://*:5557", "tcp://*:5558")).unwrap();
        let seen = (found[0].events.to_string(), found[0].replay.as_ref().unwrap().to_string());
        assert_eq!(seen, ("tcp://10.0.0.7:5557".to_owned(), "tcp://10.0.0.7:5558".to_owned()));
        for address in
            ["tcp://10.0.0.9:5557", "tcp://127.0.0.1:5557", "ipc:///tmp/kv", "inproc://kv", "nonsense"]
        {
            assert!(usable(&plan("10.0.0.7"), &answer(address, "tcp://*:1")).is_err(), "{address}");
        }
        let found = usable(&plan("127.0.0.1"), &answer("ipc:///tmp/kv", "tcp://10.9.9.9:1")).unwrap();
        assert_eq!((found[0].events.to_string().as_str(), &found[0].replay), ("ipc:///tmp/kv", &None));
        assert!(matches!(usable(&plan("h"), b"{}"), Err(Unusable::Off)));
        assert!(usable(&plan("h"), b"[]").is_err());
    }
}
