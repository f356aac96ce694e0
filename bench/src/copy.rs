//! The floor: a proxy that only copies bytes, one connection to a backend for
//! each connection of a client.

use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::tcp::{ReadHalf, WriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{LocalSet, spawn_local};

use crate::scratch::Scratch;

/// Listens on a free port, says which on standard output, and copies until
/// the process is ended.
pub(crate) fn run(backends: &[&str]) -> Result<(), String> {
    let parse = |text: &&str| text.parse().map_err(|e| format!("address {text:?}: {e}"));
    let backends = backends.iter().map(parse).collect::<Result<Vec<SocketAddr>, String>>()?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|e| format!("runtime: {e}"))?;
    let served = LocalSet::new().block_on(&runtime, async {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        println!("{{\"event\":\"listening\",\"listen\":[\"{}\"]}}", listener.local_addr()?);
        serve(listener, backends).await
    });
    served.map_err(|e: io::Error| e.to_string())
}

/// Copies for every connection that `listener` gets, to the backends in turn.
pub(crate) async fn serve(listener: TcpListener, backends: Vec<SocketAddr>) -> io::Result<()> {
    let scratch = Scratch::new();
    for backend in backends.iter().copied().cycle() {
        let (client, _) = listener.accept().await?;
        let scratch = scratch.clone();
        // A connection that fails is that connection's end and nothing more.
        spawn_local(async move { copy_both(client, backend, &scratch).await });
    }
    Ok(())
}

async fn copy_both(mut client: TcpStream, backend: SocketAddr, scratch: &Scratch) -> io::Result<()> {
    let mut server = TcpStream::connect(backend).await?;
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    let (mut client_read, mut client_write) = client.split();
    let (mut server_read, mut server_write) = server.split();
    // The end of either direction ends both: no client here closes by halves.
    tokio::select! {
        done = copy(&mut client_read, &mut server_write, scratch) => done,
        done = copy(&mut server_read, &mut client_write, scratch) => done,
    }
}

async fn copy(from: &mut ReadHalf<'_>, to: &mut WriteHalf<'_>, scratch: &Scratch) -> io::Result<()> {
    let mut unsent = Unsent::default();
    poll_fn(|cx| {
        loop {
            ready!(unsent.poll_send(cx, to))?;
            let read = scratch.with(|buffer| {
                let mut read = ReadBuf::new(buffer);
                ready!(Pin::new(&mut *from).poll_read(cx, &mut read))?;
                let sent = match Pin::new(&mut *to).poll_write(cx, read.filled())? {
                    Poll::Ready(sent) => sent,
                    Poll::Pending => 0,
                };
                unsent.keep(&read.filled()[sent..]);
                Poll::Ready(Ok::<usize, io::Error>(read.filled().len()))
            });
            if ready!(read)? == 0 {
                return Poll::Ready(Ok(()));
            }
        }
    })
    .await
}

/// Bytes that the socket did not take at once; almost always none.
#[derive(Debug, Default)]
struct Unsent {
    bytes: Vec<u8>,
    sent: usize,
}

impl Unsent {
    fn keep(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    fn poll_send(&mut self, cx: &mut Context<'_>, to: &mut WriteHalf<'_>) -> Poll<io::Result<()>> {
        while self.sent < self.bytes.len() {
            self.sent += ready!(Pin::new(&mut *to).poll_write(cx, &self.bytes[self.sent..]))?;
        }
        self.bytes.clear();
        self.sent = 0;
        Poll::Ready(Ok(()))
    }
}
