//! HTTP/2 with prior knowledge to an engine: many requests on few connections.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Request};
use http_body::Body as _;
use hyper::body::Incoming;
use hyper::client::conn::http2::{self, SendRequest};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use parking_lot::Mutex;

use super::error::{AnswerError, SendError, SendErrorKind};
use super::{Answer, Kind, RequestBody, Upstream, answer};

/// What one stream may have under way unread. A slow client stops only its own
/// stream, because the connection's window holds that of very many.
const STREAM_WINDOW: u32 = 256 << 10;
/// The largest window HTTP/2 has is 2^31-1.
const CONNECTION_WINDOW: u32 = 1 << 30;
/// Streams on a connection before another connection is opened beside it.
const BUSY: usize = 32;
/// How often a request that no engine looked at takes another stream.
const MAX_ATTEMPTS: u32 = 8;
/// Streams opened before the engine has said how many it takes.
const FIRST_STREAMS: usize = 8;
/// A silent connection is asked for a sign of life this often.
const PING_EVERY: Duration = Duration::from_secs(20);

/// One worker's connections to one endpoint.
#[derive(Default, Debug)]
pub(super) struct Connections {
    open: Mutex<Vec<Shared>>,
    /// Held while dialling, so that a burst does not dial once per request.
    dialling: tokio::sync::Mutex<()>,
}

#[derive(Clone, Debug)]
struct Shared {
    sender: SendRequest<RequestBody>,
    streams: Arc<AtomicUsize>,
    /// The life of the endpoint in which it was made.
    life: u64,
}

/// Counts a stream for as long as it lives.
struct Stream(Arc<AtomicUsize>);

impl Stream {
    fn on(connection: &Shared) -> Stream {
        connection.streams.fetch_add(1, Ordering::Relaxed);
        Stream(Arc::clone(&connection.streams))
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Connections {
    /// None of them takes another stream; those that are open go on.
    pub(super) fn forget(&self) {
        let forgotten = std::mem::take(&mut *self.open.lock());
        drop(forgotten);
    }

    /// The connection with the fewest streams, unless another should be opened.
    fn choose(&self, max: usize, upstream: &Upstream) -> Option<Shared> {
        let mut open = self.open.lock();
        open.retain(|c| !c.sender.is_closed() && upstream.life.is(c.life));
        let best = open.iter().min_by_key(|c| c.streams.load(Ordering::Relaxed))?;
        let busy = best.streams.load(Ordering::Relaxed) >= BUSY;
        if busy && open.len() < max.max(1) { None } else { Some(best.clone()) }
    }
}

pub(super) async fn send(
    upstream: &Arc<Upstream>,
    worker: usize,
    mut request: Request<RequestBody>,
) -> Result<Answer, SendError> {
    let connections = &upstream.h2[worker % upstream.h2.len()];
    let max = upstream.options.h2_connections;
    // A connection may say goodbye between being chosen and being used; what
    // was not sent comes back and takes another.
    let mut attempts = 0;
    loop {
        // Only references to the body: kept for a stream that is refused.
        let copy = request.clone();
        let mut shared = match connections.choose(max, upstream) {
            Some(shared) => shared,
            None => {
                let _dialling = connections.dialling.lock().await;
                match connections.choose(max, upstream) {
                    Some(shared) => shared,
                    None => match open(upstream).await {
                        Ok(shared) => {
                            connections.open.lock().push(shared.clone());
                            shared
                        }
                        Err((kind, message)) => return Err(SendError::new(kind, message, Some(request))),
                    },
                }
            }
        };
        let stream = Stream::on(&shared);
        if shared.sender.ready().await.is_err() && attempts < MAX_ATTEMPTS {
            attempts += 1;
            continue;
        }
        match shared.sender.try_send_request(request).await {
            Ok(response) => {
                return Ok(answer(response, |incoming| {
                    Kind::H2(Body { incoming, _stream: stream, ended: false, trailers: None })
                }));
            }
            Err(mut error) => {
                let back = error.take_message().or_else(|| unprocessed(error.error()).then_some(copy));
                match back {
                    Some(back) if attempts < MAX_ATTEMPTS => {
                        attempts += 1;
                        request = back;
                    }
                    back => return Err(SendError::from_hyper(error.error(), back)),
                }
            }
        }
    }
}

/// True when the engine said that it did not look at the request: the stream
/// was refused, or came after its goodbye (RFC 9113 §8.7).
fn unprocessed(error: &hyper::Error) -> bool {
    use std::error::Error;
    let mut source = error.source();
    while let Some(cause) = source {
        if let Some(h2) = cause.downcast_ref::<h2::Error>() {
            return h2.reason() == Some(h2::Reason::REFUSED_STREAM)
                || (h2.is_go_away() && h2.is_remote() && h2.reason() == Some(h2::Reason::NO_ERROR));
        }
        source = cause.source();
    }
    false
}

async fn open(upstream: &Arc<Upstream>) -> Result<Shared, (SendErrorKind, String)> {
    let (stream, life) = upstream.dial_alive().await?;
    let (sender, connection) = http2::Builder::new(TokioExecutor::new())
        .timer(TokioTimer::new())
        .initial_max_send_streams(FIRST_STREAMS)
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .keep_alive_interval(PING_EVERY)
        .keep_alive_timeout(Duration::from_secs(10))
        .handshake(TokioIo::new(stream))
        .await
        .map_err(|error| (SendErrorKind::Connect, super::error::with_sources(&error)))?;
    upstream.metrics.connections_open().inc();
    let counted = Arc::clone(upstream);
    tokio::spawn(async move {
        // Its errors reach the streams, where they are reported.
        let _ = connection.await;
        counted.metrics.connections_open().dec();
    });
    Ok(Shared { sender, streams: Arc::new(AtomicUsize::new(0)), life })
}

/// The body of an answer on one stream.
pub(super) struct Body {
    incoming: Incoming,
    _stream: Stream,
    ended: bool,
    pub(super) trailers: Option<Box<HeaderMap>>,
}

impl Body {
    pub(super) fn poll_data(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, AnswerError>>> {
        loop {
            match ready!(Pin::new(&mut self.incoming).poll_frame(cx)) {
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(data) if !data.is_empty() => return Poll::Ready(Some(Ok(data))),
                    Ok(_) => {}
                    Err(frame) => self.trailers = frame.into_trailers().ok().map(Box::new),
                },
                Some(Err(error)) => return Poll::Ready(Some(Err(AnswerError::from_hyper(&error)))),
                None => {
                    self.ended = true;
                    return Poll::Ready(None);
                }
            }
        }
    }

    pub(super) fn is_end(&self) -> bool {
        self.ended || self.incoming.is_end_stream()
    }

    pub(super) fn exact_length(&self) -> Option<u64> {
        self.incoming.size_hint().exact()
    }
}
