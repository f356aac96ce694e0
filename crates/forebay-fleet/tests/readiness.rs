//! Endpoints become ready and unready as their probes and traffic say.

#![allow(clippy::expect_used, clippy::panic, reason = "a test says what is wrong by panicking")]

use std::collections::BTreeMap;
use std::future::Future;
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener};
use std::sync::atomic::{AtomicBool, AtomicU16, Ordering::SeqCst};
use std::sync::{Arc, Mutex, mpsc};
use std::thread::JoinHandle;
use std::time::Duration;

use forebay_config::{Health, Secret};
use forebay_core::EndpointState::{self, Ready, Starting, Unready};
use forebay_fleet::{Fleet, HttpProbe, Membership, Probe, ProbeFailure, Target};
use forebay_metrics::Probe as ProbeLabel;
use tokio::net::TcpSocket;

/// Long enough for a machine that is busy with other things.
const LIMIT: Duration = Duration::from_secs(30);

/// What the fleet told, in order.
#[derive(Debug, PartialEq)]
enum Told {
    State(u32, EndpointState),
    Probed(u32, ProbeLabel),
}

struct Owner {
    told: Mutex<mpsc::Sender<Told>>,
}

impl Membership for Owner {
    type Id = u32;

    fn set_state(&self, id: u32, state: EndpointState) {
        let _ = self.told.lock().expect("no panic").send(Told::State(id, state));
    }

    fn probed(&self, id: u32, result: ProbeLabel) {
        let _ = self.told.lock().expect("no panic").send(Told::Probed(id, result));
    }
}

fn fleet<P: Probe>(probe: P) -> (Fleet<Owner, P>, mpsc::Receiver<Told>) {
    let (told, heard) = mpsc::channel();
    let owner = Arc::new(Owner { told: Mutex::new(told) });
    (Fleet::start(owner, probe, 7).expect("a thread"), heard)
}

/// Waits for the next change of state, and counts the probes before it.
fn next_state(heard: &mpsc::Receiver<Told>) -> (u32, EndpointState, u32) {
    let mut probes = 0;
    loop {
        match heard.recv_timeout(LIMIT).expect("a change of state") {
            Told::State(id, state) => return (id, state, probes),
            Told::Probed(..) => probes += 1,
        }
    }
}

fn wait_for_probes(heard: &mpsc::Receiver<Told>, count: u32) {
    for _ in 0..count {
        let told = heard.recv_timeout(LIMIT).expect("a probe");
        assert!(matches!(told, Told::Probed(..)), "{told:?}");
    }
}

fn target(id: u32, url: &str, health: Health) -> Target<u32> {
    Target { id, url: url.to_owned(), health, key: None, paused: false }
}

fn every(interval: Duration, fall: u32, rise: u32) -> Health {
    Health { interval, fall, rise, timeout: Duration::from_secs(10), ..Health::default() }
}

const FAST: Duration = Duration::from_millis(20);
const NEVER: Duration = Duration::from_secs(3600);

/// An HTTP server that answers every request with one status, or with silence.
struct Server {
    address: SocketAddr,
    status: Arc<AtomicU16>,
    paths: Arc<Mutex<Vec<String>>>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

/// Sends a whole head and part of the body, and then nothing.
const STALL: u16 = 1;
/// Sends something that is not HTTP.
const GARBAGE: u16 = 2;

impl Server {
    fn start(status: u16) -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("bound");
        let status = Arc::new(AtomicU16::new(status));
        let paths = Arc::new(Mutex::new(Vec::new()));
        let stop = Arc::new(AtomicBool::new(false));
        let (s, p, end) = (Arc::clone(&status), Arc::clone(&paths), Arc::clone(&stop));
        let thread = std::thread::spawn(move || {
            let mut stalled = Vec::new();
            while let Ok((mut stream, _)) = listener.accept() {
                if end.load(SeqCst) {
                    return;
                }
                let mut head = Vec::new();
                let mut byte = [0; 1];
                while !head.ends_with(b"\r\n\r\n") && stream.read(&mut byte).is_ok_and(|n| n == 1) {
                    head.push(byte[0]);
                }
                let line = String::from_utf8_lossy(&head).lines().next().unwrap_or_default().to_owned();
                p.lock().expect("no panic").push(line);
                let answer = match s.load(SeqCst) {
                    STALL => "HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nhalf".to_owned(),
                    GARBAGE => "220 mail.example ESMTP\r\n".to_owned(),
                    status => format!("HTTP/1.1 {status} X\r\ncontent-length: 2\r\n\r\nok"),
                };
                let _ = stream.write_all(answer.as_bytes());
                if s.load(SeqCst) == STALL {
                    stalled.push(stream);
                } else {
                    let _ = stream.shutdown(Shutdown::Write);
                }
            }
        });
        Server { address, status, paths, stop, thread: Some(thread) }
    }

    fn url(&self) -> String {
        format!("http://{}", self.address)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop.store(true, SeqCst);
        let _ = std::net::TcpStream::connect(self.address);
        if let Some(thread) = self.thread.take() {
            thread.join().expect("the server did not panic");
        }
    }
}

#[test]
fn an_endpoint_follows_its_health_page() {
    let server = Server::start(200);
    let (fleet, heard) = fleet(HttpProbe::new());
    let health = Health { path: "/v2/health/ready".to_owned(), ..every(FAST, 3, 2) };
    fleet.set_targets(vec![target(1, &format!("{}/", server.url()), health)]);
    assert_eq!(next_state(&heard), (1, Ready, 1));
    assert_eq!(server.paths.lock().expect("no panic")[0], "GET /v2/health/ready HTTP/1.1");
    server.status.store(503, SeqCst);
    let (id, state, probes) = next_state(&heard);
    assert_eq!((id, state), (1, Unready));
    assert!(probes >= 3, "{probes} probes");
    assert_eq!(fleet.evidence(1).expect("watched").state(), Unready);
    server.status.store(204, SeqCst);
    let (id, state, probes) = next_state(&heard);
    assert_eq!((id, state), (1, Ready));
    assert!(probes >= 2, "{probes} probes");
}

#[test]
fn nobody_listening_is_known_with_the_first_probe_and_coming_up_is_seen() {
    // Bound and not listening: connections are refused, and nobody else can take the port.
    let socket = TcpSocket::new_v4().expect("a socket");
    socket.bind(SocketAddr::from(([127, 0, 0, 1], 0))).expect("a port");
    let address = socket.local_addr().expect("bound");
    let (fleet, heard) = fleet(HttpProbe::new());
    fleet.set_targets(vec![target(1, &format!("http://{address}"), every(FAST, 3, 1))]);
    assert_eq!(next_state(&heard), (1, Unready, 1));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build().expect("a runtime");
    let listener = runtime.block_on(async { socket.listen(8)?.into_std() }).expect("it listens");
    listener.set_nonblocking(false).expect("blocking");
    let thread = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("a probe");
        let _ = stream.read(&mut [0; 1024]);
        stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").expect("sent");
        // Kept open until the fleet has seen the answer.
        (listener, stream)
    });
    let (id, state, _) = next_state(&heard);
    assert_eq!((id, state), (1, Ready));
    drop(thread.join().expect("no panic"));
}

#[test]
fn an_answer_that_stalls_or_is_not_http_is_a_failure() {
    for kind in [STALL, GARBAGE] {
        let server = Server::start(kind);
        let (fleet, heard) = fleet(HttpProbe::new());
        let health = Health { timeout: Duration::from_millis(50), ..every(FAST, 2, 1) };
        fleet.set_targets(vec![target(1, &server.url(), health)]);
        assert_eq!(next_state(&heard), (1, Unready, 2));
        server.status.store(200, SeqCst);
        // Generous again: what is tested here is over.
        fleet.set_targets(vec![target(1, &server.url(), every(FAST, 2, 1))]);
        assert_eq!(next_state(&heard).1, Ready);
    }
}

/// Answers from a table, and notes which probes run.
#[derive(Clone, Default)]
struct Script {
    inner: Arc<Mutex<Inner>>,
}

#[derive(Default)]
struct Inner {
    answers: BTreeMap<String, Answer>,
    probes: BTreeMap<String, u32>,
    running: BTreeMap<String, u32>,
    overtaken: bool,
}

#[derive(Clone, Copy, Default)]
enum Answer {
    #[default]
    Good,
    Bad,
    Refused,
    SlowlyBad,
}

impl Script {
    fn set(&self, url: &str, answer: Answer) {
        self.inner.lock().expect("no panic").answers.insert(format!("{url}/health"), answer);
    }

    fn probes(&self, url: &str) -> u32 {
        *self.inner.lock().expect("no panic").probes.get(&format!("{url}/health")).unwrap_or(&0)
    }
}

impl Probe for Script {
    fn probe(
        &self,
        url: &str,
        _: Option<&Secret>,
        _: Duration,
    ) -> impl Future<Output = Result<(), ProbeFailure>> + Send {
        let (url, inner) = (url.to_owned(), Arc::clone(&self.inner));
        async move {
            let answer = {
                let mut inner = inner.lock().expect("no panic");
                *inner.probes.entry(url.clone()).or_default() += 1;
                let running = inner.running.entry(url.clone()).or_default();
                *running += 1;
                if *running > 1 {
                    inner.overtaken = true;
                }
                inner.answers.get(&url).copied().unwrap_or_default()
            };
            let slow = if matches!(answer, Answer::SlowlyBad) { 3 * FAST } else { Duration::ZERO };
            tokio::time::sleep(slow).await;
            *inner.lock().expect("no panic").running.entry(url).or_default() -= 1;
            match answer {
                Answer::Good => Ok(()),
                Answer::Bad | Answer::SlowlyBad => Err(ProbeFailure::Unhealthy("status 503".to_owned())),
                Answer::Refused => Err(ProbeFailure::NoConnection("refused".to_owned())),
            }
        }
    }
}

#[test]
fn a_connection_that_traffic_cannot_make_is_probed_at_once() {
    let script = Script::default();
    let (fleet, heard) = fleet(script.clone());
    fleet.set_targets(vec![target(1, "http://a", every(NEVER, 3, 1))]);
    assert_eq!(next_state(&heard), (1, Ready, 1));
    let evidence = fleet.evidence(1).expect("watched");
    // It answers the probe: nothing happens.
    evidence.connect_failed();
    wait_for_probes(&heard, 1);
    assert_eq!(evidence.state(), Ready);
    // It is gone: one probe is enough, the next regular one would be in an hour.
    script.set("http://a", Answer::Refused);
    evidence.connect_failed();
    assert_eq!(next_state(&heard), (1, Unready, 1));
    assert_eq!(script.probes("http://a"), 3);
}

#[test]
fn an_endpoint_that_serves_stays_ready_though_its_probes_are_late_or_fail() {
    for answer in [Answer::Bad, Answer::SlowlyBad, Answer::Refused] {
        let script = Script::default();
        let (fleet, heard) = fleet(script.clone());
        // The interval is long against what may delay this test's own thread.
        let health = every(Duration::from_secs(2), 1, 1);
        fleet.set_targets(vec![target(1, "http://a", health)]);
        assert_eq!(next_state(&heard), (1, Ready, 1));
        script.set("http://a", answer);
        let evidence = fleet.evidence(1).expect("watched");
        for _ in 0..5 {
            evidence.connect_failed();
            evidence.succeeded();
            wait_for_probes(&heard, 1);
        }
        assert_eq!(evidence.state(), Ready);
    }
}

#[test]
fn a_slow_probe_is_never_overtaken() {
    let script = Script::default();
    script.set("http://a", Answer::SlowlyBad);
    let (fleet, heard) = fleet(script.clone());
    fleet.set_targets(vec![target(1, "http://a", every(FAST, 1000, 1))]);
    wait_for_probes(&heard, 1);
    fleet.evidence(1).expect("watched").connect_failed();
    wait_for_probes(&heard, 6);
    assert!(!script.inner.lock().expect("no panic").overtaken);
}

#[test]
fn an_endpoint_that_is_not_probed_is_ready() {
    let script = Script::default();
    script.set("http://a", Answer::Refused);
    let (fleet, heard) = fleet(script.clone());
    fleet.set_targets(vec![target(1, "http://a", Health { enabled: false, ..every(FAST, 1, 1) })]);
    assert_eq!(next_state(&heard), (1, Ready, 0));
    assert_eq!(script.probes("http://a"), 0);
}

#[test]
fn endpoints_come_stay_and_go() {
    let script = Script::default();
    let (fleet, heard) = fleet(script.clone());
    fleet.set_targets(vec![
        target(1, "http://a", every(FAST, 1, 1)),
        target(2, "http://b", every(NEVER, 1, 1)),
    ]);
    let mut ready = [next_state(&heard).0, next_state(&heard).0];
    ready.sort_unstable();
    assert_eq!(ready, [1, 2]);
    let of_b = fleet.evidence(2).expect("watched");

    // One goes, one stays as it is, one stays with other settings, one comes.
    fleet.set_targets(vec![
        target(2, "http://b", every(FAST, 1, 1)),
        target(3, "http://c", every(NEVER, 1, 1)),
    ]);
    assert!(fleet.evidence(1).is_none());
    let (id, state, _) = next_state(&heard);
    assert_eq!((id, state), (3, Ready), "the one that stays does not start anew");
    script.set("http://b", Answer::Bad);
    assert_eq!(next_state(&heard).0, 2, "the new interval applies");
    assert_eq!(of_b.state(), Unready, "its evidence is still the same");

    // Another address under the same id is another server.
    script.set("http://d", Answer::Bad);
    fleet.set_targets(vec![target(3, "http://d", every(NEVER, 1, 1))]);
    let (id, state, _) = next_state(&heard);
    assert_eq!((id, state), (3, Starting));
    let (id, state, _) = next_state(&heard);
    assert_eq!((id, state), (3, Unready));

    fleet.set_targets(Vec::new());
    // What was being reported may still come; then the thread has nothing left to say.
    drop(fleet);
    assert!(heard.iter().all(|told| matches!(told, Told::Probed(..))));
}

#[test]
fn a_thousand_endpoints_are_each_probed_by_their_own_clock() {
    let script = Script::default();
    let (fleet, heard) = fleet(script.clone());
    let url = |id: u32| format!("http://10.0.0.1:{id}");
    let targets = (0..1000).map(|id| target(id, &url(id), every(Duration::from_millis(500), 3, 1)));
    fleet.set_targets(targets.collect());
    let mut ready = BTreeMap::new();
    let mut probes: BTreeMap<u32, u32> = BTreeMap::new();
    while ready.len() < 1000 || probes.len() < 1000 || probes.values().any(|n| *n < 3) {
        match heard.recv_timeout(LIMIT).expect("probes go on") {
            Told::State(id, state) => assert_eq!(ready.insert(id, state), None, "{id} flips"),
            Told::Probed(id, _) => *probes.entry(id).or_default() += 1,
        }
    }
    assert!(ready.values().all(|state| *state == Ready));
    assert!(!script.inner.lock().expect("no panic").overtaken);
}
