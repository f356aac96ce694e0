//! KV events: what the prefix cache gains and loses, announced over ZeroMQ as
//! vLLM 0.32 does (`testdata/kv_events.txt` has recorded ones).

mod encode;
mod feed;
mod publish;

#[cfg(test)]
mod encode_tests;

pub(crate) use feed::{KvFeed, SeqText};
pub(crate) use publish::{KvSettings, Publisher};

use std::sync::Arc;

use tokio::sync::oneshot;

/// What the publisher is told.
pub(crate) enum KvMessage {
    Batch(KvBatch),
    /// Close the sockets; what is published then is only remembered.
    Offline,
    /// The publishing process is a new one.
    Reset,
    /// Open the sockets again, and say so.
    Online(oneshot::Sender<()>),
}

/// One batch: the events of one step.
#[derive(Debug)]
pub(crate) struct KvBatch {
    /// Seconds since 1970.
    pub(crate) unix: f64,
    pub(crate) events: Vec<KvEvent>,
}

/// One event, before it is written down.
#[derive(Debug)]
pub(crate) enum KvEvent {
    /// Neighbouring blocks of one sequence.
    Stored {
        text: Arc<SeqText>,
        /// The place of the first one in the sequence.
        first: u32,
        hashes: Vec<u64>,
        parent: Option<u64>,
    },
    Removed {
        hash: u64,
    },
    Cleared,
}
