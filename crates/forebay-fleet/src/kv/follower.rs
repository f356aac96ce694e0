//! One source: which batches came, which are missing, what the sink hears.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use forebay_prefix::engine_map::{Sequence, Step};
use forebay_wire::kv_events::{Batch, KvEventError, decode_batch};
use xxhash_rust::xxh3::xxh3_64;

use super::counts::Counts;
use super::liveness::Liveness;
use super::source::{KvSettings, KvSource};
use super::{KvReset, KvSink};

/// A batch as it came.
pub(super) struct Incoming {
    pub(super) seq: u64,
    /// Tells this batch from another with the same number: the time in it
    /// alone makes two of them differ.
    pub(super) digest: u64,
    pub(super) batch: Result<Batch, KvEventError>,
}

impl Incoming {
    pub(super) fn read(seq: u64, payload: &[u8]) -> Incoming {
        Incoming { seq, digest: xxh3_64(payload), batch: decode_batch(payload) }
    }
}

/// What others know of a source.
#[derive(Clone)]
pub(super) struct Uplink {
    pub(super) counts: Arc<Counts>,
    pub(super) liveness: Arc<Liveness>,
}

impl Uplink {
    /// A connection was made.
    pub(super) fn connected(&self) {
        Counts::add(&self.counts.connections, 1);
        self.counts.connected.store(true, Relaxed);
        self.liveness.connected();
    }

    /// It failed or broke.
    pub(super) fn gone(&self) {
        self.counts.connected.store(false, Relaxed);
        Counts::add(&self.counts.failures, 1);
        self.liveness.gone();
    }
}

/// What is known of one publisher, over all connections to it.
pub(super) struct Follower {
    pub(super) source: KvSource,
    pub(super) settings: Arc<KvSettings>,
    pub(super) link: Uplink,
    sink: Arc<dyn KvSink>,
    pub(super) sequence: Sequence,
    /// The digest of the last batch, whose number is one below the next.
    pub(super) last: Option<u64>,
}

impl Follower {
    pub(super) fn new(
        source: KvSource,
        settings: Arc<KvSettings>,
        link: Uplink,
        sink: Arc<dyn KvSink>,
    ) -> Follower {
        Follower { source, settings, link, sink, sequence: Sequence::default(), last: None }
    }

    /// A connection was made: what was published before it is asked for, and
    /// whether it is the same process that publishes.
    pub(super) async fn connected(&mut self) {
        self.link.connected();
        self.sequence.reconnected();
        self.catch_up().await;
    }

    /// A batch was published.
    pub(super) async fn published(&mut self, incoming: Incoming) {
        let seq = incoming.seq;
        let mut asked = false;
        loop {
            match self.sequence.published(seq) {
                Step::Apply => return self.deliver(incoming),
                Step::Duplicate => return,
                Step::Restart => self.restarted(),
                Step::Gap { from } if asked => self.lost(from, seq),
                Step::Gap { from } => {
                    Counts::add(&self.link.counts.gaps, 1);
                    asked = true;
                    if !self.catch_up().await {
                        tracing::debug!(endpoint = %self.source.endpoint, from, seq, "missed KV events");
                    }
                }
            }
        }
    }

    /// Hands on a batch whose turn it is.
    pub(super) fn deliver(&mut self, incoming: Incoming) {
        let Incoming { seq, digest, batch } = incoming;
        let KvSource { endpoint, rank, .. } = &self.source;
        self.last = Some(digest);
        // Whatever was missed before has been forgotten.
        self.link.liveness.heard();
        match batch {
            Ok(batch) => {
                Counts::add(&self.link.counts.batches, 1);
                Counts::add(&self.link.counts.events, batch.events.len() as u64);
                Counts::add(&self.link.counts.skipped, u64::from(batch.skipped));
                self.sink.batch(endpoint, *rank, seq, &batch);
            }
            Err(error) => {
                tracing::warn!(%endpoint, rank, seq, %error, "KV events that cannot be read");
                Counts::add(&self.link.counts.unreadable, 1);
                Counts::add(&self.link.counts.resets, 1);
                self.sink.reset(endpoint, *rank, KvReset::Unreadable);
            }
        }
    }

    /// Batches from `from` up to `seq` are missing for good.
    pub(super) fn lost(&mut self, from: u64, seq: u64) {
        self.sequence.skip_to(seq);
        self.last = None;
        // Before the first batch there is nothing to forget: we came late.
        if from > 0 {
            tracing::info!(endpoint = %self.source.endpoint, rank = self.source.rank, from, seq, "KV events are lost");
            Counts::add(&self.link.counts.resets, 1);
            self.sink.reset(&self.source.endpoint, self.source.rank, KvReset::Lost);
        }
    }

    /// Another process publishes now.
    pub(super) fn restarted(&mut self) {
        tracing::info!(endpoint = %self.source.endpoint, rank = self.source.rank, "the engine's cache began anew");
        self.sequence.restart();
        self.last = None;
        Counts::add(&self.link.counts.restarts, 1);
        self.sink.reset(&self.source.endpoint, self.source.rank, KvReset::Restarted);
    }
}
