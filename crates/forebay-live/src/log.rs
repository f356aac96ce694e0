//! The decision log: every input of every Gate in the order in which its lock
//! was taken, so that the same build can replay them and come to the same
//! decisions, byte for byte.
//!
//! A file is a line of text that names the format and the build, then entries:
//! the length of the entry as four little-endian bytes, the number of the Gate
//! as four, and the entry in MessagePack. Each Gate's first entry in a file is
//! a snapshot of its whole state. Prompts are not in it; the hashes of their
//! blocks and what the prefix index said of them are.

mod replay;
mod writer;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{SyncSender, TrySendError};

use forebay_core::{RequestFacts, TicketId, Time};
use forebay_gate::{Effects, Event, Gate, RepickReason, Verdict};
use serde::{Deserialize, Serialize};

pub use replay::{LogError, ReplayReport, replay};
pub use writer::LogOptions;
pub(crate) use writer::start;

/// The first line of a file, before the build.
pub(crate) const MAGIC: &str = "forebay decision log 1";

/// The line that a file of this build begins with.
pub(crate) fn heading() -> String {
    format!(
        "{MAGIC} {} {}\n",
        env!("CARGO_PKG_VERSION"),
        if cfg!(debug_assertions) { "debug" } else { "release" }
    )
}

/// One call of a Gate and what it answered.
#[derive(Serialize, Deserialize)]
pub(crate) enum Entry {
    Snapshot(Box<Gate>),
    Submit(Time, Arc<RequestFacts>, Verdict),
    Repick(Time, TicketId, RepickReason, Verdict),
    Apply(Time, Event, Effects),
}

/// What the log has done so far.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    pub(crate) written: AtomicU64,
    pub(crate) lost: AtomicU64,
    pub(crate) failed: AtomicU64,
    /// Not written because the file is full and could not be put aside.
    pub(crate) full: AtomicU64,
    /// Moves on when a new file begins, so that every Gate starts it with a snapshot.
    pub(crate) file: AtomicU64,
}

/// Where a Gate's calls go. Nothing here waits: when the writer cannot keep
/// up, entries are lost, and the next one is preceded by a snapshot.
pub(crate) struct Recorder {
    gate: u32,
    sender: SyncSender<(u32, u64, Entry)>,
    counts: Arc<Counts>,
    /// The file whose snapshot was sent; none before the first.
    file: Option<u64>,
}

impl Recorder {
    pub(crate) fn new(gate: u32, sender: SyncSender<(u32, u64, Entry)>, counts: Arc<Counts>) -> Recorder {
        Recorder { gate, sender, counts, file: None }
    }

    pub(crate) fn wants_snapshot(&self) -> bool {
        self.file != Some(self.counts.file.load(Ordering::Acquire))
    }

    pub(crate) fn snapshot(&mut self, gate: &Gate) {
        let file = self.counts.file.load(Ordering::Acquire);
        self.file = Some(file);
        self.push(Entry::Snapshot(Box::new(gate.clone())));
    }

    pub(crate) fn push(&mut self, entry: Entry) {
        let Some(file) = self.file else { return };
        match self.sender.try_send((self.gate, file, entry)) {
            Ok(()) => {}
            Err(TrySendError::Full(_)) => {
                self.counts.lost.fetch_add(1, Ordering::Relaxed);
                // What follows cannot be replayed without it: begin anew.
                self.file = None;
            }
            Err(TrySendError::Disconnected(_)) => {}
        }
    }
}
