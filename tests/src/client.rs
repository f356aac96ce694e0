//! A raw-TCP client with the backend's powers: exact segments, half-close,
//! RST, and a reading side that knows a whole answer from a cut one.

use std::net::SocketAddr;
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::time::{Instant, timeout};

use crate::LIMIT;
use crate::chunked::ChunkDecoder;
use crate::http1::{self, Head};
use crate::socket;

/// How reading came to its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// The message is whole by its own framing.
    Complete,
    /// End of input: whole for a body that only the close delimits, a cut for every other.
    Fin,
    /// The connection was reset.
    Rst,
    /// Nothing more came within the limit.
    Limit,
    /// The framing was wrong.
    Bad(String),
}

enum Framing {
    None,
    Chunked(ChunkDecoder),
    Length(usize),
    Close,
}

/// A whole or cut answer.
#[derive(Clone, Debug)]
pub struct Response {
    /// Status line and fields.
    pub head: Head,
    /// The payload without transfer framing.
    pub body: Vec<u8>,
    /// The payload as it came, read by read, with arrival times.
    pub pieces: Vec<(Instant, Vec<u8>)>,
    /// Why reading ended.
    pub end: End,
    /// When reading ended.
    pub ended: Instant,
    framed: bool,
}

impl Response {
    /// The status.
    pub fn status(&self) -> u16 {
        self.head.status()
    }

    /// True when the client can rely on having all of it.
    pub fn is_complete(&self) -> bool {
        self.end == End::Complete || (self.end == End::Fin && !self.framed)
    }

    /// True when the connection ended and the client can tell that something is missing.
    pub fn is_cut(&self) -> bool {
        (self.end == End::Fin && self.framed) || self.end == End::Rst
    }

    /// The body as JSON; panics when it is none.
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|e| {
            panic!("{} with a body that is not JSON ({e}): {:?}", self.head.start, self.text())
        })
    }

    /// The body as text, for messages.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}

/// One connection of a client.
pub struct Client {
    stream: TcpStream,
    buffer: Vec<u8>,
    framing: Framing,
    end: Option<End>,
}

impl Client {
    /// Connects, with `TCP_NODELAY`.
    pub async fn connect(addr: SocketAddr) -> Client {
        let stream =
            timeout(LIMIT, TcpStream::connect(addr)).await.expect("connecting takes too long").unwrap();
        stream.set_nodelay(true).unwrap();
        Client { stream, buffer: Vec::new(), framing: Framing::None, end: None }
    }

    /// Sends bytes as one segment; panics when the peer is gone.
    pub async fn send(&mut self, bytes: &[u8]) {
        self.try_send(bytes).await.expect("the gateway closed while the client was sending");
    }

    /// Sends bytes; an error when the peer is gone.
    pub async fn try_send(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        timeout(LIMIT, socket::write_all(&self.stream, bytes)).await.expect("sending takes too long")
    }

    /// Sends each piece as a segment of its own, `gap` apart.
    pub async fn send_segments<'a>(&mut self, pieces: impl IntoIterator<Item = &'a [u8]>, gap: Duration) {
        for piece in pieces {
            self.send(piece).await;
            tokio::time::sleep(gap).await;
        }
    }

    /// Sends FIN and goes on reading.
    pub fn half_close(&self) {
        socket::half_close(&self.stream);
    }

    /// Closes with an RST.
    pub fn reset(self) {
        socket::abort_on_drop(&self.stream);
    }

    /// Closes with a FIN (an RST follows when unread data is left, as with any program).
    pub fn close(self) {}

    /// Reads once into the buffer; false at the end of input, which is then in `self.end`.
    async fn fill(&mut self, deadline: Instant) -> bool {
        let mut buffer = vec![0; 64 * 1024];
        let got = match tokio::time::timeout_at(deadline, socket::read_some(&self.stream, &mut buffer)).await
        {
            Err(_) => Err(End::Limit),
            Ok(Ok(0)) => Err(End::Fin),
            Ok(Ok(n)) => Ok(n),
            Ok(Err(_)) => Err(End::Rst),
        };
        match got {
            Ok(n) => {
                self.buffer.extend_from_slice(&buffer[..n]);
                true
            }
            Err(end) => {
                self.end = Some(end);
                false
            }
        }
    }

    /// The next response head, `100 Continue` too; what happened instead when there is none.
    pub async fn try_head(&mut self, method: &str, limit: Duration) -> Result<Head, End> {
        let deadline = Instant::now() + limit;
        let (head, len) = loop {
            if let Some(found) = Head::parse(&self.buffer) {
                break found;
            }
            if !self.fill(deadline).await {
                return Err(self.end.clone().unwrap_or(End::Fin));
            }
        };
        self.buffer.drain(..len);
        let status = head.status();
        self.framing = if method == "HEAD" || status < 200 || status == 204 || status == 304 {
            Framing::None
        } else if head.is_chunked() {
            Framing::Chunked(ChunkDecoder::default())
        } else if let Some(len) = head.content_length() {
            Framing::Length(len)
        } else {
            Framing::Close
        };
        Ok(head)
    }

    /// The next response head; panics when there is none.
    pub async fn head(&mut self) -> Head {
        match self.try_head("POST", LIMIT).await {
            Ok(head) => head,
            Err(end) => panic!("no response head: {end:?}, got {:?}", String::from_utf8_lossy(&self.buffer)),
        }
    }

    /// Payload that has come, waiting for some; none at the end of the body.
    pub async fn piece(&mut self, deadline: Instant) -> Result<Vec<u8>, End> {
        loop {
            let came = std::mem::take(&mut self.buffer);
            match &mut self.framing {
                Framing::None => {
                    self.buffer = came;
                    return Err(End::Complete);
                }
                Framing::Length(left) => {
                    if *left == 0 {
                        self.buffer = came;
                        return Err(End::Complete);
                    }
                    if !came.is_empty() {
                        let n = came.len().min(*left);
                        *left -= n;
                        self.buffer = came[n..].to_vec();
                        return Ok(came[..n].to_vec());
                    }
                }
                Framing::Chunked(decoder) => {
                    let payload = decoder.push(&came);
                    if let Some(why) = decoder.error() {
                        return Err(End::Bad(why.to_string()));
                    }
                    if !payload.is_empty() {
                        return Ok(payload);
                    }
                    if decoder.is_done() {
                        self.buffer = decoder.take_rest();
                        return Err(End::Complete);
                    }
                }
                Framing::Close => {
                    if !came.is_empty() {
                        return Ok(came);
                    }
                }
            }
            if !self.fill(deadline).await {
                return Err(self.end.clone().unwrap_or(End::Fin));
            }
        }
    }

    /// Reads payload until `enough` says so of all that came since this call; panics when the body ends first.
    pub async fn read_until(&mut self, what: &str, mut enough: impl FnMut(&[u8]) -> bool) -> Vec<u8> {
        let deadline = Instant::now() + LIMIT;
        let mut got = Vec::new();
        while !enough(&got) {
            match self.piece(deadline).await {
                Ok(piece) => got.extend(piece),
                Err(end) => panic!("waited for {what}: {end:?} after {:?}", String::from_utf8_lossy(&got)),
            }
        }
        got
    }

    /// The rest of the body under an already read head.
    pub async fn rest(&mut self, head: Head) -> Response {
        self.rest_within(head, LIMIT).await
    }

    /// As [`Client::rest`] with a limit of the caller's for the whole.
    pub async fn rest_within(&mut self, head: Head, limit: Duration) -> Response {
        let deadline = Instant::now() + limit;
        let framed = !matches!(self.framing, Framing::Close);
        let mut pieces = Vec::new();
        let mut body = Vec::new();
        let end = loop {
            match self.piece(deadline).await {
                Ok(piece) => {
                    body.extend_from_slice(&piece);
                    pieces.push((Instant::now(), piece));
                }
                Err(end) => break end,
            }
        };
        self.framing = Framing::None;
        Response { head, body, pieces, end, ended: Instant::now(), framed }
    }

    /// The next whole response, past any `100 Continue`.
    pub async fn response(&mut self) -> Response {
        self.response_within(LIMIT).await
    }

    /// As [`Client::response`] with a limit of the caller's for head and body each.
    pub async fn response_within(&mut self, limit: Duration) -> Response {
        loop {
            let head = match self.try_head("POST", limit).await {
                Ok(head) => head,
                Err(end) => {
                    panic!("no response: {end:?}, got {:?}", String::from_utf8_lossy(&self.buffer))
                }
            };
            if head.status() >= 200 {
                return self.rest_within(head, limit).await;
            }
        }
    }

    /// Sends one request and reads its response.
    pub async fn exchange(&mut self, request: &[u8]) -> Response {
        self.send(request).await;
        self.response().await
    }

    /// Everything until the peer closes, with what is buffered already, as raw bytes.
    pub async fn raw_rest(&mut self) -> (Vec<u8>, End) {
        let deadline = Instant::now() + LIMIT;
        while self.fill(deadline).await {}
        (std::mem::take(&mut self.buffer), self.end.clone().unwrap_or(End::Fin))
    }

    /// True when the peer closes within `limit` and sends nothing before.
    pub async fn closes_within(&mut self, limit: Duration) -> bool {
        let deadline = Instant::now() + limit;
        !self.fill(deadline).await && self.end != Some(End::Limit)
    }
}

/// Sends one request on a connection of its own.
pub async fn exchange(addr: SocketAddr, request: &[u8]) -> Response {
    Client::connect(addr).await.exchange(request).await
}

/// A JSON `POST` on a connection of its own.
pub async fn post(addr: SocketAddr, target: &str, body: &[u8]) -> Response {
    exchange(addr, &http1::post(target, body)).await
}

/// A `GET` on a connection of its own.
pub async fn get(addr: SocketAddr, target: &str) -> Response {
    exchange(addr, &http1::request("GET", target, &[], b"")).await
}
