//! ZMTP 3.0 without authentication: the part that a subscriber needs.
//!
//! A connection begins with 64 bytes of greeting from both sides and a READY
//! command with the type of socket. Then come messages of one or more frames;
//! a frame is a byte of flags, a length of one or eight bytes, and the body.
//! A SUB socket subscribes with a message of byte 1 and the topic.

mod handshake;

use std::io;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::time::timeout;

/// Frames of a message, at most. A replay has four.
const MAX_FRAMES: usize = 16;

const MORE: u8 = 1;
const LONG: u8 = 2;
const COMMAND: u8 = 4;

/// What a connection runs over.
pub(super) trait Io: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Io for T {}

/// Our side of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Socket {
    Sub,
    Dealer,
}

#[derive(Debug, thiserror::Error)]
pub(super) enum ZmtpError {
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error("no ZeroMQ peer: {0}")]
    Protocol(&'static str),
    #[error("a message is longer than {0} bytes")]
    TooLong(usize),
    #[error("nothing came in time")]
    Slow,
}

/// Bounds on what a peer may do.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// Bytes of a message.
    pub(super) message: usize,
    /// From the first byte of a frame to its last, and for writing.
    pub(super) time: Duration,
}

/// A connection after its handshake.
pub(super) struct Connection {
    io: BufReader<Box<dyn Io>>,
    limits: Limits,
}

struct Frame {
    flags: u8,
    body: Vec<u8>,
}

impl Connection {
    /// Shakes hands. The caller bounds the time.
    pub(super) async fn open(
        io: Box<dyn Io>,
        socket: Socket,
        limits: Limits,
    ) -> Result<Connection, ZmtpError> {
        let mut connection = Connection { io: BufReader::new(io), limits };
        handshake::run(&mut connection, socket).await?;
        Ok(connection)
    }

    /// Asks for what is published under topics that begin with `topic`.
    pub(super) async fn subscribe(&mut self, topic: &[u8]) -> Result<(), ZmtpError> {
        let message = [&[1], topic].concat();
        self.send(&[&message]).await
    }

    /// Sends one message.
    pub(super) async fn send(&mut self, frames: &[&[u8]]) -> Result<(), ZmtpError> {
        let mut bytes = Vec::new();
        for (at, frame) in frames.iter().enumerate() {
            let more = if at + 1 < frames.len() { MORE } else { 0 };
            put_frame(more, frame, &mut bytes);
        }
        self.write(&bytes).await
    }

    async fn write(&mut self, bytes: &[u8]) -> Result<(), ZmtpError> {
        let write = async {
            self.io.write_all(bytes).await?;
            self.io.flush().await
        };
        Ok(timeout(self.limits.time, write).await.map_err(|_| ZmtpError::Slow)??)
    }

    /// The frames of the next message. Waits for its first byte without limit.
    /// Not to be dropped before it is done, but with the connection.
    pub(super) async fn receive(&mut self) -> Result<Vec<Vec<u8>>, ZmtpError> {
        let mut frames = Vec::new();
        let mut left = self.limits.message;
        loop {
            let frame = self.frame(left).await?;
            if frame.flags & COMMAND != 0 {
                self.answer_command(&frame.body).await?;
                continue;
            }
            left -= frame.body.len();
            frames.push(frame.body);
            if frame.flags & MORE == 0 {
                return Ok(frames);
            }
            if frames.len() == MAX_FRAMES {
                return Err(ZmtpError::Protocol("a message has too many frames"));
            }
        }
    }

    /// Reads a frame of `left` bytes at most. Memory grows with what arrives,
    /// not with the length that a peer claims.
    async fn frame(&mut self, left: usize) -> Result<Frame, ZmtpError> {
        let flags = self.io.read_u8().await?;
        if flags & !(MORE | LONG | COMMAND) != 0 {
            return Err(ZmtpError::Protocol("a frame has unknown flags"));
        }
        let rest = async {
            let length = match flags & LONG {
                0 => u64::from(self.io.read_u8().await?),
                _ => self.io.read_u64().await?,
            };
            if length > left as u64 {
                return Err(ZmtpError::TooLong(self.limits.message));
            }
            let mut body = Vec::new();
            (&mut self.io).take(length).read_to_end(&mut body).await?;
            if (body.len() as u64) < length {
                return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
            }
            Ok(Frame { flags, body })
        };
        timeout(self.limits.time, rest).await.map_err(|_| ZmtpError::Slow)?
    }

    /// A heartbeat is answered; what else there is needs nothing.
    async fn answer_command(&mut self, body: &[u8]) -> Result<(), ZmtpError> {
        match body.split_first_chunk::<5>() {
            // Two bytes say how long the peer waits; what follows is sent back.
            Some((b"\x04PING", rest)) => {
                let context = rest.get(2..).unwrap_or_default();
                let mut bytes = Vec::new();
                put_frame(COMMAND, &[b"\x04PONG", context].concat(), &mut bytes);
                self.write(&bytes).await
            }
            _ if body.starts_with(b"\x05ERROR") => Err(ZmtpError::Protocol("the peer refuses")),
            _ => Ok(()),
        }
    }
}

fn put_frame(flags: u8, body: &[u8], out: &mut Vec<u8>) {
    match u8::try_from(body.len()) {
        Ok(short) => out.extend([flags, short]),
        Err(_) => {
            out.push(flags | LONG);
            out.extend((body.len() as u64).to_be_bytes());
        }
    }
    out.extend_from_slice(body);
}

#[cfg(test)]
mod tests;
