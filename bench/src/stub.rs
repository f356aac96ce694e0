//! A model server that costs next to nothing: a fixed answer, or a stream of
//! fixed events at the pace that the request asks for.

mod answers;
mod wish;

use std::io;
use std::net::SocketAddr;

use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{LocalSet, spawn_local};
use tokio::time::{Instant, sleep_until};

use crate::http::{Framing, Head};
use crate::scratch::Scratch;
pub(crate) use answers::ANSWER_BYTES;
use answers::Answers;
pub(crate) use wish::Wish;

/// Bytes of a request's body that are looked at.
const LOOKED_AT: usize = 512;
/// No head that a proxy sends here is longer.
const LONGEST_HEAD: usize = 32 * 1024;

/// Starts `count` servers on free ports, all on one thread that lives as long
/// as the process. Returns their addresses.
pub(crate) fn spawn(count: usize) -> Result<Vec<SocketAddr>, String> {
    let mut listeners = Vec::new();
    let mut addresses = Vec::new();
    for _ in 0..count {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").map_err(|e| format!("stub: {e}"))?;
        listener.set_nonblocking(true).map_err(|e| format!("stub: {e}"))?;
        addresses.push(listener.local_addr().map_err(|e| format!("stub: {e}"))?);
        listeners.push(listener);
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|e| format!("stub: {e}"))?;
    std::thread::spawn(move || {
        LocalSet::new().block_on(&runtime, async move {
            let servers: Vec<_> =
                listeners.into_iter().filter_map(|l| TcpListener::from_std(l).ok()).map(serve).collect();
            for server in servers.into_iter().map(spawn_local).collect::<Vec<_>>() {
                let _ = server.await;
            }
        });
    });
    Ok(addresses)
}

/// Answers every connection of `listener`. Must run in a `LocalSet`.
pub(crate) async fn serve(listener: TcpListener) -> io::Result<()> {
    let (scratch, answers) = (Scratch::new(), Answers::new());
    loop {
        let (stream, _) = listener.accept().await?;
        let (scratch, answers) = (scratch.clone(), answers.clone());
        // Whatever ends a connection, the next one starts anew.
        spawn_local(async move { connection(stream, &scratch, &answers).await });
    }
}

async fn connection(mut stream: TcpStream, scratch: &Scratch, answers: &Answers) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut unread = Vec::new();
    while let Some(head) = read_head(&mut stream, scratch, &mut unread).await? {
        unread.drain(..head.length);
        let Framing::Length(length) = head.framing else {
            let bytes = answers.without_body(&head.start_line);
            stream.write_all(bytes).await?;
            if head.framing == Framing::Chunked {
                // Its body was not read, so nothing after it can be understood.
                return Ok(());
            }
            continue;
        };
        let start = read_body(&mut stream, scratch, &mut unread, length).await?;
        match Wish::parse(&start) {
            None => stream.write_all(answers.whole()).await?,
            Some(wish) => stream_events(&mut stream, scratch, answers, wish).await?,
        }
    }
    Ok(())
}

/// Reads until `unread` starts with a whole head; `None` at the end.
async fn read_head(
    stream: &mut TcpStream,
    scratch: &Scratch,
    unread: &mut Vec<u8>,
) -> io::Result<Option<Head>> {
    loop {
        match Head::parse(unread) {
            Ok(Some(head)) => return Ok(Some(head)),
            Ok(None) if unread.len() < LONGEST_HEAD => {}
            Ok(None) => return Err(io::Error::other("a head without an end")),
            Err(e) => return Err(io::Error::other(e)),
        }
        let read = scratch.read(stream, usize::MAX, |bytes| {
            unread.extend_from_slice(bytes);
            bytes.len()
        });
        if read.await? == 0 {
            return Ok(None);
        }
    }
}

/// Reads a body of `length` bytes and returns its start. What comes after it
/// stays in `unread`.
async fn read_body(
    stream: &mut TcpStream,
    scratch: &Scratch,
    unread: &mut Vec<u8>,
    length: u64,
) -> io::Result<Vec<u8>> {
    let mut left = usize::try_from(length).map_err(io::Error::other)?;
    let here = left.min(unread.len());
    let mut start: Vec<u8> = unread.drain(..here).take(LOOKED_AT).collect();
    left -= here;
    while left > 0 {
        let read = scratch.read(stream, left, |bytes| {
            start.extend(bytes.iter().take(LOOKED_AT.saturating_sub(start.len())));
            bytes.len()
        });
        match read.await? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            read => left -= read,
        }
    }
    Ok(start)
}

async fn stream_events(
    stream: &mut TcpStream,
    scratch: &Scratch,
    answers: &Answers,
    wish: Wish,
) -> io::Result<()> {
    stream.write_all(answers.stream_head()).await?;
    let start = Instant::now();
    for nth in 0..wish.events {
        sleep_until(start + wish.pace * nth).await;
        stream.write_all(answers.event()).await?;
    }
    if wish.hold {
        // Reads until the client has gone; it sends nothing while it waits.
        scratch.read(stream, usize::MAX, |_| ()).await?;
        return Err(io::ErrorKind::ConnectionReset.into());
    }
    stream.write_all(answers.stream_end()).await
}

#[cfg(test)]
mod tests;
