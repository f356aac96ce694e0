//! An engine in the test's process, and a client that shows the bytes.
#![allow(dead_code, reason = "each test binary uses its part")]

pub(crate) mod kv;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use forebay_engine::{Engine, EngineHandle, EngineOptions, EngineStats, Exit};
use forebay_sim::engine::Profile;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::timeout;

/// Longer than anything here takes.
pub(crate) const LIMIT: Duration = Duration::from_secs(30);

pub(crate) struct Running {
    pub(crate) address: SocketAddr,
    pub(crate) handle: EngineHandle,
    /// Where KV events are published, and can be asked for again.
    pub(crate) kv: (Option<SocketAddr>, Option<SocketAddr>),
    stop: Option<oneshot::Sender<()>>,
    task: JoinHandle<Exit>,
}

/// The settings of the recorded server, as far as there are such settings.
pub(crate) fn options() -> EngineOptions {
    EngineOptions {
        max_model_len: 1024,
        time_scale: 20.0,
        faults: true,
        ..EngineOptions::new("tiny", Profile::by_name("h100-8b").unwrap())
    }
}

pub(crate) async fn start(options: EngineOptions) -> Running {
    let engine = Engine::bind(options).await.unwrap();
    let (stop, stopped) = oneshot::channel::<()>();
    let (address, handle) = (engine.local_addr(), engine.handle());
    let kv = (engine.kv_events_addr(), engine.kv_replay_addr());
    let task = tokio::spawn(engine.run(async {
        let _ = stopped.await;
    }));
    Running { address, handle, kv, stop: Some(stop), task }
}

impl Running {
    pub(crate) async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.address).await.unwrap()
    }

    /// Tells it to stop, without waiting.
    pub(crate) fn stop(&mut self) {
        drop(self.stop.take());
    }

    /// Waits for the end.
    pub(crate) async fn exit(self) -> Exit {
        timeout(LIMIT, self.task).await.unwrap().unwrap()
    }

    /// Waits until the engine's numbers are as wanted.
    pub(crate) async fn until(&self, what: &str, wanted: impl Fn(&EngineStats) -> bool) -> EngineStats {
        let poll = async {
            loop {
                let stats = self.handle.stats();
                if wanted(&stats) {
                    return stats;
                }
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        };
        timeout(LIMIT, poll).await.unwrap_or_else(|_| panic!("never {what}: {:?}", self.handle.stats()))
    }

    /// Sends bytes on a connection of their own and reads to its end.
    pub(crate) async fn exchange(&self, request: &[u8]) -> Answer {
        let mut stream = self.connect().await;
        stream.write_all(request).await.unwrap();
        Answer::parse(&read_to_end(&mut stream).await)
    }

    /// Waits until its port is closed.
    pub(crate) async fn until_refused(&self) {
        let refused = async { while TcpStream::connect(self.address).await.is_ok() {} };
        timeout(LIMIT, refused).await.expect("the port closes");
    }

    pub(crate) async fn post(&self, path: &str, body: &str) -> Answer {
        self.exchange(&post(path, body)).await
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.exchange(format!("GET {path} HTTP/1.1\r\nHost: e\r\nConnection: close\r\n\r\n").as_bytes()).await
    }
}

/// A request that asks the server to close afterwards.
pub(crate) fn post(path: &str, body: &str) -> Vec<u8> {
    let n = body.len();
    format!(
        "POST {path} HTTP/1.1\r\nHost: e\r\nConnection: close\r\nContent-Type: application/json\r\n\
         Content-Length: {n}\r\n\r\n{body}"
    )
    .into_bytes()
}

/// All bytes until the peer closes; an error also ends them.
pub(crate) async fn read_to_end(stream: &mut TcpStream) -> Vec<u8> {
    let mut bytes = Vec::new();
    let _ = timeout(LIMIT, stream.read_to_end(&mut bytes)).await.expect("the answer ends");
    bytes
}

/// Reads until `marker` has come; gives everything so far.
pub(crate) async fn read_until(stream: &mut TcpStream, marker: &str) -> String {
    let mut bytes = Vec::new();
    let read = async {
        loop {
            let n = stream.read_buf(&mut bytes).await.unwrap();
            let text = String::from_utf8_lossy(&bytes).into_owned();
            if text.contains(marker) {
                return text;
            }
            assert!(n > 0, "closed before {marker:?}: {text}");
        }
    };
    timeout(LIMIT, read).await.expect("the marker comes")
}

/// An answer taken apart.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) head: String,
    /// The body without its framing.
    pub(crate) body: String,
    /// The chunks of a chunked body, without the empty last one.
    pub(crate) chunks: Vec<String>,
    /// Whether the framing says that the body is whole.
    pub(crate) complete: bool,
}

impl Answer {
    pub(crate) fn parse(bytes: &[u8]) -> Answer {
        let text = String::from_utf8(bytes.to_vec()).unwrap();
        let (head, rest) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
        let status = head.split(' ').nth(1).and_then(|s| s.parse().ok()).unwrap_or(0);
        let mut answer = Answer {
            status,
            head: head.to_ascii_lowercase(),
            body: String::new(),
            chunks: Vec::new(),
            complete: false,
        };
        if let Some(length) = answer.header("content-length") {
            answer.complete = length.parse() == Ok(rest.len());
            answer.body = rest.into();
            return answer;
        }
        let mut rest = rest;
        while let Some((size, after)) = rest.split_once("\r\n") {
            let size = usize::from_str_radix(size.trim(), 16).unwrap();
            if size == 0 {
                answer.complete = true;
                break;
            }
            let Some(chunk) = after.get(..size) else { break };
            answer.chunks.push(chunk.into());
            rest = after.get(size + 2..).unwrap_or("");
        }
        answer.body = answer.chunks.concat();
        answer
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
    }

    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.body).unwrap_or_else(|e| panic!("{e}: {self:?}"))
    }

    /// The JSON of each `data:` line, without `[DONE]`.
    pub(crate) fn events(&self) -> Vec<serde_json::Value> {
        let data = self.body.lines().filter_map(|line| line.strip_prefix("data: "));
        data.filter(|data| *data != "[DONE]").map(|data| serde_json::from_str(data).unwrap()).collect()
    }

    /// The text of a streamed chat.
    pub(crate) fn chat_text(&self) -> String {
        let content = |e: &serde_json::Value| e["choices"][0]["delta"]["content"].as_str().map(String::from);
        self.events().iter().filter_map(content).collect()
    }
}

/// A recorded file.
pub(crate) fn recorded(name: &str) -> Vec<u8> {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("testdata").join(name);
    std::fs::read(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}
