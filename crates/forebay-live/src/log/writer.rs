//! The thread that writes the decision log.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::{Duration, Instant};

use super::{Counts, Entry, IN_FLIGHT, heading};

/// Where and how much is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogOptions {
    /// The file; the one before it is kept beside it with `.1` at its end.
    pub path: PathBuf,
    /// A file of more bytes is put aside and a new one begun, so that the disk
    /// holds twice this at most; at least 1 MiB, and at least twice what the
    /// snapshots take that a file begins with: it is to hold decisions too.
    pub max_bytes: u64,
}

const LEAST_BYTES: u64 = 1 << 20;
/// What was decided is on disk this soon, also when nothing follows.
const FLUSH_AFTER: Duration = Duration::from_millis(500);

/// Where entries go, what was done with them, and the thread that does it.
pub(crate) type Started = (SyncSender<(u32, u64, Entry)>, Arc<Counts>, std::thread::JoinHandle<()>);

/// Opens the file and starts the writer. It ends when the last sender is gone.
pub(crate) fn start(options: &LogOptions) -> io::Result<Started> {
    let counts = Arc::new(Counts::default());
    let (sender, receiver) = sync_channel(IN_FLIGHT);
    // What an earlier process decided is what one wants to read after a crash.
    if std::fs::metadata(&options.path).is_ok_and(|file| file.is_file() && file.len() > 0) {
        std::fs::rename(&options.path, aside(&options.path))?;
    }
    let file = open(&options.path)?;
    let mut writer = Writer {
        path: options.path.clone(),
        max: options.max_bytes.max(LEAST_BYTES),
        file: BufWriter::with_capacity(256 * 1024, file),
        bytes: 0,
        snapshots: BTreeMap::new(),
        number: 0,
        counts: Arc::clone(&counts),
        frame: Vec::new(),
        flushed: now(),
        broken_until: None,
        full: false,
    };
    let thread = std::thread::Builder::new()
        .name("forebay-decision-log".to_owned())
        .spawn(move || writer.run(&receiver))?;
    Ok((sender, counts, thread))
}

/// Where the file before this one is kept.
fn aside(path: &Path) -> PathBuf {
    let mut aside = path.as_os_str().to_owned();
    aside.push(".1");
    PathBuf::from(aside)
}

fn open(path: &Path) -> io::Result<File> {
    let mut file = File::create(path)?;
    file.write_all(heading().as_bytes())?;
    Ok(file)
}

struct Writer {
    path: PathBuf,
    max: u64,
    file: BufWriter<File>,
    bytes: u64,
    /// What each Gate's last snapshot took.
    snapshots: BTreeMap<u32, u64>,
    /// Which file this is, counted from 0.
    number: u64,
    counts: Arc<Counts>,
    frame: Vec<u8>,
    flushed: Instant,
    /// Nothing could be written: entries are dropped until then.
    broken_until: Option<Instant>,
    /// The file has all the bytes that it may have and could not be put aside:
    /// nothing more is written until it can be.
    full: bool,
}

/// How long after a failed write the next one is tried.
const RETRY_AFTER: Duration = Duration::from_secs(1);

#[expect(clippy::disallowed_methods, reason = "the writer is a shell; what it writes has its own times")]
fn now() -> Instant {
    Instant::now()
}

impl Writer {
    fn run(&mut self, entries: &Receiver<(u32, u64, Entry)>) {
        loop {
            match entries.recv_timeout(FLUSH_AFTER) {
                Ok((gate, file, entry)) => {
                    self.counts.waiting.fetch_sub(1, Ordering::Relaxed);
                    let written = self.write(gate, file, &entry);
                    self.count(written);
                    // Also while entries come all the time.
                    if self.flushed.elapsed() >= FLUSH_AFTER {
                        let flushed = self.flush();
                        self.count(flushed.map(|()| false));
                    }
                }
                Err(RecvTimeoutError::Timeout) => {
                    let flushed = self.flush();
                    self.count(flushed.map(|()| false));
                }
                Err(RecvTimeoutError::Disconnected) => {
                    let _ = self.file.flush();
                    return;
                }
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.flushed = now();
        if self.broken_until.is_some() {
            return Ok(());
        }
        self.file.flush()
    }

    /// What follows a loss cannot be replayed: every Gate begins anew with a
    /// snapshot, in a while.
    fn begin_anew(&mut self) {
        self.number += 1;
        self.counts.file.store(self.number, Ordering::Release);
    }

    fn count(&mut self, result: io::Result<bool>) {
        match result {
            Ok(written) => {
                self.counts.written.fetch_add(u64::from(written), Ordering::Relaxed);
            }
            // Said once; the counter goes on.
            Err(error) => {
                self.broken_until = Some(now() + RETRY_AFTER);
                if self.counts.failed.fetch_add(1, Ordering::Relaxed) == 0 {
                    tracing::error!(file = %self.path.display(), %error, "the decision log cannot be written");
                }
            }
        }
    }

    fn write(&mut self, gate: u32, file: u64, entry: &Entry) -> io::Result<bool> {
        if let Some(until) = self.broken_until {
            if now() < until {
                let count = if self.full { &self.counts.full } else { &self.counts.failed };
                count.fetch_add(1, Ordering::Relaxed);
                return Ok(false);
            }
            self.broken_until = None;
            if self.full {
                self.make_room();
            } else {
                self.begin_anew();
            }
            if self.full {
                self.counts.full.fetch_add(1, Ordering::Relaxed);
                return Ok(false);
            }
        }
        // Sent for the file before: its Gate has not begun this one yet.
        if file != self.number {
            self.counts.lost.fetch_add(1, Ordering::Relaxed);
            return Ok(false);
        }
        self.frame.clear();
        self.frame.extend_from_slice(&[0; 8]);
        rmp_serde::encode::write(&mut self.frame, entry).map_err(io::Error::other)?;
        let length = u32::try_from(self.frame.len() - 8).map_err(io::Error::other)?;
        self.frame[..4].copy_from_slice(&length.to_le_bytes());
        self.frame[4..8].copy_from_slice(&gate.to_le_bytes());
        self.file.write_all(&self.frame)?;
        let bytes = self.frame.len() as u64;
        self.bytes += bytes;
        if matches!(entry, Entry::Snapshot(_)) {
            self.snapshots.insert(gate, bytes);
        }
        // A file without room for more than its snapshots would make every call one.
        if self.bytes >= self.max.max(2 * self.snapshots.values().sum::<u64>()) {
            self.make_room();
        }
        Ok(true)
    }

    /// Begins a new file, or nothing is written for a while: without that the
    /// file would grow by an entry with each try.
    fn make_room(&mut self) {
        match self.rotate() {
            Ok(()) => self.full = false,
            Err(error) => {
                self.broken_until = Some(now() + RETRY_AFTER);
                if !std::mem::replace(&mut self.full, true) {
                    let (file, aside) = (self.path.display(), aside(&self.path));
                    tracing::error!(
                        %file, aside = %aside.display(), %error,
                        "the decision log is full and cannot be put aside; nothing is written until it can be"
                    );
                }
            }
        }
    }

    fn rotate(&mut self) -> io::Result<()> {
        self.file.flush()?;
        match std::fs::rename(&self.path, aside(&self.path)) {
            // Put aside before, when no new file could be made; or somebody removed it.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            result => result?,
        }
        self.file = BufWriter::with_capacity(256 * 1024, open(&self.path)?);
        self.bytes = 0;
        self.begin_anew();
        Ok(())
    }
}

#[cfg(test)]
#[path = "writer_tests.rs"]
mod tests;
