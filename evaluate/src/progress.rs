//! How far a list of cells is, on standard error.

use std::io::{IsTerminal, Write};
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// A bar on a terminal, a line now and then elsewhere.
pub(crate) struct Progress {
    what: String,
    all: usize,
    began: Instant,
    inner: Mutex<Inner>,
}

struct Inner {
    done: usize,
    told: Instant,
}

impl Progress {
    pub(crate) fn new(what: &str, all: usize) -> Progress {
        let began = now();
        Progress { what: what.to_owned(), all, began, inner: Mutex::new(Inner { done: 0, told: began }) }
    }

    /// One more is done.
    pub(crate) fn step(&self) {
        let Ok(mut inner) = self.inner.lock() else { return };
        inner.done += 1;
        let now = now();
        let terminal = std::io::stderr().is_terminal();
        let every = if terminal { Duration::from_millis(200) } else { Duration::from_secs(20) };
        let last = inner.done == self.all;
        if !last && now.duration_since(inner.told) < every {
            return;
        }
        inner.told = now;
        let spent = now.duration_since(self.began).as_secs_f64();
        let left = spent / inner.done as f64 * (self.all - inner.done.min(self.all)) as f64;
        let line = format!(
            "{}: {} of {} cells, {spent:.0} s, about {left:.0} s left",
            self.what, inner.done, self.all
        );
        let mut stderr = std::io::stderr().lock();
        // A terminal that is gone is no reason to stop.
        let _ = match (terminal, last) {
            (true, false) => write!(stderr, "\r\x1b[K{line}"),
            (true, true) => writeln!(stderr, "\r\x1b[K{line}"),
            (false, _) => writeln!(stderr, "{line}"),
        };
        let _ = stderr.flush();
    }
}

#[expect(clippy::disallowed_methods, reason = "people wait in real time")]
fn now() -> Instant {
    Instant::now()
}
