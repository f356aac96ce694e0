//! One accepted connection: read and log everything, answer by the script.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use parking_lot::Mutex;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::Instant;

use super::{ConnectionLog, Mode, PeerEnd, RequestLog, Shared, Step};
use crate::bodies;
use crate::chunked::ChunkDecoder;
use crate::http1::Head;
use crate::socket;

pub(super) async fn accept(listener: TcpListener, shared: Arc<Shared>) {
    // Dropped with this task, and every connection with it.
    let mut connections = JoinSet::new();
    loop {
        let Ok((stream, _)) = listener.accept().await else { continue };
        let number = {
            let mut log = shared.connections.lock();
            log.push(ConnectionLog {
                opened: Instant::now(),
                bytes: Vec::new(),
                requests: 0,
                peer_end: None,
            });
            log.len() - 1
        };
        let _ = stream.set_nodelay(true);
        connections.spawn(serve(Arc::new(stream), number, Arc::clone(&shared)));
        while connections.try_join_next().is_some() {}
    }
}

/// What the reading side has that the answering side has not taken yet.
#[derive(Default)]
struct Inbox {
    bytes: Mutex<(Vec<u8>, bool)>,
    news: Notify,
}

impl Inbox {
    fn ended(&self) -> bool {
        self.bytes.lock().1
    }

    /// Waits for bytes beyond `seen` or for the end; false at the end.
    async fn more_than(&self, seen: usize) -> bool {
        loop {
            let news = self.news.notified();
            {
                let inner = self.bytes.lock();
                if inner.0.len() > seen {
                    return true;
                }
                if inner.1 {
                    return false;
                }
            }
            news.await;
        }
    }

    async fn peer_gone(&self) {
        loop {
            let news = self.news.notified();
            if self.ended() {
                return;
            }
            news.await;
        }
    }
}

async fn read(stream: Arc<TcpStream>, number: usize, shared: Arc<Shared>, inbox: Arc<Inbox>) {
    let mut buffer = vec![0; 256 * 1024];
    loop {
        let got = socket::read_some(&stream, &mut buffer).await;
        let mut log = shared.connections.lock();
        match got {
            Ok(n) if n > 0 => {
                if shared.keeps_bytes.load(Ordering::Relaxed) {
                    log[number].bytes.extend_from_slice(&buffer[..n]);
                }
                inbox.bytes.lock().0.extend_from_slice(&buffer[..n]);
            }
            end => {
                let kind = if end.is_ok() { PeerEnd::Fin } else { PeerEnd::Rst };
                log[number].peer_end = Some((Instant::now(), kind));
                inbox.bytes.lock().1 = true;
                inbox.news.notify_one();
                return;
            }
        }
        drop(log);
        inbox.news.notify_one();
    }
}

/// Ends the reader with the connection, so that the socket really closes.
struct Reader(JoinHandle<()>);

impl Drop for Reader {
    fn drop(&mut self) {
        self.0.abort();
    }
}

async fn serve(stream: Arc<TcpStream>, number: usize, shared: Arc<Shared>) {
    if *shared.mode.lock() == Mode::Reset {
        socket::abort_on_drop(&stream);
        return;
    }
    let inbox = Arc::new(Inbox::default());
    let mut reader =
        Reader(tokio::spawn(read(Arc::clone(&stream), number, Arc::clone(&shared), Arc::clone(&inbox))));
    while let Some(mut request) = next_request(&stream, &inbox, &shared).await {
        let mode = *shared.mode.lock();
        let answer = match probe(&request, &shared) {
            Some(answer) if mode != Mode::Black => answer,
            Some(_) => vec![Step::Stall],
            None => {
                request.connection = number;
                request.index = shared.next_request.fetch_add(1, Ordering::SeqCst);
                shared.connections.lock()[number].requests += 1;
                let handler = Arc::clone(&shared.handler.lock());
                let answer = if mode == Mode::Serve { handler(&request) } else { vec![Step::Stall] };
                if !shared.keeps_bytes.load(Ordering::Relaxed) {
                    (request.raw, request.body) = (Vec::new(), Vec::new());
                }
                let mut requests = shared.requests.lock();
                requests.push(request);
                // Two connections may get here out of order.
                requests.sort_by_key(|r| r.index);
                answer
            }
        };
        for step in answer {
            match step {
                Step::Send(bytes) => {
                    if socket::write_all(&stream, &bytes).await.is_err() {
                        inbox.peer_gone().await;
                        return;
                    }
                }
                Step::Sleep(time) => tokio::time::sleep(time).await,
                Step::Wait(gate) => gate.passed().await,
                Step::Stall => return inbox.peer_gone().await,
                Step::Fin => {
                    socket::half_close(&stream);
                    return inbox.peer_gone().await;
                }
                Step::Rst => {
                    reader.0.abort();
                    let _ = (&mut reader.0).await;
                    socket::abort_on_drop(&stream);
                    return;
                }
            }
        }
    }
}

/// The next whole request; none when the peer has ended first.
async fn next_request(stream: &TcpStream, inbox: &Inbox, shared: &Shared) -> Option<RequestLog> {
    let (head, head_len) = loop {
        let seen = {
            let inner = inbox.bytes.lock();
            if let Some(found) = Head::parse(&inner.0) {
                break found;
            }
            inner.0.len()
        };
        if !inbox.more_than(seen).await {
            return None;
        }
    };
    let error = |why: String| {
        shared.errors.lock().push(format!("{}: {why}", head.start));
        None
    };
    let framings = head.count("content-length") + head.count("transfer-encoding");
    if framings > 1 {
        return error(format!("{framings} framing headers"));
    }
    if head.get("expect").is_some()
        && socket::write_all(stream, b"HTTP/1.1 100 Continue\r\n\r\n").await.is_err()
    {
        return None;
    }
    let (body, total) = if head.is_chunked() {
        let mut decoder = ChunkDecoder::default();
        let mut body = Vec::new();
        let mut taken = head_len;
        loop {
            {
                let inner = inbox.bytes.lock();
                body.extend(decoder.push(&inner.0[taken..]));
                taken = inner.0.len();
            }
            if let Some(why) = decoder.error() {
                return error(why.to_string());
            }
            if decoder.is_done() {
                break;
            }
            if !inbox.more_than(taken).await {
                return None;
            }
        }
        (body, taken - decoder.take_rest().len())
    } else {
        let len = match head.get("content-length") {
            Some(text) => match text.parse::<usize>() {
                Ok(len) => len,
                Err(_) => return error(format!("Content-Length {text:?}")),
            },
            None => 0,
        };
        let total = head_len + len;
        while inbox.bytes.lock().0.len() < total {
            let seen = inbox.bytes.lock().0.len();
            if !inbox.more_than(seen).await {
                return None;
            }
        }
        (inbox.bytes.lock().0[head_len..total].to_vec(), total)
    };
    let raw = inbox.bytes.lock().0.drain(..total).collect();
    Some(RequestLog { index: 0, connection: 0, head, raw, body, at: Instant::now() })
}

/// The answer to the requests that every backend answers by itself.
fn probe(request: &RequestLog, shared: &Shared) -> Option<Vec<Step>> {
    if request.head.method() != "GET" {
        return None;
    }
    if let Some(answer) = shared.pages.lock().get(request.head.target()) {
        return Some(answer.clone());
    }
    let text = |status, body: &str| {
        Some(vec![Step::send(bodies::response(status, &[("Content-Type", "text/plain")], body.as_bytes()))])
    };
    match request.head.target() {
        "/health" if shared.healthy.load(Ordering::SeqCst) => text("200 OK", ""),
        "/health" => text("503 Service Unavailable", ""),
        "/metrics" => text(
            "200 OK",
            "# TYPE vllm:num_requests_running gauge\nvllm:num_requests_running{engine=\"0\",model_name=\"tide-7b\"} 0.0\n\
             # TYPE vllm:num_requests_waiting gauge\nvllm:num_requests_waiting{engine=\"0\",model_name=\"tide-7b\"} 0.0\n\
             # TYPE vllm:kv_cache_usage_perc gauge\nvllm:kv_cache_usage_perc{engine=\"0\",model_name=\"tide-7b\"} 0.0\n",
        ),
        "/v1/models" => {
            let name = shared.models.lock().clone();
            let body = format!(
                r#"{{"object":"list","data":[{{"id":"{name}","object":"model","created":1790000000,"owned_by":"rig"}}]}}"#
            );
            Some(bodies::json("200 OK", body.as_bytes()))
        }
        _ => None,
    }
}
