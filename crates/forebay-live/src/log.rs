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

/// What tells this build from any that may decide otherwise: its version, how
/// it was compiled and for what, and a hash of the sources that decide.
pub fn build() -> &'static str {
    if cfg!(debug_assertions) {
        concat!(env!("CARGO_PKG_VERSION"), " debug ", env!("FOREBAY_BUILD"))
    } else {
        concat!(env!("CARGO_PKG_VERSION"), " release ", env!("FOREBAY_BUILD"))
    }
}

/// The line that a file of this build begins with.
pub(crate) fn heading() -> String {
    format!("{MAGIC} {}\n", build())
}

/// One call of a Gate and what it answered.
#[derive(Serialize, Deserialize)]
pub(crate) enum Entry {
    Snapshot(Box<Gate>),
    Submit(Time, Arc<RequestFacts>, Verdict),
    Repick(Time, TicketId, RepickReason, Verdict),
    Apply(Time, Event, Effects),
}

/// Entries on their way to the writer; past that they are lost.
pub(crate) const IN_FLIGHT: usize = 16_384;

/// After a loss a Gate begins anew when no more than this are on their way: a
/// snapshot copies the whole Gate under its lock, and must not be lost too.
const ROOM: u64 = IN_FLIGHT as u64 / 4;

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
    /// On their way to the writer.
    pub(crate) waiting: AtomicU64,
    /// Snapshots made, whether they arrived or not.
    pub(crate) snapshots: AtomicU64,
}

/// Where a Gate's calls go. Nothing here waits: when the writer cannot keep
/// up, entries are lost until it has caught up, and then a snapshot comes first.
pub(crate) struct Recorder {
    gate: u32,
    sender: SyncSender<(u32, u64, Entry)>,
    counts: Arc<Counts>,
    /// The file whose snapshot was sent; none before the first and after a loss.
    file: Option<u64>,
}

impl Recorder {
    pub(crate) fn new(gate: u32, sender: SyncSender<(u32, u64, Entry)>, counts: Arc<Counts>) -> Recorder {
        Recorder { gate, sender, counts, file: None }
    }

    /// Whether the call that comes now is to be recorded. A file that begins,
    /// or that lost entries, needs the Gate's whole state first; while there is
    /// no room for that the call is lost, and costs nothing.
    pub(crate) fn ready(&mut self, gate: &Gate) -> bool {
        let file = self.counts.file.load(Ordering::Acquire);
        if self.file == Some(file) {
            return true;
        }
        if self.counts.waiting.load(Ordering::Relaxed) > ROOM {
            self.file = None;
            self.counts.lost.fetch_add(1, Ordering::Relaxed);
            return false;
        }
        self.file = Some(file);
        self.counts.snapshots.fetch_add(1, Ordering::Relaxed);
        self.push(Entry::Snapshot(Box::new(gate.clone())));
        self.file.is_some()
    }

    pub(crate) fn push(&mut self, entry: Entry) {
        let Some(file) = self.file else { return };
        // Before the writer can count it as taken.
        self.counts.waiting.fetch_add(1, Ordering::Relaxed);
        if let Err(error) = self.sender.try_send((self.gate, file, entry)) {
            self.counts.waiting.fetch_sub(1, Ordering::Relaxed);
            if matches!(error, TrySendError::Full(_)) {
                self.counts.lost.fetch_add(1, Ordering::Relaxed);
                // What follows cannot be replayed without it: begin anew.
                self.file = None;
            }
        }
    }
}

#[cfg(test)]
#[path = "log_tests.rs"]
mod tests;
