use std::future::poll_fn;
use std::task::Poll;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use super::*;

async fn pair(half_close: bool) -> (TcpStream, ClientIo, Watch) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
    let (server, _) = listener.accept().await.unwrap();
    let (io, watch) = ClientIo::new(server, half_close);
    (client, io, watch)
}

async fn read_all(io: ClientIo) -> Vec<u8> {
    let mut io = hyper_util::rt::TokioIo::new(io);
    let mut all = Vec::new();
    io.read_to_end(&mut all).await.unwrap();
    all
}

#[tokio::test]
async fn a_close_behind_pipelined_bytes_is_noticed_and_no_byte_is_lost() {
    let (mut client, io, watch) = pair(false).await;
    watch.request_begins();
    watch.answer_begins();
    client.write_all(b"GET /next HTTP/1.1\r\n").await.unwrap();
    drop(client);
    poll_fn(|cx| watch.poll_gone(cx)).await;
    assert_eq!(read_all(io).await, b"GET /next HTTP/1.1\r\n");
}

#[tokio::test]
async fn nobody_is_gone_while_no_answer_is_awaited() {
    let (client, _io, watch) = pair(false).await;
    drop(client);
    watch.request_begins();
    let pending = poll_fn(|cx| Poll::Ready(watch.poll_gone(cx).is_pending())).await;
    assert!(pending);
    watch.answer_begins();
    poll_fn(|cx| watch.poll_gone(cx)).await;
}

#[tokio::test]
async fn half_close_is_not_gone_where_it_is_allowed_but_reset_is() {
    let (mut client, _io, watch) = pair(true).await;
    watch.request_begins();
    watch.answer_begins();
    client.shutdown().await.unwrap();
    // The end arrives; it must not count.
    for _ in 0..20 {
        tokio::task::yield_now().await;
        assert!(poll_fn(|cx| Poll::Ready(watch.poll_gone(cx).is_pending())).await);
    }
    let (client, _io, watch) = pair(true).await;
    watch.request_begins();
    watch.answer_begins();
    client.set_zero_linger().unwrap();
    drop(client);
    poll_fn(|cx| watch.poll_gone(cx)).await;
}

#[tokio::test]
async fn the_preface_tells_the_protocols_apart_at_any_split() {
    for (bytes, want) in [
        (b"POST / HTTP/1.1\r\n\r\n".as_slice(), Preface::Http1),
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".as_slice(), Preface::Http2),
        (b"PRI * HTTP/1.1\r\n\r\n".as_slice(), Preface::Http1),
        (b"".as_slice(), Preface::Nothing),
    ] {
        let (mut client, io, watch) = pair(false).await;
        let send = async {
            client.set_nodelay(true).unwrap();
            for byte in bytes {
                client.write_all(&[*byte]).await.unwrap();
                tokio::task::yield_now().await;
            }
            drop(client);
        };
        let (preface, ()) = tokio::join!(watch.preface(), send);
        assert_eq!(preface.unwrap(), want);
        assert_eq!(read_all(io).await, bytes);
    }
}

#[tokio::test]
async fn the_head_timer_starts_with_the_first_byte_and_ends_with_the_head() {
    let (mut client, mut io, watch) = pair(false).await;
    watch.inner.lock().http1 = true;
    let (head, idle) = (Duration::from_secs(1), Duration::from_secs(100));
    assert!(watch.deadline(head, idle).unwrap() > Instant::now() + Duration::from_secs(50));
    client.write_all(b"P").await.unwrap();
    let mut buf = [0; 8];
    let mut buf = hyper::rt::ReadBuf::new(&mut buf);
    poll_fn(|cx| Pin::new(&mut io).poll_read(cx, buf.unfilled())).await.unwrap();
    assert!(watch.deadline(head, idle).unwrap() < Instant::now() + Duration::from_secs(50));
    watch.request_begins();
    assert_eq!(watch.deadline(head, idle), None);
    watch.answer_begins();
    watch.request_ends(true);
    assert!(watch.deadline(head, idle).unwrap() > Instant::now() + Duration::from_secs(50));
}

#[tokio::test]
async fn a_client_that_takes_nothing_of_its_answer_has_a_deadline() {
    let (mut client, mut io, watch) = pair(false).await;
    let (head, idle) = (Duration::from_secs(1), Duration::from_secs(100));
    watch.request_begins();
    watch.answer_begins();
    assert_eq!(watch.deadline(head, idle), None);
    let block = [b'x'; 64 << 10];
    let mut write = async || poll_fn(|cx| Poll::Ready(Pin::new(&mut io).poll_write(cx, &block))).await;
    while write().await.is_ready() {}
    assert!(watch.deadline(head, idle).is_some());
    let mut sink = vec![0; 1 << 20];
    while write().await.is_pending() {
        assert!(client.read(&mut sink).await.unwrap() > 0);
        tokio::task::yield_now().await;
    }
    assert_eq!(watch.deadline(head, idle), None);
    let at = Instant::now();
    watch.set_total(at);
    assert_eq!(watch.deadline(head, idle), Some(at));
}
