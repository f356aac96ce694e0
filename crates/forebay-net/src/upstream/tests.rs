use std::future::poll_fn;
use std::sync::Arc;

use forebay_metrics::Metrics;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use super::*;

const OK: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

fn upstream(port: u16) -> Arc<Upstream> {
    let options = UpstreamOptions {
        host: "127.0.0.1".into(),
        port,
        h2c: false,
        h2_connections: 2,
        connect_timeout: Some(Duration::from_secs(5)),
        max_dials: 4,
        idle_timeout: Duration::from_secs(4),
        workers: 2,
    };
    Arc::new(Upstream::new(options, Metrics::new("test").endpoint("p", "e")))
}

async fn listener() -> (TcpListener, u16) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    (listener, port)
}

fn request() -> Box<Request<RequestBody>> {
    let request = Request::post("/v1/x").header("host", "h");
    Box::new(request.body(Full::new(Bytes::from_static(b"hello"))).unwrap())
}

/// Reads one request, whose body is `hello`.
async fn read_request(stream: &mut TcpStream) -> bool {
    let mut seen = Vec::new();
    while !seen.ends_with(b"hello") {
        if stream.read_buf(&mut seen).await.unwrap_or(0) == 0 {
            return false;
        }
    }
    true
}

async fn drain(body: &mut AnswerBody) -> Result<Vec<u8>, AnswerError> {
    let mut all = Vec::new();
    while let Some(data) = poll_fn(|cx| body.poll_data(cx)).await {
        all.extend_from_slice(&data?);
    }
    Ok(all)
}

#[tokio::test]
async fn a_connection_is_used_again_by_its_own_worker_only() {
    let (listener, port) = listener().await;
    let server = tokio::spawn(async move {
        let mut served = [0, 0];
        let mut connections = tokio::task::JoinSet::new();
        for number in 0..2 {
            let (mut stream, _) = listener.accept().await.unwrap();
            connections.spawn(async move {
                let mut requests = 0;
                while read_request(&mut stream).await {
                    stream.write_all(OK).await.unwrap();
                    requests += 1;
                }
                (number, requests)
            });
        }
        while let Some(done) = connections.join_next().await {
            let (number, requests): (usize, usize) = done.unwrap();
            served[number] = requests;
        }
        served
    });
    let upstream = upstream(port);
    for worker in [0, 0, 1, 0] {
        let mut answer = upstream.send(worker, request()).await.unwrap();
        assert_eq!(answer.body.exact_length(), Some(2));
        assert_eq!(drain(&mut answer.body).await.unwrap(), b"ok");
    }
    drop(upstream);
    assert_eq!(server.await.unwrap(), [3, 1]);
}

#[tokio::test]
async fn an_answer_dropped_before_its_end_closes_the_connection() {
    let (listener, port) = listener().await;
    let upstream = upstream(port);
    let server = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        assert!(read_request(&mut stream).await);
        stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nok").await.unwrap();
        let mut rest = Vec::new();
        stream.read_to_end(&mut rest).await.unwrap_or(0)
    });
    let mut answer = upstream.send(0, request()).await.unwrap();
    assert_eq!(poll_fn(|cx| answer.body.poll_data(cx)).await.unwrap().unwrap(), "ok");
    assert_eq!(upstream.metrics().connections_open().get(), 1);
    drop(answer);
    assert_eq!(server.await.unwrap(), 0);
    assert_eq!(upstream.metrics().connections_open().get(), 0);
}

#[tokio::test]
async fn a_connection_that_the_engine_closed_is_not_used_again() {
    let (listener, port) = listener().await;
    let upstream = upstream(port);
    let server = tokio::spawn(async move {
        for _ in 0..2 {
            let (mut stream, _) = listener.accept().await.unwrap();
            assert!(read_request(&mut stream).await);
            stream.write_all(OK).await.unwrap();
        }
    });
    for _ in 0..2 {
        let mut answer = upstream.send(0, request()).await.unwrap();
        assert_eq!(drain(&mut answer.body).await.unwrap(), b"ok");
        // The close arrives while the connection is idle.
        while !upstream.idle[0].lock().is_empty() {
            upstream.sweep(0);
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }
    server.await.unwrap();
}

#[tokio::test]
async fn refusal_gives_the_request_back_and_names_the_address() {
    let (listener, port) = listener().await;
    drop(listener);
    let error = upstream(port).send(0, request()).await.err().unwrap();
    assert_eq!(error.kind, SendErrorKind::Connect);
    assert!(error.message.contains(&format!("127.0.0.1:{port}")), "{error:?}");
    assert!(error.request.is_some());
}

#[tokio::test]
async fn a_request_that_was_sent_is_never_given_back() {
    for (reply, kind) in
        [(b"".as_slice(), SendErrorKind::Reset), (b"nonsense\r\n\r\n".as_slice(), SendErrorKind::Protocol)]
    {
        let (listener, port) = listener().await;
        let server = tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            assert!(read_request(&mut stream).await);
            stream.write_all(reply).await.unwrap();
        });
        let error = upstream(port).send(0, request()).await.err().unwrap();
        assert_eq!((error.kind, error.request.is_none()), (kind, true), "{error:?}");
        server.await.unwrap();
    }
}

#[tokio::test]
async fn a_cut_answer_is_an_error_not_an_end() {
    for reply in [
        b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nok".as_slice(),
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n".as_slice(),
    ] {
        let (listener, port) = listener().await;
        let server = tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            assert!(read_request(&mut stream).await);
            stream.write_all(reply).await.unwrap();
        });
        let mut answer = upstream(port).send(0, request()).await.unwrap();
        assert!(drain(&mut answer.body).await.is_err());
        server.await.unwrap();
    }
}

/// A server that tells of each request on which connection it came.
async fn counting() -> (u16, tokio::sync::mpsc::UnboundedReceiver<usize>) {
    let (listener, port) = listener().await;
    let (tell, told) = tokio::sync::mpsc::unbounded_channel();
    tokio::spawn(async move {
        for number in 0.. {
            let (mut stream, _) = listener.accept().await.unwrap();
            let tell = tell.clone();
            tokio::spawn(async move {
                while read_request(&mut stream).await {
                    let _ = tell.send(number);
                    stream.write_all(OK).await.unwrap();
                }
            });
        }
    });
    (port, told)
}

#[tokio::test]
async fn after_a_change_of_the_server_no_old_connection_is_used() {
    let (port, mut told) = counting().await;
    let upstream = upstream(port);
    for (connection, renew) in [(0, false), (0, true), (1, false), (1, false)] {
        let mut answer = upstream.send(0, request()).await.unwrap();
        drain(&mut answer.body).await.unwrap();
        assert_eq!(told.recv().await, Some(connection));
        if renew {
            upstream.renew();
            assert_eq!(upstream.idle_count(), 0);
        }
    }
    // One that is in use while it changes is not kept at its end.
    let mut answer = upstream.send(0, request()).await.unwrap();
    upstream.renew();
    drain(&mut answer.body).await.unwrap();
    assert_eq!((told.recv().await, upstream.idle_count()), (Some(1), 0));
}

#[tokio::test]
async fn an_endpoint_that_is_closed_is_sent_nothing_until_it_is_opened() {
    let (port, mut told) = counting().await;
    let upstream = upstream(port);
    upstream.close();
    upstream.close();
    let error = upstream.send(0, request()).await.err().unwrap();
    assert_eq!(error.kind, SendErrorKind::Unsent);
    assert!(error.request.is_some(), "it comes back, for another endpoint");
    assert!(told.try_recv().is_err());
    upstream.open();
    upstream.open();
    let mut answer = upstream.send(0, request()).await.unwrap();
    drain(&mut answer.body).await.unwrap();
    assert_eq!(told.recv().await, Some(0));
}

#[tokio::test]
async fn a_connection_that_was_being_made_meanwhile_is_not_used() {
    let (port, mut told) = counting().await;
    let upstream = upstream(port);
    // Everybody dials already: this one waits for its turn.
    let permits = upstream.dials.acquire_many(4).await.unwrap();
    let (waiting, sender) = (Arc::clone(&upstream), upstream.clone());
    let sent = tokio::spawn(async move { sender.send(0, request()).await });
    // It has asked for its permit when nobody else can get one that is given back.
    tokio::task::yield_now().await;
    waiting.renew();
    drop(permits);
    let error = sent.await.unwrap().err().unwrap();
    assert_eq!(error.kind, SendErrorKind::Unsent);
    assert!(error.request.is_some());
    assert!(told.try_recv().is_err());
}

/// An HTTP/2 server that tells of each request on which connection it came.
async fn counting_h2() -> (u16, tokio::sync::mpsc::UnboundedReceiver<usize>) {
    use hyper_util::rt::{TokioExecutor, TokioIo};
    let (listener, port) = listener().await;
    let (tell, told) = tokio::sync::mpsc::unbounded_channel();
    tokio::spawn(async move {
        for number in 0.. {
            let (stream, _) = listener.accept().await.unwrap();
            let tell = tell.clone();
            let service = hyper::service::service_fn(move |_| {
                let _ = tell.send(number);
                async {
                    Ok::<_, std::convert::Infallible>(Response::new(Full::new(Bytes::from_static(b"ok"))))
                }
            });
            let server = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
            tokio::spawn(server.serve_connection(TokioIo::new(stream), service));
        }
    });
    (port, told)
}

#[tokio::test]
async fn over_http2_too_no_old_connection_is_used_after_a_change_of_the_server() {
    let (port, mut told) = counting_h2().await;
    let options = UpstreamOptions { h2c: true, h2_connections: 1, ..upstream(port).options.clone() };
    let upstream = Arc::new(Upstream::new(options, Metrics::new("test").endpoint("p", "e")));
    let request = || {
        let request = Request::post(format!("http://127.0.0.1:{port}/v1/x"));
        Box::new(request.body(Full::new(Bytes::from_static(b"hello"))).unwrap())
    };
    for (connection, renew) in [(0, false), (0, true), (1, false)] {
        let mut answer = upstream.send(0, request()).await.unwrap();
        if renew {
            // What is under way goes on.
            upstream.renew();
        }
        assert_eq!(drain(&mut answer.body).await.unwrap(), b"ok");
        assert_eq!(told.recv().await, Some(connection));
    }
    upstream.close();
    let error = upstream.send(0, request()).await.err().unwrap();
    assert_eq!((error.kind, error.request.is_some()), (SendErrorKind::Unsent, true));
}
