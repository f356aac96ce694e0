//! Connections to one endpoint: HTTP/1.1 with a keep-alive pool, or HTTP/2 with
//! prior knowledge.
//!
//! An HTTP/1.1 connection is not a task. It is polled by whoever uses it, in
//! the same task that answers the client, so that a token costs no switch
//! between tasks; an idle one is polled at checkout and by the sweep, which is
//! when a close by the engine is found.

mod dial;
mod error;
mod h1;
mod h2;
mod life;
mod socket;

use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use forebay_metrics::EndpointMetrics;
use http::{HeaderMap, Request, Response};
use http_body_util::Full;
use parking_lot::Mutex;
use tokio::sync::Semaphore;
use tokio::time::Instant;

pub use error::{AnswerError, SendError, SendErrorKind};
use life::Life;

/// What a request to an engine carries.
pub type RequestBody = Full<Bytes>;

/// Unused connections kept per worker; above it the oldest are closed.
const MAX_IDLE: usize = 512;

/// Where and how to reach an endpoint.
#[derive(Clone, Debug)]
pub struct UpstreamOptions {
    /// A name to resolve at each dial, or an address; IPv6 without brackets, a
    /// zone after `%`.
    pub host: String,
    /// The port.
    pub port: u16,
    /// HTTP/2 with prior knowledge instead of HTTP/1.1.
    pub h2c: bool,
    /// HTTP/2 connections per worker at most.
    pub h2_connections: usize,
    /// Longest wait for a connection; none: as long as the system tries.
    pub connect_timeout: Option<Duration>,
    /// Dials under way at once at most.
    pub max_dials: usize,
    /// How long an unused connection is kept; below the engine's own limit
    /// (uvicorn: 5 s), so that a request does not race with its close.
    pub idle_timeout: Duration,
    /// How many workers use it; each has its own list of idle connections.
    pub workers: usize,
}

/// One endpoint's connections.
pub struct Upstream {
    options: UpstreamOptions,
    metrics: EndpointMetrics,
    dials: Semaphore,
    life: Life,
    idle: Vec<Mutex<Vec<h1::Idle>>>,
    h2: Vec<h2::Connections>,
}

/// An answer whose head has come.
pub struct Answer {
    /// Status and headers.
    pub head: http::response::Parts,
    /// The rest.
    pub body: AnswerBody,
}

/// The body of an answer. Dropping it before its end closes the HTTP/1.1
/// connection, or resets the HTTP/2 stream: the engine sees the cancellation.
pub struct AnswerBody {
    kind: Kind,
}

enum Kind {
    H1(h1::Body),
    H2(h2::Body),
}

impl AnswerBody {
    /// The next bytes; none at the end.
    ///
    /// # Errors
    /// The connection broke before the end.
    pub fn poll_data(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, AnswerError>>> {
        match &mut self.kind {
            Kind::H1(body) => body.poll_data(cx),
            Kind::H2(body) => body.poll_data(cx),
        }
    }

    /// True when it is known that nothing more will come.
    pub fn is_end(&self) -> bool {
        match &self.kind {
            Kind::H1(body) => body.is_end(),
            Kind::H2(body) => body.is_end(),
        }
    }

    /// What came after the end: fields that the engine knew only then. They are
    /// given once, and only when the end was seen.
    pub fn take_trailers(&mut self) -> Option<Box<HeaderMap>> {
        match &mut self.kind {
            Kind::H1(body) => body.trailers.take(),
            Kind::H2(body) => body.trailers.take(),
        }
    }

    /// Exact length, where the head stated one.
    pub fn exact_length(&self) -> Option<u64> {
        match &self.kind {
            Kind::H1(body) => body.exact_length(),
            Kind::H2(body) => body.exact_length(),
        }
    }
}

impl Upstream {
    /// No connection is made before the first request.
    pub fn new(options: UpstreamOptions, metrics: EndpointMetrics) -> Upstream {
        let workers = options.workers.max(1);
        Upstream {
            dials: Semaphore::new(options.max_dials.max(1)),
            life: Life::default(),
            idle: (0..workers).map(|_| Mutex::new(Vec::new())).collect(),
            h2: (0..workers).map(|_| h2::Connections::default()).collect(),
            options,
            metrics,
        }
    }

    /// The metrics of the endpoint.
    pub fn metrics(&self) -> &EndpointMetrics {
        &self.metrics
    }

    /// Sends a request and waits for the head of the answer, however long that
    /// takes; drop the future to cancel. For HTTP/1.1 the target must be in
    /// origin form with a `Host` header, for HTTP/2 in absolute form.
    ///
    /// # Errors
    /// See [`SendErrorKind`]; the request comes back when nothing of it was sent.
    pub async fn send(
        self: &Arc<Self>,
        worker: usize,
        request: Box<Request<RequestBody>>,
    ) -> Result<Answer, SendError> {
        if self.life.now().is_none() {
            let request = Some(*request);
            return Err(SendError::new(SendErrorKind::Unsent, "the endpoint is not in use", request));
        }
        if self.options.h2c {
            // Boxed: it is larger, and the usual request must not carry it along.
            Box::pin(h2::send(self, worker, *request)).await
        } else {
            h1::send(self, worker, request).await
        }
    }

    /// Nobody knows any more that the same server is there: connections made so
    /// far take no further request. What is under way on them goes on.
    pub fn renew(&self) {
        self.life.renew();
        self.drop_unused();
    }

    /// As [`Upstream::renew`], and nothing is sent until [`Upstream::open`]: a
    /// request that was picked before comes back as one that was not sent.
    pub fn close(&self) {
        if self.life.close() {
            self.drop_unused();
        }
    }

    /// Takes requests, over new connections when it was closed. One that was
    /// never closed is open.
    pub fn open(&self) {
        self.life.open();
    }

    fn drop_unused(&self) {
        // Closed outside the locks.
        let unused: Vec<_> = self.idle.iter().map(|list| std::mem::take(&mut *list.lock())).collect();
        self.h2.iter().for_each(|connections| connections.forget());
        drop(unused);
        self.metrics.connections_idle().set(self.idle_count());
    }

    /// True when it speaks HTTP/2.
    pub fn is_h2c(&self) -> bool {
        self.options.h2c
    }

    /// Closes connections that are unused for too long, or that the engine has
    /// closed. To be called by each worker about every second.
    pub fn sweep(&self, worker: usize) {
        let Some(idle) = self.idle.get(worker) else { return };
        let now = Instant::now();
        let mut dead = Vec::new();
        {
            let mut idle = idle.lock();
            let mut i = 0;
            while i < idle.len() {
                if idle[i].is_usable(now, self.options.idle_timeout) {
                    i += 1;
                } else {
                    dead.push(idle.swap_remove(i));
                }
            }
        }
        self.metrics.connections_idle().set(self.idle_count());
        // Closed outside the lock.
        drop(dead);
    }

    fn idle_count(&self) -> i64 {
        self.idle.iter().map(|list| list.lock().len() as i64).sum()
    }

    /// An idle connection of this worker that is still open, the newest first.
    ///
    /// Never one of a sibling's: its socket reports to the sibling's runtime. An
    /// event that comes there while it is read here can be lost, and it dies
    /// with that runtime when the sibling has drained.
    fn take_idle(&self, worker: usize) -> Option<h1::Idle> {
        let now = Instant::now();
        let list = self.idle.get(worker)?;
        loop {
            // Taken in a statement of its own: looking at it is done unlocked.
            let mut connection = list.lock().pop()?;
            if self.life.is(connection.life()) && connection.is_usable(now, self.options.idle_timeout) {
                return Some(connection);
            }
        }
    }

    fn put_idle(&self, worker: usize, connection: h1::Idle) {
        if !self.life.is(connection.life()) {
            return;
        }
        if let Some(list) = self.idle.get(worker) {
            let mut list = list.lock();
            if list.len() < MAX_IDLE {
                list.push(connection);
            }
        }
    }
}

impl std::fmt::Debug for Upstream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Upstream").field("options", &self.options).finish_non_exhaustive()
    }
}

fn answer<B>(response: Response<B>, kind: impl FnOnce(B) -> Kind) -> Answer {
    let (head, body) = response.into_parts();
    Answer { head, body: AnswerBody { kind: kind(body) } }
}

#[cfg(test)]
mod tests;
#[cfg(test)]
mod trailers_tests;
