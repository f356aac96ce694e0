//! A client connection that notices when its client is gone.
//!
//! An HTTP server reads nothing while it answers, so a close by the client is
//! seen late: at the next write, or never for an answer that has not begun.
//! Worse, bytes that a pipelining client left behind hide the close behind
//! them. Here the socket is shared: the HTTP server reads and writes through
//! [`ClientIo`], and while it answers, [`Watch::poll_gone`] reads ahead into a
//! bounded buffer, which the server gets first when it reads again.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use hyper::rt::{Read, ReadBufCursor, Write};
use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::Instant;

/// Bytes read ahead at most. A client that pipelines more than this is not
/// noticed when it leaves until its answer is written.
const READ_AHEAD: usize = 64 << 10;
/// One read of the watcher.
const CHUNK: usize = 4 << 10;
/// What an HTTP/2 client with prior knowledge sends first (RFC 9113 §3.4).
const HTTP2_PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

struct Inner {
    stream: TcpStream,
    ahead: Vec<u8>,
    /// How much of `ahead` the server has taken.
    taken: usize,
    /// The client will send no more.
    ended: bool,
    failed: Option<io::Error>,
    /// Requests being read or answered.
    active: u32,
    /// Requests whose body is whole and whose answer is not.
    answering: u32,
    /// The client speaks HTTP/1: bytes outside a request begin a head.
    http1: bool,
    /// When the first byte of a request head came; none between requests.
    head_since: Option<Instant>,
    /// Since when the client takes nothing of what is written.
    blocked_since: Option<Instant>,
    /// When the answer under way must be whole.
    total: Option<Instant>,
    idle_since: Instant,
    /// Read the rest of the client's bytes away before closing.
    linger: bool,
}

impl Inner {
    /// Notes whether the client takes what is written.
    fn wrote(&mut self, written: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        if written.is_pending() {
            self.blocked_since.get_or_insert_with(Instant::now);
        } else {
            self.blocked_since = None;
        }
        written
    }

    /// Reads into `ahead`. `Ready(0)`: the client has ended its side.
    fn poll_read_ahead(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        let mut chunk = [std::mem::MaybeUninit::uninit(); CHUNK];
        let mut buf = ReadBuf::uninit(&mut chunk);
        ready!(Pin::new(&mut self.stream).poll_read(cx, &mut buf))?;
        let read = buf.filled();
        if read.is_empty() {
            self.ended = true;
        }
        self.ahead.extend_from_slice(read);
        Poll::Ready(Ok(read.len()))
    }
}

/// The connection as the HTTP server sees it.
pub struct ClientIo {
    inner: Arc<Mutex<Inner>>,
}

/// The connection as its owner sees it: is anyone still there?
#[derive(Clone)]
pub struct Watch {
    inner: Arc<Mutex<Inner>>,
    half_close: bool,
}

/// Which protocol a client began to speak.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Preface {
    /// Anything that is not HTTP/2's preface.
    Http1,
    /// HTTP/2 with prior knowledge.
    Http2,
    /// The client left before it said anything.
    Nothing,
}

impl ClientIo {
    /// Takes over a socket. With `half_close` a client that ends its side is
    /// still answered; otherwise it counts as gone.
    pub fn new(stream: TcpStream, half_close: bool) -> (ClientIo, Watch) {
        let inner = Arc::new(Mutex::new(Inner {
            stream,
            ahead: Vec::new(),
            taken: 0,
            ended: false,
            failed: None,
            active: 0,
            answering: 0,
            http1: false,
            head_since: None,
            blocked_since: None,
            total: None,
            idle_since: Instant::now(),
            linger: false,
        }));
        (ClientIo { inner: Arc::clone(&inner) }, Watch { inner, half_close })
    }
}

impl Watch {
    /// Waits for the first bytes and says which protocol they begin. The bytes
    /// stay for the server to read.
    ///
    /// # Errors
    /// The system's error when the connection broke.
    pub async fn preface(&self) -> io::Result<Preface> {
        std::future::poll_fn(|cx| {
            let inner = &mut *self.inner.lock();
            loop {
                let seen = &inner.ahead[..inner.ahead.len().min(HTTP2_PREFACE.len())];
                if !seen.is_empty() && !HTTP2_PREFACE.starts_with(seen) {
                    inner.http1 = true;
                    inner.head_since = Some(Instant::now());
                    return Poll::Ready(Ok(Preface::Http1));
                }
                if seen.len() == HTTP2_PREFACE.len() {
                    inner.head_since = None;
                    return Poll::Ready(Ok(Preface::Http2));
                }
                if inner.ended {
                    let empty = inner.ahead.is_empty();
                    return Poll::Ready(Ok(if empty { Preface::Nothing } else { Preface::Http1 }));
                }
                if inner.ahead.is_empty() {
                    inner.head_since = None;
                } else if inner.head_since.is_none() {
                    inner.head_since = Some(Instant::now());
                }
                ready!(inner.poll_read_ahead(cx))?;
            }
        })
        .await
    }

    /// Ready when the client is gone; pending otherwise, and the task is woken
    /// when that may have changed. To be asked only while an answer is awaited.
    pub fn poll_gone(&self, cx: &mut Context<'_>) -> Poll<()> {
        let inner = &mut *self.inner.lock();
        if inner.answering == 0 {
            return Poll::Pending;
        }
        loop {
            if inner.failed.is_some() || (inner.ended && !self.half_close) {
                return Poll::Ready(());
            }
            if inner.ended || inner.ahead.len() - inner.taken >= READ_AHEAD {
                return Poll::Pending;
            }
            if let Err(error) = ready!(inner.poll_read_ahead(cx)) {
                inner.failed = Some(error);
            }
        }
    }

    /// A request head was read: neither the head timer nor the idle timer runs.
    pub fn request_begins(&self) {
        let inner = &mut *self.inner.lock();
        inner.active += 1;
        inner.head_since = None;
    }

    /// The request's body is whole: from now on the client may be found gone.
    pub fn answer_begins(&self) {
        self.inner.lock().answering += 1;
    }

    /// The answer was handed to the server whole, or given up.
    pub fn request_ends(&self, was_answering: bool) {
        let inner = &mut *self.inner.lock();
        inner.active = inner.active.saturating_sub(1);
        if was_answering {
            inner.answering = inner.answering.saturating_sub(1);
        }
        inner.total = None;
        inner.idle_since = Instant::now();
    }

    /// The answer under way must be whole by then, or the connection is closed.
    pub fn set_total(&self, at: Instant) {
        self.inner.lock().total = Some(at);
    }

    /// When the connection is to be closed if nothing happens: a head must be
    /// whole within `header_read`, an idle connection lives for `idle`, and so
    /// long may a client leave its answer unread. While a request is worked on
    /// only the last applies, and the limit of [`Watch::set_total`].
    pub fn deadline(&self, header_read: Duration, idle: Duration) -> Option<Instant> {
        let inner = self.inner.lock();
        let unread = inner.blocked_since.map(|since| since + idle);
        let waiting = match inner.head_since {
            _ if inner.active > 0 => inner.total,
            Some(since) => Some(since + header_read),
            None => Some(inner.idle_since + idle),
        };
        match (unread, waiting) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        }
    }

    /// Some of the client's bytes will not be wanted: [`Watch::linger`] is to
    /// read them away.
    pub fn set_linger(&self) {
        self.inner.lock().linger = true;
    }

    /// After the last answer: reads and drops what the client still sends, so
    /// that closing does not reset the connection under an answer it has not
    /// read yet. Bounded in bytes; the caller bounds the time. Does nothing
    /// unless [`Watch::set_linger`] was called.
    pub async fn linger(&self, max_bytes: u64) {
        let mut left = max_bytes;
        std::future::poll_fn(|cx| {
            let inner = &mut *self.inner.lock();
            while inner.linger && !inner.ended && left > 0 {
                match ready!(inner.poll_read_ahead(cx)) {
                    Ok(read) => left = left.saturating_sub(read as u64),
                    Err(_) => break,
                }
                inner.ahead.clear();
                inner.taken = 0;
            }
            Poll::Ready(())
        })
        .await;
    }
}

impl Read for ClientIo {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        mut cursor: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        let inner = &mut *self.inner.lock();
        let waiting = inner.ahead.len() - inner.taken;
        let read = if waiting > 0 {
            let n = waiting.min(cursor.remaining());
            cursor.put_slice(&inner.ahead[inner.taken..inner.taken + n]);
            inner.taken += n;
            if inner.taken == inner.ahead.len() {
                // Given back whole: an idle connection keeps no buffer.
                inner.ahead = Vec::new();
                inner.taken = 0;
            }
            n
        } else if let Some(error) = inner.failed.take() {
            return Poll::Ready(Err(error));
        } else if inner.ended {
            0
        } else {
            ready!(poll_read_into(&mut inner.stream, cx, cursor))?
        };
        if read == 0 {
            inner.ended = true;
        } else if inner.http1 && inner.active == 0 && inner.head_since.is_none() {
            inner.head_since = Some(Instant::now());
        }
        Poll::Ready(Ok(()))
    }
}

/// Reads from the socket straight into the server's buffer, and says how much.
fn poll_read_into(
    stream: &mut TcpStream,
    cx: &mut Context<'_>,
    cursor: ReadBufCursor<'_>,
) -> Poll<io::Result<usize>> {
    // hyper-util's adapter knows how to fill hyper's cursor but not how much it
    // filled; the counter below it does.
    let mut counted = Counted { stream, read: 0 };
    ready!(Pin::new(&mut hyper_util::rt::TokioIo::new(&mut counted)).poll_read(cx, cursor))?;
    Poll::Ready(Ok(counted.read))
}

struct Counted<'a> {
    stream: &'a mut TcpStream,
    read: usize,
}

impl AsyncRead for Counted<'_> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        ready!(Pin::new(&mut *self.stream).poll_read(cx, buf))?;
        self.read = buf.filled().len() - before;
        Poll::Ready(Ok(()))
    }
}

impl Write for ClientIo {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let inner = &mut *self.inner.lock();
        let written = Pin::new(&mut inner.stream).poll_write(cx, buf);
        inner.wrote(written)
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        // A TCP socket has no buffer of its own to flush.
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner.lock().stream).poll_shutdown(cx)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let inner = &mut *self.inner.lock();
        let written = Pin::new(&mut inner.stream).poll_write_vectored(cx, bufs);
        inner.wrote(written)
    }
}

impl std::fmt::Debug for Watch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Watch").field("half_close", &self.half_close).finish_non_exhaustive()
    }
}

#[cfg(test)]
#[path = "downstream_tests.rs"]
mod tests;
