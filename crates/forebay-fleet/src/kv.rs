//! KV-cache events: listening to what engines say of their prefix caches.
//!
//! vLLM and SGLang publish a batch of events for each step over ZeroMQ, and
//! send the last ones again when asked. [`KvFeeds`] keeps one subscription for
//! each rank of each endpoint, notices what was missed, asks for it, and hands
//! batches in order to a [`KvSink`]. Where something stays missing, or another
//! process answers at the address, the sink is told to forget first.
//!
//! An engine that is quiet is heard all the same; one without a connection is not
//! (`liveness`), and the sink is told after a while.
//!
//! TensorRT-LLM keeps its events in a queue until it is asked for them, which
//! `poll` does.
//!
//! The ZeroMQ protocol is spoken here directly (`zmtp`): two socket types
//! without authentication are small, and an engine that sends nonsense must not
//! cost more memory than the settings say.

mod address;
mod counts;
mod discover;
mod events;
mod feeds;
mod follower;
mod link;
mod listener;
mod liveness;
mod poll;
mod replay;
mod source;
mod zmtp;

pub use address::{KvAddress, KvAddressError};
pub use counts::KvStatus;
pub use discover::KvDiscovery;
pub use events::engine_event;
pub use feeds::KvFeeds;
pub use source::{KvSettings, KvSource, KvTemplate};

use forebay_wire::kv_events::Batch;

/// Why what is known of a rank's cache must be forgotten.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum KvReset {
    /// Batches are missing for good.
    Lost,
    /// The engine restarted.
    Restarted,
    /// A batch came that cannot be read.
    Unreadable,
}

/// Where batches go. Called from the feed's task, so it must not block.
pub trait KvSink: Send + Sync + 'static {
    /// The next batch of a rank. Numbers grow by one, but after a reset.
    fn batch(&self, endpoint: &str, rank: u32, seq: u64, batch: &Batch);

    /// Forget what this rank holds: the batches that follow do not build on it.
    fn reset(&self, endpoint: &str, rank: u32, why: KvReset);

    /// Nobody has been connected to this rank for [`KvSettings::silent_after`]:
    /// what it stored and evicted since is not known. Told once, until it is
    /// [heard](KvSink::heard); a rank that has never been connected to is, too.
    fn silent(&self, endpoint: &str, rank: u32);

    /// All that a silent rank published is known again, or a reset came for what
    /// is not.
    fn heard(&self, endpoint: &str, rank: u32);
}
