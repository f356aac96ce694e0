//! One client connection, kept alive.

use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::http::{Chunked, Framing, Head};
use crate::scratch::Scratch;

const CONNECT_LIMIT: Duration = Duration::from_secs(5);

/// What came back for one request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    /// Bytes of the body, without any framing.
    pub(crate) body: u64,
    /// Server-sent events in it: blank lines.
    pub(crate) events: u64,
    /// The proxy closes the connection after it.
    pub(crate) close: bool,
}

impl Answer {
    pub(crate) fn is_whole(&self, bytes: usize) -> bool {
        self.status == 200 && self.body == bytes as u64
    }
}

pub(crate) struct Connection {
    stream: TcpStream,
    scratch: Scratch,
}

impl Connection {
    pub(crate) async fn open(address: SocketAddr, scratch: &Scratch) -> Result<Connection, String> {
        let stream = match timeout(CONNECT_LIMIT, TcpStream::connect(address)).await {
            Ok(stream) => stream.map_err(|e| format!("connect to {address}: {e}"))?,
            Err(_) => return Err(format!("connect to {address}: no answer")),
        };
        stream.set_nodelay(true).map_err(|e| e.to_string())?;
        Ok(Connection { stream, scratch: scratch.clone() })
    }

    /// Sends `request` and reads the whole answer. `event` is called for each
    /// streamed event when it comes.
    pub(crate) async fn exchange(&mut self, request: &[u8], event: &dyn Fn()) -> Result<Answer, String> {
        self.stream.write_all(request).await.map_err(|e| format!("send: {e}"))?;
        let mut reader = Reader::default();
        while !reader.is_done() {
            let read = self
                .scratch
                .read(&mut self.stream, usize::MAX, |bytes| reader.feed(bytes, event).map(|()| bytes.len()));
            if read.await.map_err(|e| format!("receive: {e}"))?? == 0 {
                return Err("the connection was closed before the answer ended".to_owned());
            }
        }
        reader.answer()
    }
}

/// Reads one answer from bytes cut anywhere.
#[derive(Debug, Default)]
struct Reader {
    /// The bytes so far of a head that is not whole yet.
    partial: Vec<u8>,
    head: Option<Head>,
    chunked: Chunked,
    body: u64,
    events: u64,
    last_byte: u8,
}

impl Reader {
    fn feed(&mut self, bytes: &[u8], event: &dyn Fn()) -> Result<(), String> {
        if self.head.is_some() {
            return self.feed_body(bytes, event);
        }
        self.partial.extend_from_slice(bytes);
        let Some(head) = Head::parse(&self.partial)? else { return Ok(()) };
        let rest = self.partial.split_off(head.length);
        self.head = Some(head);
        self.feed_body(&rest, event)
    }

    fn feed_body(&mut self, bytes: &[u8], event: &dyn Fn()) -> Result<(), String> {
        let Some(Head { framing, .. }) = self.head else { return Ok(()) };
        let before = self.body;
        let (body, events, last_byte) = (&mut self.body, &mut self.events, &mut self.last_byte);
        let mut count = |data: &[u8]| {
            *body += data.len() as u64;
            for &byte in data {
                if byte == b'\n' && *last_byte == b'\n' {
                    *events += 1;
                    event();
                }
                *last_byte = byte;
            }
        };
        let taken = match framing {
            Framing::Chunked => self.chunked.feed(bytes, count)?,
            Framing::Length(length) if before + bytes.len() as u64 <= length => {
                count(bytes);
                bytes.len()
            }
            Framing::Length(length) => return Err(format!("more than the {length} bytes of the answer")),
            Framing::Unsaid => return Err("an answer without a length".to_owned()),
        };
        if taken < bytes.len() { Err("bytes after the answer".to_owned()) } else { Ok(()) }
    }

    fn is_done(&self) -> bool {
        match self.head.as_ref().map(|head| head.framing) {
            Some(Framing::Length(length)) => self.body >= length,
            Some(Framing::Chunked) => self.chunked.is_done(),
            Some(Framing::Unsaid) | None => false,
        }
    }

    fn answer(&self) -> Result<Answer, String> {
        let head = self.head.as_ref().ok_or("no head")?;
        let (body, events, close) = (self.body, self.events, head.close);
        Ok(Answer { status: head.status()?, body, events, close })
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn reads_answers_at_every_cut() {
        let stream = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n\
            6\r\na: 1\n\n\r\n3\r\nb: \r\n3\r\n2\n\n\r\n0\r\n\r\n";
        let whole = "HTTP/1.1 503 No\r\nContent-Length: 5\r\nConnection: close\r\n\r\nab\n\nc";
        for (text, expect) in [
            (stream, Answer { status: 200, body: 12, events: 2, close: false }),
            (whole, Answer { status: 503, body: 5, events: 1, close: true }),
        ] {
            for cut in 0..text.len() {
                let (seen, mut reader) = (Cell::new(0), Reader::default());
                let event = || seen.set(seen.get() + 1);
                reader.feed(&text.as_bytes()[..cut], &event).unwrap();
                assert!(!reader.is_done());
                reader.feed(&text.as_bytes()[cut..], &event).unwrap();
                assert!(reader.is_done());
                assert_eq!((reader.answer(), seen.get()), (Ok(expect), expect.events), "cut at {cut}");
            }
        }
    }

    #[test]
    fn refuses_what_does_not_add_up() {
        for text in [
            "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nab",
            "HTTP/1.1 200 OK\r\n\r\nab",
            "HTTP/1.1\r\nx\r\n\r\n",
        ] {
            assert!(Reader::default().feed(text.as_bytes(), &|| {}).is_err(), "{text:?}");
        }
    }
}
