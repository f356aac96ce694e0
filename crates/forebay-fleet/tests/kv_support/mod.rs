//! An engine's sockets, and a sink that remembers.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "helpers of tests")]

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use forebay_fleet::kv::{KvReset, KvSink, KvSource};
use forebay_wire::kv_events::Batch;
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};
use zeromq::{RouterSocket, Socket as _, SocketRecv as _, SocketSend as _, XPubSocket, ZmqMessage};

/// No wait of a test is longer.
const PATIENCE: Duration = Duration::from_secs(20);

/// What a sink was told.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Seen {
    Batch { endpoint: String, rank: u32, seq: u64 },
    Reset { endpoint: String, rank: u32, why: KvReset },
    Silent { endpoint: String, rank: u32 },
    Heard { endpoint: String, rank: u32 },
}

pub(crate) struct Log {
    seen: watch::Sender<Vec<Seen>>,
}

impl Default for Log {
    fn default() -> Log {
        Log { seen: watch::Sender::new(Vec::new()) }
    }
}

impl KvSink for Log {
    fn batch(&self, endpoint: &str, rank: u32, seq: u64, _: &Batch) {
        self.seen.send_modify(|seen| seen.push(Seen::Batch { endpoint: endpoint.to_owned(), rank, seq }));
    }

    fn reset(&self, endpoint: &str, rank: u32, why: KvReset) {
        self.seen.send_modify(|seen| seen.push(Seen::Reset { endpoint: endpoint.to_owned(), rank, why }));
    }

    fn silent(&self, endpoint: &str, rank: u32) {
        self.seen.send_modify(|seen| seen.push(Seen::Silent { endpoint: endpoint.to_owned(), rank }));
    }

    fn heard(&self, endpoint: &str, rank: u32) {
        self.seen.send_modify(|seen| seen.push(Seen::Heard { endpoint: endpoint.to_owned(), rank }));
    }
}

impl Log {
    pub(crate) fn seen(&self) -> Vec<Seen> {
        self.seen.borrow().clone()
    }

    pub(crate) async fn until(&self, done: impl FnMut(&Vec<Seen>) -> bool) {
        let mut seen = self.seen.subscribe();
        if timeout(PATIENCE, seen.wait_for(done)).await.is_err() {
            panic!("only {:?}", self.seen());
        }
    }
}

/// A batch without events.
pub(crate) fn payload(ts: f64, rank: u8) -> Vec<u8> {
    let mut bytes = vec![0x93, 0xcb];
    bytes.extend(ts.to_bits().to_be_bytes());
    bytes.extend([0x90, rank]);
    bytes
}

pub(crate) fn message(frames: &[&[u8]]) -> ZmqMessage {
    let mut frames = frames.iter().map(|frame| frame.to_vec());
    let mut message = ZmqMessage::from(frames.next().unwrap());
    frames.for_each(|frame| message.push_back(frame.into()));
    message
}

type Buffer = Arc<Mutex<BTreeMap<u64, Vec<u8>>>>;

fn note(buffer: &Buffer, process: u32, seq: u64) {
    buffer.lock().insert(seq, payload(f64::from(process) * 1000.0 + seq as f64, 0));
}

/// What vLLM has: a publisher, and perhaps a router that sends again.
pub(crate) struct Engine {
    publisher: XPubSocket,
    address: String,
    replay: Option<(String, JoinHandle<()>)>,
    buffer: Buffer,
    /// Part of every payload, so that two processes never send the same.
    process: u32,
}

impl Engine {
    pub(crate) async fn start(replay: bool) -> Engine {
        Engine::bind("tcp://127.0.0.1:0", replay.then_some("tcp://127.0.0.1:0"), 0, Buffer::default()).await
    }

    /// Another process at an address that is free again.
    pub(crate) async fn start_at(address: &str) -> Engine {
        Engine::bind(address, None, 7, Buffer::default()).await
    }

    async fn bind(address: &str, replay: Option<&str>, process: u32, buffer: Buffer) -> Engine {
        // Who had the address before may not have let go of it yet.
        let (publisher, address) = timeout(PATIENCE, async {
            loop {
                let mut socket = XPubSocket::new();
                match socket.bind(address).await {
                    Ok(bound) => return (socket, bound.to_string()),
                    Err(_) => sleep(Duration::from_millis(5)).await,
                }
            }
        })
        .await
        .unwrap();
        let replay = match replay {
            Some(address) => Some(serve_replays(address, buffer.clone()).await),
            None => None,
        };
        Engine { publisher, address, replay, buffer, process }
    }

    /// An engine that connects to who listens.
    pub(crate) async fn connected_to(address: &str) -> Engine {
        let mut publisher = XPubSocket::new();
        publisher.connect(address).await.unwrap();
        let buffer = Buffer::default();
        let mut engine = Engine { publisher, address: address.to_owned(), replay: None, buffer, process: 0 };
        engine.subscribed().await;
        engine
    }

    pub(crate) fn source(&self) -> KvSource {
        KvSource {
            endpoint: "e".to_owned(),
            rank: 0,
            events: self.address.parse().unwrap(),
            bind: false,
            topic: "kv@e".to_owned(),
            replay: self.replay.as_ref().map(|(address, _)| address.parse().unwrap()),
            key: None,
        }
    }

    /// Where it publishes.
    pub(crate) fn address(&self) -> &str {
        &self.address
    }

    /// Waits for the next subscription.
    pub(crate) async fn subscribed(&mut self) {
        let message = timeout(PATIENCE, self.publisher.recv()).await.unwrap().unwrap();
        assert_eq!(message.get(0).unwrap()[0], 1);
    }

    /// Makes a batch that subscribers miss.
    pub(crate) fn remember(&self, seq: u64) {
        note(&self.buffer, self.process, seq);
    }

    pub(crate) fn forget_all(&self) {
        self.buffer.lock().clear();
    }

    pub(crate) async fn publish(&mut self, seq: u64) {
        self.publish_under("kv@e@model", seq).await;
    }

    pub(crate) async fn publish_under(&mut self, topic: &str, seq: u64) {
        self.remember(seq);
        let batch = self.buffer.lock()[&seq].clone();
        self.send(&[topic.as_bytes(), &seq.to_be_bytes(), &batch]).await;
    }

    pub(crate) async fn send(&mut self, frames: &[&[u8]]) {
        self.publisher.send(message(frames)).await.unwrap();
    }

    /// Another process at the same addresses, which has made some batches.
    pub(crate) async fn restart(self, batches: u64) -> Engine {
        let engine = self.again(Buffer::default(), 1).await;
        (0..batches).for_each(|seq| engine.remember(seq));
        engine
    }

    /// The same process, whose connections broke, and what it made meanwhile.
    pub(crate) async fn reconnect(self, batches: std::ops::Range<u64>) -> Engine {
        batches.for_each(|seq| self.remember(seq));
        self.close().await.open(0..0).await
    }

    async fn again(self, buffer: Buffer, more: u32) -> Engine {
        let Closed { address, replay, process, .. } = self.close().await;
        Engine::bind(&address, replay.as_deref(), process + more, buffer).await
    }

    /// Its ports are closed; the process goes on.
    pub(crate) async fn close(self) -> Closed {
        let Engine { publisher, address, replay, process, buffer } = self;
        drop(publisher);
        let replay = match replay {
            Some((address, task)) => {
                task.abort();
                drop(task.await);
                Some(address)
            }
            None => None,
        };
        Closed { address, replay, process, buffer }
    }
}

/// An engine whose ports are closed.
pub(crate) struct Closed {
    address: String,
    replay: Option<String>,
    process: u32,
    buffer: Buffer,
}

impl Closed {
    /// Opens them again, with the batches that it made meanwhile.
    pub(crate) async fn open(self, batches: std::ops::Range<u64>) -> Engine {
        let Closed { address, replay, process, buffer } = self;
        batches.for_each(|seq| note(&buffer, process, seq));
        Engine::bind(&address, replay.as_deref(), process, buffer).await
    }
}

/// Answers requests for batches, as vLLM 0.28 does.
async fn serve_replays(address: &str, buffer: Buffer) -> (String, JoinHandle<()>) {
    let (mut router, address) = timeout(PATIENCE, async {
        loop {
            let mut socket = RouterSocket::new();
            match socket.bind(address).await {
                Ok(bound) => return (socket, bound.to_string()),
                Err(_) => sleep(Duration::from_millis(5)).await,
            }
        }
    })
    .await
    .unwrap();
    let task = tokio::spawn(async move {
        while let Ok(request) = router.recv().await {
            let frames = request.into_vec();
            let [asker, empty, start] = frames.as_slice() else { panic!("{frames:?}") };
            assert!(empty.is_empty());
            let start = u64::from_be_bytes(start.as_ref().try_into().unwrap());
            let batches: Vec<_> = buffer.lock().range(start..).map(|(seq, p)| (*seq, p.clone())).collect();
            for (seq, payload) in batches {
                let frames: [&[u8]; 5] = [asker, b"", b"kv@e@model", &seq.to_be_bytes(), &payload];
                router.send(message(&frames)).await.unwrap();
            }
            let end: [&[u8]; 5] = [asker, b"", b"", &[0xff; 8], b""];
            router.send(message(&end)).await.unwrap();
        }
    });
    (address, task)
}
