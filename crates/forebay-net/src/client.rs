//! The one HTTP/1.1 client of the program: probes, scrapes, checkers and the
//! load generators send through it.
//!
//! It is `hyper::client::conn::http1` with a small keep-alive pool. What it
//! promises beyond that:
//!
//! - a reused connection that dies before the first response byte is replaced
//!   by a fresh one, once: the server closed it while it was idle, and the
//!   request could not know;
//! - a response body that is dropped before its end closes the connection at
//!   once, so that the server sees the cancellation;
//! - every error names the address it happened at.
//!
//! A connection is driven by a task on the runtime that dialled it, so one
//! `Client` should be used from one runtime.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::uri::{Authority, Scheme};
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, Uri, header};
use http_body::{Frame, SizeHint};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::task::AbortHandle;
use tokio::time::{Instant, timeout};

#[path = "client_h2c.rs"]
mod h2c;

pub use h2c::{fetch_h2c, get_h2c, post_json_h2c};

#[cfg(test)]
#[path = "client_tests.rs"]
mod tests;

/// Limits of a [`Client`].
#[derive(Clone, Copy, Debug)]
pub struct ClientOptions {
    /// Longest wait for name resolution and the TCP handshake together.
    pub connect_timeout: Duration,
    /// How long an unused connection is kept. It should stay below the
    /// server's own limit (5 s for engines behind uvicorn), or every reuse
    /// after a pause races with the server's close.
    pub idle_timeout: Duration,
    /// Unused connections kept for one host and port; more are closed.
    pub max_idle_per_host: usize,
    /// Size of a connection's read buffer in bytes, at least 8 KiB. It grows up
    /// to twice that while answers are long, and is kept as long as the
    /// connection is; a longer response head is refused.
    pub read_buffer: usize,
}

/// The least that hyper reads with.
const LEAST_READ_BUFFER: usize = 8 << 10;

impl Default for ClientOptions {
    fn default() -> ClientOptions {
        ClientOptions {
            connect_timeout: Duration::from_secs(2),
            idle_timeout: Duration::from_secs(4),
            max_idle_per_host: 64,
            read_buffer: 400 << 10,
        }
    }
}

/// What went wrong, and with which server.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The URL cannot be used.
    #[error("cannot use the URL \"{url}\": {why}")]
    Url {
        /// The URL as it was given.
        url: String,
        /// What is wrong with it.
        why: &'static str,
    },
    /// No connection: refused, unreachable, or the name is unknown.
    #[error("cannot connect to {address}: {source}")]
    Connect {
        /// Host and port.
        address: Arc<str>,
        /// The system's reason.
        source: std::io::Error,
    },
    /// A step took longer than it may.
    #[error("{address}: no {what} within {after:?}")]
    Timeout {
        /// Host and port.
        address: Arc<str>,
        /// What was waited for.
        what: &'static str,
        /// The limit.
        after: Duration,
    },
    /// The connection broke, or the server did not speak HTTP/1.1.
    #[error("{address}: {during} failed: {source}")]
    Exchange {
        /// Host and port.
        address: Arc<str>,
        /// Which part of the exchange.
        during: &'static str,
        /// The reason.
        source: hyper::Error,
    },
    /// The body is longer than the caller was ready to keep.
    #[error("{address}: the body is longer than {limit} bytes")]
    BodyTooLong {
        /// Host and port.
        address: Arc<str>,
        /// The caller's limit.
        limit: usize,
    },
}

/// An HTTP/1.1 client with a keep-alive pool; clones share the pool.
#[derive(Clone)]
pub struct Client {
    pool: Arc<Pool>,
}

impl Client {
    /// A client with no connections yet.
    pub fn new(options: ClientOptions) -> Client {
        Client { pool: Arc::new(Pool { options, idle: Mutex::default() }) }
    }

    /// Sends a request to its absolute `http://` URL and gives the response as
    /// soon as its head is there.
    ///
    /// `Host` is taken from the URL unless the request has one. There is no
    /// time limit except for connecting: the caller drops the future, or the
    /// body, and the connection closes.
    ///
    /// # Errors
    /// A URL that is not absolute `http://`, no connection, or a connection
    /// that broke before the head was complete.
    pub async fn send(&self, request: Request<Full<Bytes>>) -> Result<Response<Body>, ClientError> {
        let target = Target::of(request.uri())?;
        let mut request = request;
        *request.uri_mut() = target.path.clone();
        request.headers_mut().entry(header::HOST).or_insert(target.host_header.clone());
        *request.version_mut() = http::Version::HTTP_11;

        if let Some(connection) = self.pool.take(&target.address) {
            let before = connection.received.load(Ordering::Acquire);
            let received = Arc::clone(&connection.received);
            match exchange(&self.pool, connection, request.clone()).await {
                Err(ClientError::Exchange { .. }) if received.load(Ordering::Acquire) == before => {}
                result => return result,
            }
        }
        let connection = self.pool.dial(&target).await?;
        exchange(&self.pool, connection, request).await
    }

    /// Fetches `url` whole.
    ///
    /// `timeout` is the limit for everything together; `max_body` is in bytes.
    ///
    /// # Errors
    /// As [`Client::send`]; the time limit; a body longer than `max_body`.
    pub async fn get(
        &self,
        url: &str,
        timeout: Duration,
        max_body: usize,
    ) -> Result<(StatusCode, HeaderMap, Bytes), ClientError> {
        self.whole(url, Request::default(), timeout, max_body).await
    }

    /// Posts JSON to `url` and fetches the answer whole, as [`Client::get`] does.
    ///
    /// # Errors
    /// As [`Client::get`].
    pub async fn post_json(
        &self,
        url: &str,
        body: Bytes,
        timeout: Duration,
        max_body: usize,
    ) -> Result<(StatusCode, HeaderMap, Bytes), ClientError> {
        self.whole(url, json_post(body), timeout, max_body).await
    }

    async fn whole(
        &self,
        url: &str,
        mut request: Request<Full<Bytes>>,
        timeout: Duration,
        max_body: usize,
    ) -> Result<(StatusCode, HeaderMap, Bytes), ClientError> {
        *request.uri_mut() = url.parse().map_err(|_| bad_url(url, "it does not parse"))?;
        self.fetch(request, timeout, max_body).await
    }

    /// Sends a request to its absolute URL and fetches the answer whole, as
    /// [`Client::get`] does.
    ///
    /// # Errors
    /// As [`Client::get`].
    pub async fn fetch(
        &self,
        request: Request<Full<Bytes>>,
        timeout: Duration,
        max_body: usize,
    ) -> Result<(StatusCode, HeaderMap, Bytes), ClientError> {
        let address = Target::of(request.uri())?.address;
        let fetch = async {
            let response = self.send(request).await?;
            let (head, body) = response.into_parts();
            let body = body.read_whole(max_body).await?;
            Ok((head.status, head.headers, body))
        };
        match tokio::time::timeout(timeout, fetch).await {
            Ok(result) => result,
            Err(_) => Err(ClientError::Timeout { address, what: "complete answer", after: timeout }),
        }
    }
}

/// A `POST` of JSON, without an address yet.
pub fn json_post(body: Bytes) -> Request<Full<Bytes>> {
    let mut request = Request::new(Full::new(body));
    *request.method_mut() = Method::POST;
    request.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    request
}

async fn exchange(
    pool: &Arc<Pool>,
    mut connection: Connection,
    request: Request<Full<Bytes>>,
) -> Result<Response<Body>, ClientError> {
    let response = connection.sender.send_request(request).await;
    let address = Arc::clone(&connection.address);
    match response {
        Ok(response) => {
            let (head, incoming) = response.into_parts();
            let mut body = Body { incoming, address, lease: Some((connection, Arc::downgrade(pool))) };
            if http_body::Body::is_end_stream(&body.incoming) {
                body.give_back();
            }
            Ok(Response::from_parts(head, body))
        }
        Err(source) => Err(ClientError::Exchange { address, during: "the request", source }),
    }
}

/// Where a request goes, taken from its URL.
struct Target {
    /// Host as the resolver wants it: an IPv6 literal without brackets.
    host: String,
    port: u16,
    /// Host and port as shown and as the pool's key.
    address: Arc<str>,
    host_header: HeaderValue,
    /// Path and query, the form a server expects.
    path: Uri,
}

impl Target {
    fn of(uri: &Uri) -> Result<Target, ClientError> {
        let fail = |why| bad_url(&uri.to_string(), why);
        match uri.scheme() {
            Some(scheme) if *scheme == Scheme::HTTP => {}
            Some(scheme) if *scheme == Scheme::HTTPS => {
                return Err(fail("https is not supported here, use http"));
            }
            Some(_) => return Err(fail("the scheme must be http")),
            None => return Err(fail("it must be absolute, such as http://host:8000/path")),
        }
        let authority: &Authority = uri.authority().ok_or_else(|| fail("it has no host"))?;
        if authority.as_str().contains('@') {
            return Err(fail("a user name or password in a URL is not supported"));
        }
        let shown = authority.host();
        let host = shown.strip_prefix('[').and_then(|h| h.strip_suffix(']')).unwrap_or(shown);
        if host.is_empty() {
            return Err(fail("it has no host"));
        }
        // `port_u16` is also None for a port that is no number: tell them apart.
        if authority.port().is_none() && authority.as_str() != shown {
            return Err(fail("the port must be a number from 1 to 65535"));
        }
        let port = authority.port_u16().unwrap_or(80);
        let host_header =
            HeaderValue::from_str(authority.as_str()).map_err(|_| fail("the host is not valid"))?;
        let path = uri.path_and_query().map_or("/", |p| p.as_str());
        let path = path.parse().map_err(|_| fail("the path is not valid"))?;
        Ok(Target {
            host: host.to_owned(),
            port,
            address: format!("{shown}:{port}").into(),
            host_header,
            path,
        })
    }
}

fn bad_url(url: &str, why: &'static str) -> ClientError {
    ClientError::Url { url: url.to_owned(), why }
}

/// One connection that nobody else is using. Dropping it closes it at once.
struct Connection {
    sender: SendRequest<Full<Bytes>>,
    driver: AbortHandle,
    address: Arc<str>,
    /// Bytes received over its life.
    received: Arc<AtomicU64>,
}

impl Drop for Connection {
    fn drop(&mut self) {
        // Without this a dropped body would let hyper read on for a while.
        self.driver.abort();
    }
}

struct Pool {
    options: ClientOptions,
    idle: Mutex<Idle>,
}

#[derive(Default)]
struct Idle {
    /// By address; the most recently used last.
    by_address: BTreeMap<Arc<str>, Vec<Unused>>,
    /// When hosts that are asked for no more were last looked for.
    swept: Option<Instant>,
}

struct Unused {
    connection: Connection,
    since: Instant,
}

impl Pool {
    fn take(&self, address: &str) -> Option<Connection> {
        let mut idle = self.idle.lock();
        let stack = idle.by_address.get_mut(address)?;
        while let Some(Unused { connection, since }) = stack.pop() {
            if since.elapsed() >= self.options.idle_timeout {
                stack.clear(); // the rest has been idle for longer
            } else if connection.sender.is_ready() {
                return Some(connection);
            }
        }
        None
    }

    fn put(&self, connection: Connection) {
        if connection.sender.is_closed() {
            return;
        }
        let limit = self.options.idle_timeout;
        let mut idle = self.idle.lock();
        // Hosts come and go: sweep all of them, but not with every put.
        if idle.swept.is_none_or(|at| at.elapsed() >= limit) {
            idle.swept = Some(Instant::now());
            idle.by_address.retain(|_, stack| {
                stack.retain(|u| u.since.elapsed() < limit && !u.connection.sender.is_closed());
                !stack.is_empty()
            });
        }
        let stack = idle.by_address.entry(Arc::clone(&connection.address)).or_default();
        if stack.len() >= self.options.max_idle_per_host {
            stack.retain(|u| u.since.elapsed() < limit && !u.connection.sender.is_closed());
        }
        if stack.len() < self.options.max_idle_per_host {
            stack.push(Unused { connection, since: Instant::now() });
        }
    }

    async fn dial(&self, target: &Target) -> Result<Connection, ClientError> {
        let address = || Arc::clone(&target.address);
        let after = self.options.connect_timeout;
        let stream = timeout(after, TcpStream::connect((target.host.as_str(), target.port)))
            .await
            .map_err(|_| ClientError::Timeout { address: address(), what: "connection", after })?
            .and_then(|stream| stream.set_nodelay(true).map(|()| stream))
            .map_err(|source| ClientError::Connect { address: address(), source })?;
        let received = Arc::new(AtomicU64::new(0));
        let io = TokioIo::new(Counted { stream, received: Arc::clone(&received) });
        let mut builder = http1::Builder::new();
        builder.max_buf_size(self.options.read_buffer.max(LEAST_READ_BUFFER));
        let (sender, connection) = builder.handshake(io).await.map_err(|source| ClientError::Exchange {
            address: address(),
            during: "setting up the connection",
            source,
        })?;
        // Its error, if any, reaches the request that is using it.
        let driver = tokio::spawn(async move { drop(connection.await) }).abort_handle();
        Ok(Connection { sender, driver, address: address(), received })
    }
}

/// A response body.
///
/// Read to its end, its connection goes back to the pool; dropped earlier, the
/// connection is closed at once.
pub struct Body {
    incoming: Incoming,
    address: Arc<str>,
    lease: Option<(Connection, Weak<Pool>)>,
}

impl Body {
    /// The host and port that answer.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Reads the body to its end, at most `limit` bytes of it.
    ///
    /// # Errors
    /// The connection broke, or the body is longer than `limit`.
    pub async fn read_whole(mut self, limit: usize) -> Result<Bytes, ClientError> {
        let mut whole = BytesMut::new();
        while let Some(frame) = self.frame().await {
            if let Ok(data) = frame?.into_data() {
                if data.len() > limit - whole.len() {
                    return Err(ClientError::BodyTooLong { address: self.address.clone(), limit });
                }
                whole.extend_from_slice(&data);
            }
        }
        Ok(whole.freeze())
    }

    fn give_back(&mut self) {
        let Some((mut connection, pool)) = self.lease.take() else { return };
        let Some(pool) = pool.upgrade() else { return };
        if connection.sender.is_ready() {
            pool.put(connection);
        } else if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            // The driver has to run once more before it takes a request.
            let limit = pool.options.idle_timeout;
            runtime.spawn(async move {
                if let Ok(Ok(())) = timeout(limit, connection.sender.ready()).await {
                    pool.put(connection);
                }
            });
        }
    }
}

impl http_body::Body for Body {
    type Data = Bytes;
    type Error = ClientError;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, ClientError>>> {
        let this = self.get_mut();
        match ready!(Pin::new(&mut this.incoming).poll_frame(cx)) {
            Some(Ok(frame)) => {
                if this.incoming.is_end_stream() {
                    this.give_back();
                }
                Poll::Ready(Some(Ok(frame)))
            }
            Some(Err(source)) => {
                this.lease = None;
                let address = Arc::clone(&this.address);
                Poll::Ready(Some(Err(ClientError::Exchange {
                    address,
                    during: "reading the answer",
                    source,
                })))
            }
            None => {
                this.give_back();
                Poll::Ready(None)
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.incoming.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.incoming.size_hint()
    }
}

/// A stream that counts what it receives: whether anything came back decides
/// whether a request may be sent again.
struct Counted {
    stream: TcpStream,
    received: Arc<AtomicU64>,
}

impl AsyncRead for Counted {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        let before = buf.filled().len();
        let result = Pin::new(&mut self.stream).poll_read(cx, buf);
        self.received.fetch_add((buf.filled().len() - before) as u64, Ordering::Release);
        result
    }
}

impl AsyncWrite for Counted {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<std::io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, buf)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[std::io::IoSlice<'_>],
    ) -> Poll<std::io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
