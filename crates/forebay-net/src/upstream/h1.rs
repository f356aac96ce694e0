//! HTTP/1.1 to an engine: one request at a time on each connection.

use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::Bytes;
use forebay_metrics::EndpointMetrics;
use http::{HeaderMap, Request};
use http_body::Body as _;
use hyper::body::Incoming;
use hyper::client::conn::http1::{self, Connection, SendRequest};
use hyper_util::rt::TokioIo;
use tokio::time::Instant;

use super::error::{AnswerError, SendError, SendErrorKind};
use super::socket::SharedSocket;
use super::{Answer, Kind, RequestBody, Upstream, answer};

/// The largest answer head that is read.
const MAX_HEAD: usize = 64 << 10;

/// A connection and its driver, polled together.
struct Wire {
    sender: SendRequest<RequestBody>,
    connection: Connection<TokioIo<SharedSocket>, RequestBody>,
    /// The connection's own socket, to look at past the runtime's idea of it.
    socket: SharedSocket,
    /// The driver has ended; it must not be polled again.
    over: bool,
    /// The life of the endpoint in which it was made.
    life: u64,
    /// Not the upstream itself: its idle list owns wires.
    metrics: EndpointMetrics,
}

impl Wire {
    fn drive(&mut self, cx: &mut Context<'_>) {
        if !self.over && Pin::new(&mut self.connection).poll(cx).is_ready() {
            // An error also reaches the request or the body, where it is reported.
            self.over = true;
        }
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        self.metrics.connections_open().dec();
    }
}

/// A connection that waits for its next request.
pub(super) struct Idle {
    wire: Box<Wire>,
    since: Instant,
}

impl std::fmt::Debug for Idle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Idle").field("since", &self.since).finish_non_exhaustive()
    }
}

impl Idle {
    /// The life of the endpoint in which it was made.
    pub(super) fn life(&self) -> u64 {
        self.wire.life
    }

    /// False when it was closed by the engine or is unused for too long.
    pub(super) fn is_usable(&mut self, now: Instant, limit: Duration) -> bool {
        if now.saturating_duration_since(self.since) >= limit {
            return false;
        }
        // The runtime hears of a close only when it next waits for events; an
        // engine that closes after each answer is faster than that.
        if !self.wire.socket.is_quiet() {
            return false;
        }
        self.wire.drive(&mut Context::from_waker(Waker::noop()));
        !self.wire.over && self.wire.sender.is_ready()
    }
}

pub(super) async fn send(
    upstream: &Arc<Upstream>,
    worker: usize,
    mut request: Box<Request<RequestBody>>,
) -> Result<Answer, SendError> {
    // A reused connection may close under our hands; each such loss uses one
    // up, and a fresh connection that cannot take the request is an error.
    while let Some(idle) = upstream.take_idle(worker) {
        match exchange(upstream, idle.wire, worker, request).await {
            Err(SendError { kind: SendErrorKind::Unsent, request: Some(back), .. }) => request = back,
            result => return result,
        }
    }
    // Boxed: dialling is rare, and its state need not be in every request's.
    let wire = match Box::pin(open(upstream)).await {
        Ok(wire) => wire,
        Err((kind, message)) => return Err(SendError::new(kind, message, Some(*request))),
    };
    exchange(upstream, wire, worker, request).await
}

async fn open(upstream: &Arc<Upstream>) -> Result<Box<Wire>, (SendErrorKind, String)> {
    let (stream, life) = upstream.dial_alive().await?;
    let socket = SharedSocket::new(stream);
    let (sender, connection) = http1::Builder::new()
        .max_header_size(MAX_HEAD)
        .handshake(TokioIo::new(socket.clone()))
        .await
        .map_err(|error| (SendErrorKind::Connect, error.to_string()))?;
    upstream.metrics.connections_open().inc();
    Ok(Box::new(Wire { sender, connection, socket, over: false, life, metrics: upstream.metrics.clone() }))
}

async fn exchange(
    upstream: &Arc<Upstream>,
    mut wire: Box<Wire>,
    worker: usize,
    request: Box<Request<RequestBody>>,
) -> Result<Answer, SendError> {
    let mut response = pin!(wire.sender.try_send_request(*request));
    let result = std::future::poll_fn(|cx| {
        wire.drive(cx);
        match response.as_mut().poll(cx) {
            Poll::Ready(result) => Poll::Ready(Some(result)),
            // Without its driver the answer can never come.
            Poll::Pending if wire.over => Poll::Ready(None),
            Poll::Pending => Poll::Pending,
        }
    })
    .await;
    match result {
        Some(Ok(response)) => Ok(answer(response, |incoming| {
            Kind::H1(Body {
                incoming,
                wire: Some(wire),
                upstream: Arc::clone(upstream),
                worker,
                ended: false,
                trailers: None,
            })
        })),
        Some(Err(mut error)) => {
            let request = error.take_message();
            Err(SendError::from_hyper(error.error(), request))
        }
        None => Err(SendError::new(SendErrorKind::Reset, "the connection was closed", None)),
    }
}

/// The body of an answer and the connection it comes over.
pub(super) struct Body {
    incoming: Incoming,
    /// Given back to the pool at the end; dropped, and so closed, before it.
    wire: Option<Box<Wire>>,
    upstream: Arc<Upstream>,
    worker: usize,
    ended: bool,
    pub(super) trailers: Option<Box<HeaderMap>>,
}

impl Body {
    pub(super) fn poll_data(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, AnswerError>>> {
        loop {
            if let Some(wire) = &mut self.wire {
                wire.drive(cx);
            }
            match Pin::new(&mut self.incoming).poll_frame(cx) {
                Poll::Ready(Some(Ok(frame))) => match frame.into_data() {
                    Ok(data) if !data.is_empty() => return Poll::Ready(Some(Ok(data))),
                    Ok(_) => {}
                    Err(frame) => self.trailers = frame.into_trailers().ok().map(Box::new),
                },
                Poll::Ready(Some(Err(error))) => {
                    self.wire = None;
                    return Poll::Ready(Some(Err(AnswerError::from_hyper(&error))));
                }
                Poll::Ready(None) => {
                    self.finish();
                    return Poll::Ready(None);
                }
                Poll::Pending => return Poll::Pending,
            }
        }
    }

    pub(super) fn is_end(&self) -> bool {
        self.ended || self.incoming.is_end_stream()
    }

    pub(super) fn exact_length(&self) -> Option<u64> {
        self.incoming.size_hint().exact()
    }

    /// The answer is whole: the connection can take another request.
    fn finish(&mut self) {
        self.ended = true;
        let Some(mut wire) = self.wire.take() else { return };
        // The driver must see the end of the answer before it is ready again.
        wire.drive(&mut Context::from_waker(Waker::noop()));
        if !wire.over && wire.sender.is_ready() {
            self.upstream.put_idle(self.worker, Idle { wire, since: Instant::now() });
        }
    }
}

impl Drop for Body {
    fn drop(&mut self) {
        // An answer without a body ends without being polled.
        if !self.ended && self.incoming.is_end_stream() {
            self.finish();
        }
    }
}
