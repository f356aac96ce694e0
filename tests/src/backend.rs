//! A scripted engine on raw TCP: what it sends is written out, byte by byte
//! and segment by segment, and all it gets is kept.

mod connection;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::http1::Head;
use crate::wait;

/// One step of an answer.
#[derive(Clone, Debug)]
pub enum Step {
    /// Write these bytes at once: one segment where they fit.
    Send(bytes::Bytes),
    /// Wait.
    Sleep(Duration),
    /// Wait until the test opens this gate.
    Wait(Gate),
    /// Send FIN, then close when the peer has done so too.
    Fin,
    /// Close at once with an RST.
    Rst,
    /// Send nothing more until the peer goes away, then close.
    Stall,
}

impl Step {
    /// A [`Step::Send`] of anything that owns bytes.
    pub fn send(bytes: impl Into<Vec<u8>>) -> Step {
        Step::Send(bytes::Bytes::from(bytes.into()))
    }
}

/// A gate in a script, opened by the test.
#[derive(Clone, Debug)]
pub struct Gate(watch::Sender<bool>);

impl Default for Gate {
    fn default() -> Self {
        Gate(watch::channel(false).0)
    }
}

impl Gate {
    /// Lets every script pass that waits here, now and later.
    pub fn open(&self) {
        self.0.send_replace(true);
    }

    async fn passed(&self) {
        let mut receiver = self.0.subscribe();
        // The sender lives in self, so this can only end by the gate opening.
        let _ = receiver.wait_for(|open| *open).await;
    }
}

/// What a backend does with a connection it accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Read requests and answer by the script.
    Serve,
    /// Answer probes by the book and never answer anything else.
    Mute,
    /// Accept, read, and answer nothing at all.
    Black,
    /// Accept and close at once with RST.
    Reset,
}

/// How a peer ended its side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PeerEnd {
    /// End of input.
    Fin,
    /// The connection was reset.
    Rst,
}

/// One request that was not a probe.
#[derive(Clone, Debug)]
pub struct RequestLog {
    /// Its number at this backend, from 0.
    pub index: usize,
    /// The connection it came on, from 0.
    pub connection: usize,
    /// Start line and fields as sent.
    pub head: Head,
    /// The exact bytes, head and body with framing.
    pub raw: Vec<u8>,
    /// The body, de-chunked.
    pub body: Vec<u8>,
    /// When the whole request was there.
    pub at: Instant,
}

impl RequestLog {
    /// True when the JSON body has `"stream": true`.
    pub fn asks_for_stream(&self) -> bool {
        self.json()["stream"] == true
    }

    /// The body as JSON; null when it is none.
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }
}

/// One connection, as far as it went.
#[derive(Clone, Debug)]
pub struct ConnectionLog {
    /// When it was accepted.
    pub opened: Instant,
    /// Everything that came on it.
    pub bytes: Vec<u8>,
    /// How many requests on it were not probes.
    pub requests: usize,
    /// How and when the peer ended its side.
    pub peer_end: Option<(Instant, PeerEnd)>,
}

type Handler = dyn Fn(&RequestLog) -> Vec<Step> + Send + Sync;

struct Shared {
    handler: Mutex<Arc<Handler>>,
    mode: Mutex<Mode>,
    models: Mutex<String>,
    pages: Mutex<BTreeMap<String, Vec<Step>>>,
    healthy: AtomicBool,
    keeps_bytes: AtomicBool,
    requests: Mutex<Vec<RequestLog>>,
    connections: Mutex<Vec<ConnectionLog>>,
    errors: Mutex<Vec<String>>,
    next_request: AtomicUsize,
}

/// A running scripted backend; it ends with this handle.
pub struct Backend {
    shared: Arc<Shared>,
    addr: SocketAddr,
    task: JoinHandle<()>,
}

impl Backend {
    /// Listens on a free port of the IPv4 loopback and answers by `handler`.
    pub async fn start(handler: impl Fn(&RequestLog) -> Vec<Step> + Send + Sync + 'static) -> Backend {
        Backend::start_at("127.0.0.1:0", handler).await
    }

    /// As [`Backend::start`], at an address of the caller's.
    pub async fn start_at(
        at: &str,
        handler: impl Fn(&RequestLog) -> Vec<Step> + Send + Sync + 'static,
    ) -> Backend {
        // One that listened there a moment ago may not be quite gone.
        let deadline = Instant::now() + crate::LIMIT;
        let listener = loop {
            match TcpListener::bind(at).await {
                Ok(listener) => break listener,
                Err(e) if e.kind() == std::io::ErrorKind::AddrInUse && Instant::now() < deadline => {
                    tokio::time::sleep(Duration::from_millis(5)).await;
                }
                Err(e) => panic!("cannot listen on {at}: {e}"),
            }
        };
        let addr = listener.local_addr().unwrap();
        let shared = Arc::new(Shared {
            handler: Mutex::new(Arc::new(handler)),
            mode: Mutex::new(Mode::Serve),
            models: Mutex::new(crate::bodies::MODEL.to_string()),
            pages: Mutex::default(),
            healthy: AtomicBool::new(true),
            keeps_bytes: AtomicBool::new(true),
            requests: Mutex::default(),
            connections: Mutex::default(),
            errors: Mutex::default(),
            next_request: AtomicUsize::new(0),
        });
        let task = tokio::spawn(connection::accept(listener, Arc::clone(&shared)));
        Backend { shared, addr, task }
    }

    /// Where it listens.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Its URL, as a configuration names it.
    pub fn url(&self) -> String {
        format!("http://{}", self.addr)
    }

    /// Replaces the script.
    pub fn script(&self, handler: impl Fn(&RequestLog) -> Vec<Step> + Send + Sync + 'static) {
        *self.shared.handler.lock() = Arc::new(handler);
    }

    /// Changes what is done with connections from now on.
    pub fn set_mode(&self, mode: Mode) {
        *self.shared.mode.lock() = mode;
    }

    /// Changes the model that `/v1/models` lists.
    pub fn set_model(&self, name: &str) {
        *self.shared.models.lock() = name.to_string();
    }

    /// Answers `GET` of this target so from now on, as a probe: neither counted nor logged.
    pub fn set_page(&self, target: &str, answer: Vec<Step>) {
        self.shared.pages.lock().insert(target.to_string(), answer);
    }

    /// Keeps heads and counts only from now on: for tests that send more than memory should hold.
    pub fn keep_no_bytes(&self) {
        self.shared.keeps_bytes.store(false, Ordering::SeqCst);
    }

    /// Makes `/health` answer 200 or 503.
    pub fn set_healthy(&self, healthy: bool) {
        self.shared.healthy.store(healthy, Ordering::SeqCst);
    }

    /// Every request so far that was not a probe.
    pub fn requests(&self) -> Vec<RequestLog> {
        self.shared.requests.lock().clone()
    }

    /// How many of them there are: the duplicate-generation oracle.
    pub fn count(&self) -> usize {
        self.shared.requests.lock().len()
    }

    /// Waits for request number `index`, counted from 0.
    pub async fn request(&self, index: usize) -> RequestLog {
        wait::until(&format!("request {index} at the backend"), || {
            self.shared.requests.lock().get(index).cloned()
        })
        .await
    }

    /// Every connection so far, probes' too.
    pub fn connections(&self) -> Vec<ConnectionLog> {
        self.shared.connections.lock().clone()
    }

    /// Waits until the peer has ended connection `number`, and says how.
    pub async fn peer_end(&self, number: usize) -> (Instant, PeerEnd) {
        wait::until(&format!("the end of connection {number} at the backend"), || {
            self.shared.connections.lock().get(number).and_then(|c| c.peer_end)
        })
        .await
    }

    /// Bytes that were no HTTP request in a strict reading, one line each.
    pub fn errors(&self) -> Vec<String> {
        self.shared.errors.lock().clone()
    }
}

impl Drop for Backend {
    fn drop(&mut self) {
        self.task.abort();
    }
}
