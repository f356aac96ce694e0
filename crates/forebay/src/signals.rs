//! SIGTERM and SIGINT mean the same: end gracefully, and at once the second
//! time. SIGHUP, which a closing terminal sends, must not cut streams: it is
//! noted and otherwise ignored.

use tokio::signal::unix::{Signal, SignalKind, signal};

/// Waits for signals to end.
pub(crate) struct Signals {
    terminate: Signal,
    interrupt: Signal,
    hangup: Signal,
}

impl Signals {
    /// From now on the signals no longer kill the process.
    pub(crate) fn new() -> std::io::Result<Signals> {
        Ok(Signals {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hangup: signal(SignalKind::hangup())?,
        })
    }

    /// The next of them.
    pub(crate) async fn next(&mut self) {
        loop {
            tokio::select! {
                _ = self.terminate.recv() => return,
                _ = self.interrupt.recv() => return,
                _ = self.hangup.recv() => {
                    tracing::info!("SIGHUP ignored: the configuration cannot be read again while running");
                }
            }
        }
    }
}
