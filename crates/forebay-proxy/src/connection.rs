//! One client connection, from its first byte to its last.

use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};
use std::time::Duration;

use forebay_config::Limits;
use forebay_net::{ClientIo, Preface, Watch};
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::time::{Instant, Sleep, sleep_until, timeout};

use crate::handle::{Front, handle};
use crate::proxy::{DrainPhase, Proxy};

/// How long what a refused client still sends is read away.
const LINGER: Duration = Duration::from_secs(5);
/// The same for a connection that is not let in, and how much is read of it.
const TURN_AWAY_LINGER: Duration = Duration::from_millis(500);
const TURN_AWAY_BYTES: u64 = 64 << 10;
/// How long an idle HTTP/2 connection gets to say goodbye.
const GOODBYE: Duration = Duration::from_secs(1);
/// A silent HTTP/2 client is asked for a sign of life this often.
const HTTP2_PING: Duration = Duration::from_secs(30);
/// Answer bytes that an HTTP/2 stream may hold for a client that does not read.
const HTTP2_SEND_BUFFER: usize = 64 << 10;

/// Counts an open connection for as long as it lives.
pub(crate) struct Open {
    proxy: Arc<Proxy>,
}

impl Open {
    /// None when there are too many.
    pub(crate) fn new(proxy: &Arc<Proxy>) -> Option<Open> {
        let before = proxy.connections.fetch_add(1, Ordering::Relaxed);
        let open = Open { proxy: Arc::clone(proxy) };
        proxy.metrics().connections().open();
        (before < proxy.settings().limits.connections).then_some(open)
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.proxy.connections.fetch_sub(1, Ordering::Relaxed);
        self.proxy.metrics().connections().close();
    }
}

/// Serves a connection until it ends.
pub(crate) async fn serve(proxy: Arc<Proxy>, worker: usize, stream: TcpStream, half_close: bool) {
    let Some(_open) = Open::new(&proxy) else {
        proxy.metrics().rejected(forebay_metrics::Reject::ConnectionLimit);
        Box::pin(turn_away(stream)).await;
        return;
    };
    // Tokens must leave at once. Failing to set it is no reason to refuse service.
    let _ = stream.set_nodelay(true);
    let limits = proxy.settings().limits;
    let (io, watch) = ClientIo::new(stream, half_close);
    let mut phase = proxy.subscribe();
    let preface = tokio::select! {
        preface = timeout(limits.header_read, watch.preface()) => preface,
        // Whoever has not said anything by then is owed nothing.
        _ = phase.wait_for(|phase| *phase == DrainPhase::Closing) => return,
    };
    let http1 = match preface {
        Ok(Ok(Preface::Http1)) => true,
        Ok(Ok(Preface::Http2)) => false,
        _ => return,
    };
    let front = Front { worker, proxy: Arc::clone(&proxy), watch: watch.clone(), http1 };
    let service = service_fn(move |request| handle(front.clone(), request));
    if http1 {
        let mut builder = http1::Builder::new();
        builder
            // The watch knows of half-closes; hyper must not end the request first.
            .half_close(true)
            // How many headers there may be is left at hyper's 100: any other
            // number makes it allocate two tables for each request, whose
            // memory the connection's buffers then inherit already touched
            // (6.5 KB more for each idle stream with 256).
            .max_header_size(limits.header_bytes);
        let connection = pin!(builder.serve_connection(io, service));
        drive(&proxy, connection, &watch, &limits, phase, http1).await;
    } else {
        let mut builder = http2::Builder::new(TokioExecutor::new());
        builder
            .timer(TokioTimer::new())
            .max_concurrent_streams(limits.max_streams)
            .max_header_list_size(u32::try_from(limits.header_bytes).unwrap_or(u32::MAX))
            .max_send_buf_size(HTTP2_SEND_BUFFER)
            .initial_stream_window_size(1 << 20)
            .initial_connection_window_size(8 << 20)
            .keep_alive_interval(HTTP2_PING);
        // Boxed: more than twice the size of an HTTP/1 connection, whose task
        // would have to be as large.
        let mut connection = Box::pin(builder.serve_connection(io, service));
        drive(&proxy, connection.as_mut(), &watch, &limits, phase, http1).await;
    }
    let _ = timeout(LINGER, watch.linger(limits.body)).await;
}

/// hyper's two kinds of server connection.
trait Connection: Future<Output = hyper::Result<()>> {
    fn shut_down(self: Pin<&mut Self>);
}

impl<S> Connection for http1::Connection<ClientIo, S>
where
    S: hyper::service::HttpService<hyper::body::Incoming>,
    S::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    S::ResBody: http_body::Body + 'static,
    <S::ResBody as http_body::Body>::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    fn shut_down(self: Pin<&mut Self>) {
        self.graceful_shutdown();
    }
}

impl<S, E> Connection for http2::Connection<ClientIo, S, E>
where
    S: hyper::service::HttpService<hyper::body::Incoming>,
    S::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    S::ResBody: http_body::Body + 'static,
    <S::ResBody as http_body::Body>::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    E: hyper::rt::bounds::Http2ServerConnExec<S::Future, S::ResBody>,
{
    fn shut_down(self: Pin<&mut Self>) {
        self.graceful_shutdown();
    }
}

/// Runs a connection until it ends by itself, its client is gone, it is idle
/// for too long, or the drain closes it.
async fn drive<C: Connection>(
    proxy: &Proxy,
    mut connection: Pin<&mut C>,
    watch: &Watch,
    limits: &Limits,
    mut phase: watch::Receiver<DrainPhase>,
    http1: bool,
) {
    let mut deadline = Deadline { sleep: None };
    loop {
        let step = std::future::poll_fn(|cx| {
            if let Poll::Ready(result) = connection.as_mut().poll(cx) {
                return Poll::Ready(Step::Over(result.err()));
            }
            if watch.poll_gone(cx).is_ready() {
                return Poll::Ready(Step::Over(None));
            }
            deadline.poll(cx, watch.deadline(limits.header_read, limits.client_idle)).map(|()| Step::Expired)
        });
        tokio::select! {
            biased;
            step = step => {
                match step {
                    Step::Over(Some(error)) => count_refused_head(proxy, &error),
                    // An idle HTTP/2 client is told, so that a request it sends
                    // at this moment is known not to have been read.
                    Step::Expired if !http1 => {
                        connection.as_mut().shut_down();
                        let _ = timeout(GOODBYE, connection).await;
                    }
                    _ => {}
                }
                return;
            }
            changed = phase.changed() => {
                if changed.is_err() {
                    return;
                }
                let now = *phase.borrow_and_update();
                // HTTP/1 answers say it themselves while new requests are still
                // welcome; HTTP/2 has GOAWAY for it.
                if now == DrainPhase::Closing || !http1 {
                    connection.as_mut().shut_down();
                }
            }
        }
    }
}

/// Why a connection was looked at.
enum Step {
    /// It has ended, or its client is gone.
    Over(Option<hyper::Error>),
    /// A limit was reached.
    Expired,
}

/// hyper answers a head that it cannot read, or that is too large, by itself;
/// it is counted here. Any other error says no more than that the connection is
/// over: each request it carried has been settled by being dropped.
fn count_refused_head(proxy: &Proxy, error: &hyper::Error) {
    let (code, reject) = if error.is_parse_too_large() {
        (431, forebay_metrics::Reject::HeadersTooLarge)
    } else if error.is_parse() {
        (400, forebay_metrics::Reject::BadRequest)
    } else {
        return;
    };
    proxy.metrics().rejected(reject);
    proxy.unrouted().request(code, forebay_metrics::OutcomeLabel::ClientError, Duration::ZERO);
}

/// A timer that is set once and moved only when it would fire too late, or has
/// fired too early: a request costs no timer.
struct Deadline {
    sleep: Option<Pin<Box<Sleep>>>,
}

impl Deadline {
    fn poll(&mut self, cx: &mut Context<'_>, at: Option<Instant>) -> Poll<()> {
        let Some(at) = at else { return Poll::Pending };
        loop {
            match &mut self.sleep {
                Some(sleep) if sleep.deadline() <= at => {
                    if sleep.as_mut().poll(cx).is_pending() {
                        return Poll::Pending;
                    }
                    if Instant::now() >= at {
                        return Poll::Ready(());
                    }
                    sleep.as_mut().reset(at);
                }
                Some(sleep) => sleep.as_mut().reset(at),
                None => self.sleep = Some(Box::pin(sleep_until(at))),
            }
        }
    }
}

/// One connection too many: says so and closes.
async fn turn_away(stream: TcpStream) {
    let body = forebay_wire::error::openai(
        "The gateway is at its limit of connections. Try again later.",
        "service_unavailable_error",
        None,
        Some("gateway_at_limit"),
    );
    let mut answer = format!(
        "HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/json\r\nretry-after: 1\r\n\
         connection: close\r\ncontent-length: {}\r\n\r\n",
        body.len()
    )
    .into_bytes();
    answer.extend_from_slice(&body);
    // One try: a socket that was just opened has room for it.
    let _ = stream.try_write(&answer);
    // The request must be read away, or closing resets the connection under the answer.
    let (_io, watch) = ClientIo::new(stream, false);
    watch.set_linger();
    let _ = timeout(TURN_AWAY_LINGER, watch.linger(TURN_AWAY_BYTES)).await;
}
