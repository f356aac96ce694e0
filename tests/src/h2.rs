//! HTTP/2 with prior knowledge, both ways, on hyper.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::http2::SendRequest;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use parking_lot::Mutex;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::{Instant, timeout};

use crate::LIMIT;

/// One HTTP/2 connection of a client. Requests in flight end with
/// `RST_STREAM(CANCEL)` when their response is dropped.
pub struct H2Client {
    sender: SendRequest<Full<Bytes>>,
    task: JoinHandle<()>,
}

impl H2Client {
    /// Connects with prior knowledge.
    pub async fn connect(addr: SocketAddr) -> H2Client {
        let stream = TcpStream::connect(addr).await.unwrap();
        stream.set_nodelay(true).unwrap();
        let (sender, connection) =
            timeout(LIMIT, hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream)))
                .await
                .expect("no HTTP/2 handshake")
                .unwrap();
        let task = tokio::spawn(async move {
            let _ = connection.await;
        });
        H2Client { sender, task }
    }

    /// Sends a JSON `POST` and gives the response once its head is there.
    pub async fn post(&self, target: &str, body: &[u8]) -> Result<Response<Incoming>, hyper::Error> {
        let request = Request::post(format!("http://gw.example{target}"))
            .header("content-type", "application/json")
            .body(Full::new(Bytes::copy_from_slice(body)))
            .unwrap();
        self.sender.clone().send_request(request).await
    }

    /// Sends a `GET`.
    pub async fn get(&self, target: &str) -> Result<Response<Incoming>, hyper::Error> {
        let request =
            Request::get(format!("http://gw.example{target}")).body(Full::new(Bytes::new())).unwrap();
        self.sender.clone().send_request(request).await
    }

    /// Waits for the end of the connection; false when the limit came first.
    pub async fn closed_within(mut self, limit: Duration) -> bool {
        timeout(limit, &mut self.task).await.is_ok()
    }
}

impl Drop for H2Client {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// The whole body of a response; the error when it was cut.
pub async fn body(response: Response<Incoming>) -> Result<Bytes, hyper::Error> {
    timeout(LIMIT, response.into_body().collect())
        .await
        .expect("the body takes too long")
        .map(|b| b.to_bytes())
}

/// The next data frame of a body; none at its end.
pub async fn frame(body: &mut Incoming) -> Option<Result<Bytes, hyper::Error>> {
    loop {
        match timeout(LIMIT, body.frame()).await.expect("no frame within the limit")? {
            Ok(frame) => {
                if let Ok(data) = frame.into_data() {
                    return Some(Ok(data));
                }
            }
            Err(e) => return Some(Err(e)),
        }
    }
}

/// What an HTTP/2 backend got.
#[derive(Clone, Debug)]
pub struct H2RequestLog {
    /// The connection it came on, from 0.
    pub connection: usize,
    /// `:path`.
    pub target: String,
    /// `:authority`, as hyper shows it in the URI.
    pub authority: String,
    /// The fields.
    pub headers: http::HeaderMap,
    /// The body.
    pub body: Bytes,
}

/// How an HTTP/2 backend answers.
#[derive(Clone, Debug)]
pub struct H2Answer {
    /// The content type.
    pub content_type: &'static str,
    /// Data frames, each after its pause.
    pub frames: Vec<(Duration, Vec<u8>)>,
    /// Keep the stream open after the last frame until the peer resets it.
    pub hang: bool,
}

type H2Handler = dyn Fn(&H2RequestLog) -> H2Answer + Send + Sync;

struct H2Shared {
    handler: Box<H2Handler>,
    requests: Mutex<Vec<H2RequestLog>>,
    cancelled: Mutex<Vec<Instant>>,
    connections: AtomicUsize,
}

/// A backend that speaks only HTTP/2 with prior knowledge.
pub struct H2Backend {
    shared: Arc<H2Shared>,
    addr: SocketAddr,
    task: JoinHandle<()>,
}

impl H2Backend {
    /// Listens on a free port; `max_streams` is what its SETTINGS allow per connection.
    pub async fn start(
        max_streams: u32,
        handler: impl Fn(&H2RequestLog) -> H2Answer + Send + Sync + 'static,
    ) -> H2Backend {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let addr = listener.local_addr().unwrap();
        let shared = Arc::new(H2Shared {
            handler: Box::new(handler),
            requests: Mutex::default(),
            cancelled: Mutex::default(),
            connections: AtomicUsize::new(0),
        });
        let for_task = Arc::clone(&shared);
        let task = tokio::spawn(async move {
            let mut connections = JoinSet::new();
            loop {
                let Ok((stream, _)) = listener.accept().await else { continue };
                let _ = stream.set_nodelay(true);
                let number = for_task.connections.fetch_add(1, Ordering::SeqCst);
                let shared = Arc::clone(&for_task);
                connections.spawn(async move {
                    let service = service_fn(move |request| answer(request, number, Arc::clone(&shared)));
                    let _ = hyper::server::conn::http2::Builder::new(TokioExecutor::new())
                        .max_concurrent_streams(max_streams)
                        .serve_connection(TokioIo::new(stream), service)
                        .await;
                });
            }
        });
        H2Backend { shared, addr, task }
    }

    /// Its URL.
    pub fn url(&self) -> String {
        format!("http://{}", self.addr)
    }

    /// Every request that was not a probe.
    pub fn requests(&self) -> Vec<H2RequestLog> {
        self.shared.requests.lock().clone()
    }

    /// How many connections were opened.
    pub fn connections(&self) -> usize {
        self.shared.connections.load(Ordering::SeqCst)
    }

    /// When answers were given up because the peer reset the stream or closed.
    pub fn cancelled(&self) -> Vec<Instant> {
        self.shared.cancelled.lock().clone()
    }
}

impl Drop for H2Backend {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Logs a cancel unless the answer was finished.
struct Unfinished(Option<Arc<H2Shared>>);

impl Unfinished {
    fn finished(&mut self) {
        self.0 = None;
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        if let Some(shared) = self.0.take() {
            shared.cancelled.lock().push(Instant::now());
        }
    }
}

async fn answer(
    request: Request<Incoming>,
    connection: usize,
    shared: Arc<H2Shared>,
) -> Result<Response<BoxBody<Bytes, Infallible>>, Infallible> {
    let (parts, incoming) = request.into_parts();
    let target = parts.uri.path_and_query().map(|p| p.to_string()).unwrap_or_default();
    if parts.method == http::Method::GET {
        let (kind, text) = match target.as_str() {
            "/health" => ("text/plain", String::new()),
            "/metrics" => ("text/plain", "vllm:num_requests_running 0\n".to_string()),
            _ => (
                "application/json",
                r#"{"object":"list","data":[{"id":"tide-7b","object":"model","created":1,"owned_by":"rig"}]}"#
                    .to_string(),
            ),
        };
        let body = Full::new(Bytes::from(text)).boxed();
        return Ok(Response::builder().header("content-type", kind).body(body).unwrap());
    }
    let mut guard = Unfinished(Some(Arc::clone(&shared)));
    let body = incoming.collect().await.map(|b| b.to_bytes()).unwrap_or_default();
    let authority = parts.uri.authority().map(|a| a.to_string()).unwrap_or_default();
    let log = H2RequestLog { connection, target, authority, headers: parts.headers, body };
    let answer = (shared.handler)(&log);
    shared.requests.lock().push(log);
    let (sender, receiver) = mpsc::channel::<Bytes>(1);
    tokio::spawn(async move {
        for (pause, data) in answer.frames {
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                () = sender.closed() => return,
            }
            if sender.send(Bytes::from(data)).await.is_err() {
                return;
            }
        }
        if answer.hang {
            sender.closed().await;
            return;
        }
        guard.finished();
    });
    let body = ChannelBody(receiver).boxed();
    Ok(Response::builder().header("content-type", answer.content_type).body(body).unwrap())
}

struct ChannelBody(mpsc::Receiver<Bytes>);

impl hyper::body::Body for ChannelBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: std::pin::Pin<&mut Self>,
        cx: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Result<hyper::body::Frame<Bytes>, Infallible>>> {
        self.0.poll_recv(cx).map(|data| data.map(|d| Ok(hyper::body::Frame::data(d))))
    }
}
