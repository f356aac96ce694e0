//! Whether a source is heard.
//!
//! An idle engine publishes nothing, so silence on an open connection says
//! nothing. Without a connection nobody knows what the engine stores and evicts
//! meanwhile: after a while what it said must not be taken for its word any more.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use super::KvSink;
use super::source::KvSource;

enum State {
    /// What it said last is so.
    Heard,
    /// Without a connection since then.
    Away(Instant),
    /// Without one for so long that the sink was told. A connection alone does
    /// not end it: what was missed shows only in a replay or in the next batch.
    Silent,
}

/// Of one source. Its task says what happens, and one for all looks at the time.
pub(super) struct Liveness {
    endpoint: String,
    rank: u32,
    sink: Arc<dyn KvSink>,
    /// Held while the sink is told, so that it hears things in their order.
    state: Mutex<State>,
}

impl Liveness {
    /// Of a source that nobody has connected to yet; `silent` if the sink knows
    /// already that it is not heard.
    pub(super) fn new(source: &KvSource, sink: Arc<dyn KvSink>, silent: bool) -> Liveness {
        let state = if silent { State::Silent } else { State::Away(Instant::now()) };
        Liveness { endpoint: source.endpoint.clone(), rank: source.rank, sink, state: Mutex::new(state) }
    }

    /// A connection was made. Batches that were missed show in the next one's number.
    pub(super) fn connected(&self) {
        let mut state = self.state.lock();
        if matches!(*state, State::Away(_)) {
            *state = State::Heard;
        }
    }

    /// There may be a connection: nobody can say yet that there is none.
    pub(super) fn may_be_connected(&self) {
        let mut state = self.state.lock();
        if matches!(*state, State::Away(_)) {
            *state = State::Away(Instant::now());
        }
    }

    /// All that it published is known, or the sink was told to forget.
    pub(super) fn heard(&self) {
        let mut state = self.state.lock();
        if matches!(*state, State::Silent) {
            self.sink.heard(&self.endpoint, self.rank);
        }
        *state = State::Heard;
    }

    /// The connection is gone.
    pub(super) fn gone(&self) {
        let mut state = self.state.lock();
        if matches!(*state, State::Heard) {
            *state = State::Away(Instant::now());
        }
    }

    /// Tells the sink of a source that had no connection for so long.
    pub(super) fn check(&self, longest: Duration) {
        let mut state = self.state.lock();
        if matches!(*state, State::Away(since) if since.elapsed() >= longest) {
            *state = State::Silent;
            self.sink.silent(&self.endpoint, self.rank);
        }
    }

    pub(super) fn is_silent(&self) -> bool {
        matches!(*self.state.lock(), State::Silent)
    }
}
