//! A socket that an HTTP connection owns and that can still be looked at.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use socket2::SockRef;
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};
use tokio::net::TcpStream;

/// A TCP stream behind a reference; reading and writing need no more.
#[derive(Clone, Debug)]
pub(super) struct SharedSocket(Arc<TcpStream>);

impl SharedSocket {
    pub(super) fn new(stream: TcpStream) -> SharedSocket {
        SharedSocket(Arc::new(stream))
    }

    /// A read that did not fill its buffer has emptied the socket: the runtime is
    /// told so, which saves a second read that finds nothing. (tokio's own
    /// stream does the same. Sound only while socket and reader share a thread: the
    /// runtime must not hear of new bytes between the read and this. What comes later brings a new event.)
    fn drained(&self) {
        let _ =
            self.0.try_io(Interest::READABLE, || -> io::Result<()> { Err(io::ErrorKind::WouldBlock.into()) });
    }

    /// True when the peer has neither closed nor sent anything: what an idle
    /// connection must be like. One system call; does not block.
    pub(super) fn is_quiet(&self) -> bool {
        let mut byte = [std::mem::MaybeUninit::uninit(); 1];
        match SockRef::from(&*self.0).peek(&mut byte) {
            Ok(_) => false,
            Err(error) => error.kind() == io::ErrorKind::WouldBlock,
        }
    }
}

impl AsyncRead for SharedSocket {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        loop {
            ready!(self.0.poll_read_ready(cx))?;
            match self.0.try_read_buf(buf) {
                Ok(read) => {
                    if read > 0 && buf.remaining() > 0 {
                        self.drained();
                    }
                    return Poll::Ready(Ok(()));
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
    }
}

impl AsyncWrite for SharedSocket {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        loop {
            ready!(self.0.poll_write_ready(cx))?;
            match self.0.try_write(buf) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                result => return Poll::Ready(result),
            }
        }
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        loop {
            ready!(self.0.poll_write_ready(cx))?;
            match self.0.try_write_vectored(bufs) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                result => return Poll::Ready(result),
            }
        }
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(SockRef::from(&*self.0).shutdown(std::net::Shutdown::Write))
    }
}
