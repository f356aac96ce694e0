//! A server that stands for engines, and an owner that notes what it is told.

#![allow(
    dead_code,
    clippy::expect_used,
    clippy::panic,
    reason = "each test file uses a part; a test says what is wrong by panicking"
)]

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex, mpsc};
use std::thread::JoinHandle;
use std::time::Duration;

use forebay_core::EndpointState;
use forebay_fleet::{Fleet, HttpProbe, Identity, Membership, PageKind, ScrapeFailure, ScrapeTarget, Scraped};
use forebay_wire::signals::{Dialect, ResidentModel, Signals};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{oneshot, watch};
use tokio::time::Instant;

/// Long enough for a machine that is busy with other things.
pub(crate) const LIMIT: Duration = Duration::from_secs(30);

/// What a page answers.
#[derive(Clone, Debug)]
pub(crate) enum Answer {
    /// 200 with this body.
    Page(String),
    /// This status with a short body.
    Status(u16),
    /// These bytes, whatever they are, and then the end of the connection.
    Raw(Vec<u8>),
    /// Nothing, with the connection open.
    Hang,
    /// The body once the gate is open.
    Gated(String),
}

impl From<&str> for Answer {
    fn from(page: &str) -> Answer {
        Answer::Page(page.to_owned())
    }
}

impl From<String> for Answer {
    fn from(page: String) -> Answer {
        Answer::Page(page)
    }
}

/// One request that came.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    pub(crate) path: String,
    pub(crate) head: String,
    pub(crate) connection: usize,
}

struct State {
    answers: Mutex<BTreeMap<String, Answer>>,
    asked: Mutex<Vec<Asked>>,
    connections: AtomicUsize,
    open: AtomicUsize,
    most: AtomicUsize,
    gate: watch::Receiver<bool>,
}

/// An HTTP/1.1 server with a table of answers by the end of the path: the
/// longest that fits counts; 404 for the rest.
pub(crate) struct Stub {
    address: SocketAddr,
    state: Arc<State>,
    gate: watch::Sender<bool>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Stub {
    pub(crate) fn start(answers: &[(&str, Answer)]) -> Stub {
        Stub::at(std::net::TcpListener::bind("127.0.0.1:0").expect("a port"), answers)
    }

    pub(crate) fn at(listener: std::net::TcpListener, answers: &[(&str, Answer)]) -> Stub {
        listener.set_nonblocking(true).expect("a socket");
        let address = listener.local_addr().expect("bound");
        let (gate, gated) = watch::channel(false);
        let state = Arc::new(State {
            answers: Mutex::default(),
            asked: Mutex::default(),
            connections: AtomicUsize::new(0),
            open: AtomicUsize::new(0),
            most: AtomicUsize::new(0),
            gate: gated,
        });
        let (stop, stopped) = oneshot::channel();
        let shared = Arc::clone(&state);
        let thread = std::thread::Builder::new().name("stub".to_owned()).spawn(move || {
            let runtime =
                tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
            runtime.block_on(async {
                tokio::select! {
                    () = accept(listener, shared) => {}
                    _ = stopped => {}
                }
            });
        });
        let stub = Stub { address, state, gate, stop: Some(stop), thread: Some(thread.expect("a thread")) };
        for (path, answer) in answers {
            stub.set(path, answer.clone());
        }
        stub
    }

    pub(crate) fn set(&self, path: &str, answer: impl Into<Answer>) {
        self.state.answers.lock().expect("no panic").insert(path.to_owned(), answer.into());
    }

    /// Replaces the whole table at once.
    pub(crate) fn become_other(&self, answers: &[(&str, Answer)]) {
        let answers = answers.iter().map(|(path, answer)| ((*path).to_owned(), answer.clone()));
        *self.state.answers.lock().expect("no panic") = answers.collect();
    }

    pub(crate) fn open_gate(&self) {
        let _ = self.gate.send(true);
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    pub(crate) fn asked(&self, path: &str) -> Vec<Asked> {
        let asked = self.state.asked.lock().expect("no panic");
        asked.iter().filter(|asked| asked.path == path).cloned().collect()
    }

    pub(crate) fn connections(&self) -> usize {
        self.state.connections.load(SeqCst)
    }

    /// Requests that wait for their answer now, and the most there ever were.
    pub(crate) fn waiting(&self) -> (usize, usize) {
        (self.state.open.load(SeqCst), self.state.most.load(SeqCst))
    }
}

impl Drop for Stub {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let panicked = thread.join().is_err();
            assert!(!panicked || std::thread::panicking(), "the stub panicked");
        }
    }
}

async fn accept(listener: std::net::TcpListener, state: Arc<State>) {
    let listener = TcpListener::from_std(listener).expect("a listener");
    while let Ok((stream, _)) = listener.accept().await {
        let connection = state.connections.fetch_add(1, SeqCst);
        let state = Arc::clone(&state);
        tokio::spawn(async move {
            let _ = serve(stream, state, connection).await;
        });
    }
}

async fn serve(mut stream: TcpStream, state: Arc<State>, connection: usize) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    let mut buffer = Vec::new();
    loop {
        let head_end = loop {
            if let Some(end) = buffer.windows(4).position(|w| w == b"\r\n\r\n") {
                break end + 4;
            }
            if stream.read_buf(&mut buffer).await? == 0 {
                return Ok(());
            }
        };
        let head = String::from_utf8_lossy(&buffer[..head_end]).to_ascii_lowercase();
        let length =
            head.lines().find_map(|line| line.strip_prefix("content-length: ")?.parse().ok()).unwrap_or(0);
        while buffer.len() < head_end + length {
            if stream.read_buf(&mut buffer).await? == 0 {
                return Ok(());
            }
        }
        buffer.drain(..head_end + length);
        let path =
            head.split(' ').nth(1).unwrap_or_default().split('?').next().unwrap_or_default().to_owned();
        let answer = {
            let answers = state.answers.lock().expect("no panic");
            let fits = answers
                .iter()
                .filter(|(end, _)| path.ends_with(end.as_str()) && (*end != "/" || path == "/"));
            fits.max_by_key(|(end, _)| end.len()).map(|(_, answer)| answer.clone())
        };
        state.asked.lock().expect("no panic").push(Asked { path, head, connection });
        let page = |body: &str| {
            format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{body}", body.len()).into_bytes()
        };
        match answer.unwrap_or(Answer::Status(404)) {
            Answer::Page(body) => stream.write_all(&page(&body)).await?,
            Answer::Status(status) => {
                stream
                    .write_all(format!("HTTP/1.1 {status} X\r\ncontent-length: 2\r\n\r\nno").as_bytes())
                    .await?;
            }
            Answer::Raw(bytes) => {
                stream.write_all(&bytes).await?;
                return Ok(());
            }
            Answer::Hang => {
                // Until the other side gives up.
                while stream.read_buf(&mut buffer).await? > 0 {}
                return Ok(());
            }
            Answer::Gated(body) => {
                let open = state.open.fetch_add(1, SeqCst) + 1;
                state.most.fetch_max(open, SeqCst);
                let _ = state.gate.clone().wait_for(|open| *open).await;
                state.open.fetch_sub(1, SeqCst);
                stream.write_all(&page(&body)).await?;
            }
        }
    }
}

/// What the fleet told, in order.
#[derive(Clone, Debug, PartialEq)]
#[allow(clippy::large_enum_variant, reason = "few of them are kept")]
pub(crate) enum Told {
    State(u32, EndpointState),
    Signals(u32, Signals),
    Failed(u32, &'static str),
    Models(u32, Vec<ResidentModel>),
    Restarted(u32),
    /// None for a match, or what was found.
    Identity(u32, Option<String>),
    /// It lists nothing.
    Unlisted(u32),
    /// Something else may be there.
    Doubtful(u32),
    Detected(u32, Dialect),
    Scraped(u32, PageKind, Result<(), ScrapeFailure>, usize),
}

pub(crate) struct Owner {
    told: Mutex<mpsc::Sender<Told>>,
    in_flight: Mutex<BTreeMap<u32, u32>>,
    started: Instant,
}

impl Owner {
    pub(crate) fn new() -> (Arc<Owner>, Heard) {
        let (told, heard) = mpsc::channel();
        let owner = Owner { told: Mutex::new(told), in_flight: Mutex::default(), started: Instant::now() };
        (Arc::new(owner), Heard(heard))
    }

    pub(crate) fn set_in_flight(&self, id: u32, requests: u32) {
        self.in_flight.lock().expect("no panic").insert(id, requests);
    }

    fn tell(&self, told: Told) {
        let _ = self.told.lock().expect("no panic").send(told);
    }
}

impl Membership for Owner {
    type Id = u32;

    fn set_state(&self, id: u32, state: EndpointState) {
        self.tell(Told::State(id, state));
    }

    fn in_flight(&self, id: u32) -> u32 {
        *self.in_flight.lock().expect("no panic").get(&id).unwrap_or(&0)
    }

    fn signals(&self, id: u32, at: Instant, signals: &Signals) {
        assert!(
            at >= self.started && at <= Instant::now(),
            "the time of a report is between now and the start"
        );
        self.tell(Told::Signals(id, signals.clone()));
    }

    fn scrape_failed(&self, id: u32, why: &'static str) {
        assert!(ScrapeFailure::LABELS.contains(&why), "{why} is no known label");
        self.tell(Told::Failed(id, why));
    }

    fn models(&self, id: u32, models: &[ResidentModel]) {
        self.tell(Told::Models(id, models.to_vec()));
    }

    fn restarted(&self, id: u32) {
        self.tell(Told::Restarted(id));
    }

    fn identity(&self, id: u32, identity: Identity<'_>) {
        self.tell(match identity {
            Identity::Doubtful => Told::Doubtful(id),
            Identity::Matches => Told::Identity(id, None),
            Identity::Unlisted => Told::Unlisted(id),
            Identity::Mismatch { found } => Told::Identity(id, Some(found.to_owned())),
        });
    }

    fn detected(&self, id: u32, dialect: Dialect) {
        self.tell(Told::Detected(id, dialect));
    }

    fn scraped(&self, id: u32, scraped: &Scraped) {
        self.tell(Told::Scraped(id, scraped.page, scraped.result, scraped.bytes));
    }
}

pub(crate) struct Heard(mpsc::Receiver<Told>);

impl Heard {
    pub(crate) fn next(&self) -> Told {
        self.0.recv_timeout(LIMIT).expect("something is told")
    }

    /// What was told up to the first that fits, with it.
    pub(crate) fn until(&self, mut fits: impl FnMut(&Told) -> bool) -> Vec<Told> {
        let mut all = Vec::new();
        // Other endpoints may tell something all the time.
        let give_up = Instant::now() + 2 * LIMIT;
        loop {
            match self.0.recv_timeout(give_up.saturating_duration_since(Instant::now())) {
                Ok(told) => {
                    let done = fits(&told);
                    all.push(told);
                    if done {
                        return all;
                    }
                }
                Err(_) => {
                    all.retain(|told| !matches!(told, Told::Scraped(..)));
                    panic!("it was not told; the last was {:?}", &all[all.len().saturating_sub(10)..]);
                }
            }
        }
    }

    /// The next signals of `id`.
    pub(crate) fn signals(&self, id: u32) -> Signals {
        match self.until(|told| matches!(told, Told::Signals(of, _) if *of == id)).pop() {
            Some(Told::Signals(_, signals)) => signals,
            _ => unreachable!("it ends with them"),
        }
    }

    /// Everything that was told before the fleet was dropped.
    pub(crate) fn rest(self) -> Vec<Told> {
        self.0.iter().collect()
    }
}

/// A fleet, the owner, and what the owner hears.
pub(crate) fn fleet() -> (Fleet<Owner>, Arc<Owner>, Heard) {
    let (owner, heard) = Owner::new();
    let fleet = Fleet::start(Arc::clone(&owner), HttpProbe::new(), 7).expect("a thread");
    (fleet, owner, heard)
}

/// A target that is asked quickly and for its models seldom.
pub(crate) fn quick(id: u32, url: &str, dialect: Dialect) -> ScrapeTarget<u32> {
    ScrapeTarget {
        dialect: Some(dialect),
        interval_min: Duration::from_millis(10),
        interval_max: Duration::from_millis(50),
        slow_interval: Duration::from_secs(3600),
        timeout: Duration::from_secs(20),
        ..ScrapeTarget::new(id, url)
    }
}

/// A page of vLLM's with so many requests running, and so many tokens generated.
pub(crate) fn vllm(running: u32, tokens: u32) -> String {
    format!(
        "vllm:num_requests_running{{engine=\"0\",model_name=\"tide-7b\"}} {running}.0\n\
         vllm:num_requests_waiting{{engine=\"0\",model_name=\"tide-7b\"}} 0.0\n\
         vllm:generation_tokens_total{{engine=\"0\",model_name=\"tide-7b\"}} {tokens}.0\n"
    )
}

/// An OpenAI list of models, `adapter<base` for an adapter.
pub(crate) fn list(owner: &str, names: &[&str]) -> String {
    let models: Vec<String> = names
        .iter()
        .map(|name| {
            let (id, parent) = match name.split_once('<') {
                Some((id, parent)) => (id, format!("\"{parent}\"")),
                None => (*name, "null".to_owned()),
            };
            format!("{{\"id\":\"{id}\",\"object\":\"model\",\"owned_by\":\"{owner}\",\"parent\":{parent}}}")
        })
        .collect();
    format!("{{\"object\":\"list\",\"data\":[{}]}}", models.join(","))
}
