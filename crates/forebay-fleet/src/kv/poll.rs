//! TensorRT-LLM's events, which are asked for: each answer empties a queue of
//! the engine, so that only one may ask.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use bytes::Bytes;
use forebay_net::client::{Client, ClientError, ClientOptions, json_post};
use forebay_wire::kv_events::{Batch, TrtllmEvent, decode_trtllm};
use tokio::time::sleep;

use super::counts::Counts;
use super::feeds::pause;
use super::follower::Uplink;
use super::source::{KvSettings, KvSource};
use super::{KvReset, KvSink};
use crate::key;

/// Where the engine answers, behind its URL.
pub(super) const PATH: &str = "/kv_cache_events";

/// The engine waits so long for the first event before it says that there is none.
const HELD: Duration = Duration::from_secs(2);

/// From one answer with events to the next request, and from one without.
const NEXT: Duration = Duration::from_millis(100);
const NEXT_WHEN_IDLE: Duration = Duration::from_millis(500);

/// Ranks of one engine that are followed at most.
const MAX_RANKS: usize = 1024;

/// One engine that is asked.
pub(super) struct Poller {
    pub(super) source: KvSource,
    pub(super) settings: Arc<KvSettings>,
    pub(super) link: Uplink,
    pub(super) sink: Arc<dyn KvSink>,
    /// The number that each rank's next event should have.
    next: BTreeMap<u32, u64>,
    /// The number of the last event of any rank.
    last: Option<u64>,
}

/// Why an answer brought nothing.
#[derive(Debug, thiserror::Error)]
enum PollError {
    #[error(transparent)]
    Client(#[from] ClientError),
    #[error("its URL cannot be used")]
    Url,
    #[error("status {0}")]
    Status(u16),
}

impl Poller {
    pub(super) fn new(
        source: KvSource,
        settings: Arc<KvSettings>,
        link: Uplink,
        sink: Arc<dyn KvSink>,
    ) -> Poller {
        Poller { source, settings, link, sink, next: BTreeMap::new(), last: None }
    }

    /// Asks again and again.
    pub(super) async fn run(mut self) {
        let options = ClientOptions {
            connect_timeout: self.settings.connect,
            max_idle_per_host: 1,
            ..ClientOptions::default()
        };
        let client = Client::new(options);
        let mut failures = 0;
        loop {
            let wait = match self.ask(&client).await {
                Ok(body) => {
                    failures = 0;
                    if !self.link.counts.connected.load(Relaxed) {
                        self.link.connected();
                    }
                    if self.take(&body) { NEXT } else { NEXT_WHEN_IDLE }
                }
                // What an answer that broke off had is missing in the next one.
                Err(error) => {
                    self.link.gone();
                    let KvSource { endpoint, events, .. } = &self.source;
                    tracing::debug!(%endpoint, %events, %error, "no KV events");
                    failures += 1;
                    pause(&self.settings, &self.source.endpoint, failures - 1)
                }
            };
            sleep(wait).await;
        }
    }

    async fn ask(&self, client: &Client) -> Result<Bytes, PollError> {
        let url = self.source.events.to_string();
        let limit = HELD + self.settings.message;
        let mut request = json_post(Bytes::from_static(b"{}"));
        *request.uri_mut() = url.parse().map_err(|_| PollError::Url)?;
        key::show(&mut request, self.source.key.as_ref());
        let (status, _, body) = client.fetch(request, limit, self.settings.max_message).await?;
        if status.is_success() { Ok(body) } else { Err(PollError::Status(status.as_u16())) }
    }

    /// Hands on what an answer tells. Gives whether it told of any event.
    fn take(&mut self, body: &[u8]) -> bool {
        match decode_trtllm(body) {
            Ok(events) => {
                let told = !events.is_empty();
                events.into_iter().for_each(|event| self.deliver(event));
                told
            }
            Err(error) => {
                tracing::warn!(endpoint = %self.source.endpoint, %error, "KV events that cannot be read");
                Counts::add(&self.link.counts.unreadable, 1);
                self.forget(KvReset::Unreadable);
                false
            }
        }
    }

    fn deliver(&mut self, event: TrtllmEvent) {
        let TrtllmEvent { id, rank, events } = event;
        let of = rank.unwrap_or(0);
        // Whether ranks count alone or together depends on the version; both
        // only ever go up.
        let follows = self.last.is_some_and(|last| id == last.saturating_add(1));
        match self.next.get(&of) {
            Some(next) if id < *next => self.forget(KvReset::Restarted),
            Some(next) if id > *next && !follows => {
                Counts::add(&self.link.counts.gaps, 1);
                self.forget(KvReset::Lost);
            }
            None if self.next.len() >= MAX_RANKS => return,
            _ => {}
        }
        self.next.insert(of, id.saturating_add(1));
        self.last = Some(id);
        Counts::add(&self.link.counts.batches, 1);
        Counts::add(&self.link.counts.events, events.len() as u64);
        // These have no time of their own.
        let batch = Batch { ts: 0.0, dp_rank: rank, events, skipped: 0 };
        // Whatever was missed before has been forgotten.
        self.link.liveness.heard();
        self.sink.batch(&self.source.endpoint, of, id, &batch);
    }

    /// Of which rank something is missing cannot be known: all are forgotten.
    fn forget(&mut self, why: KvReset) {
        let endpoint = &self.source.endpoint;
        tracing::info!(%endpoint, ?why, "what the engine's cache holds is not known any more");
        let count =
            if why == KvReset::Restarted { &self.link.counts.restarts } else { &self.link.counts.resets };
        Counts::add(count, 1);
        for rank in std::mem::take(&mut self.next).into_keys() {
            self.sink.reset(endpoint, rank, why);
        }
        self.last = None;
    }
}
