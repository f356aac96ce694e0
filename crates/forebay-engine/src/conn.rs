//! One client connection: its socket, and how long it has been idle.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::sync::{Notify, watch};
use tokio::time::Instant;

use crate::route::respond;
use crate::shared::Shared;

/// How long an idle connection is kept, in real time: uvicorn's default.
const KEEP_ALIVE: Duration = Duration::from_secs(5);

/// What the connection's task and its answers both know.
#[derive(Default)]
pub(crate) struct ConnState {
    /// Since when no answer is under way; None during one and before the first.
    idle_since: Mutex<Option<Instant>>,
    changed: Notify,
    reset: AtomicBool,
}

impl ConnState {
    /// Whether the socket is to be reset instead of closed.
    pub(crate) fn reset_on_close(&self, reset: bool) {
        self.reset.store(reset, Ordering::Relaxed);
    }

    /// Returns once the connection has been idle for [`KEEP_ALIVE`].
    async fn expired(&self) {
        loop {
            let since = *self.idle_since.lock();
            let changed = self.changed.notified();
            match since {
                None => changed.await,
                Some(since) => {
                    tokio::select! {
                        () = tokio::time::sleep_until(since + KEEP_ALIVE) => {
                            if *self.idle_since.lock() == Some(since) {
                                return;
                            }
                        }
                        () = changed => {}
                    }
                }
            }
        }
    }
}

/// One request under way, from its head to the end of the answer's body.
pub(crate) struct Busy {
    conn: Arc<ConnState>,
}

impl Busy {
    fn new(conn: &Arc<ConnState>) -> Busy {
        *conn.idle_since.lock() = None;
        Busy { conn: Arc::clone(conn) }
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        *self.conn.idle_since.lock() = Some(Instant::now());
        self.conn.changed.notify_one();
    }
}

/// Serves one connection until it ends, is idle too long, or `stop` turns true.
pub(crate) async fn serve(stream: TcpStream, shared: Arc<Shared>, mut stop: watch::Receiver<bool>) {
    // Every token is a small write that must not wait for the one before.
    let _ = stream.set_nodelay(true);
    let state = Arc::new(ConnState::default());
    let io = TokioIo::new(Socket { stream, state: Arc::clone(&state), shared: Arc::clone(&shared) });
    let service = service_fn(|request: http::Request<Incoming>| {
        let (shared, state) = (Arc::clone(&shared), Arc::clone(&state));
        async move {
            let busy = Busy::new(&state);
            let answer = respond(shared, state, request).await;
            Ok::<_, std::convert::Infallible>(answer.map(|body| body.busy(busy)))
        }
    });
    let connection = http1::Builder::new().serve_connection(io, service);
    let mut connection = std::pin::pin!(connection);
    let mut closing = false;
    loop {
        tokio::select! {
            result = connection.as_mut() => {
                if let Err(error) = result {
                    tracing::debug!(%error, "connection ended");
                }
                return;
            }
            () = state.expired(), if !closing => {}
            _ = stop.wait_for(|stop| *stop), if !closing => {}
        }
        closing = true;
        connection.as_mut().graceful_shutdown();
    }
}

/// A socket that can be told to end with a reset.
struct Socket {
    stream: TcpStream,
    state: Arc<ConnState>,
    shared: Arc<Shared>,
}

impl Drop for Socket {
    fn drop(&mut self) {
        if self.state.reset.load(Ordering::Relaxed) || self.shared.severed.load(Ordering::Relaxed) {
            let _ = self.stream.set_zero_linger();
        }
    }
}

impl AsyncRead for Socket {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl AsyncWrite for Socket {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, buf)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        // A reset must not be preceded by an orderly end.
        match self.state.reset.load(Ordering::Relaxed) {
            true => Poll::Ready(Ok(())),
            false => Pin::new(&mut self.stream).poll_shutdown(cx),
        }
    }
}
