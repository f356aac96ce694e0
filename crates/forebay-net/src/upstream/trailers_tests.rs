use std::future::poll_fn;

use forebay_metrics::Metrics;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use super::*;

/// An answer of "ok" from what listens there, and the field `x-load` of its trailers.
async fn ask(port: u16, h2c: bool) -> (Vec<u8>, Option<String>) {
    let options = UpstreamOptions {
        host: "127.0.0.1".into(),
        port,
        h2c,
        h2_connections: 1,
        connect_timeout: Some(Duration::from_secs(5)),
        max_dials: 1,
        idle_timeout: Duration::from_secs(4),
        workers: 1,
    };
    let upstream = Arc::new(Upstream::new(options, Metrics::new("test").endpoint("p", "e")));
    let request = Request::post(if h2c { "http://h/v1/x" } else { "/v1/x" }).header("host", "h");
    let request = Box::new(request.body(Full::new(Bytes::from_static(b"hello"))).unwrap());
    let mut answer = upstream.send(0, request).await.unwrap();
    let mut all = Vec::new();
    while let Some(data) = poll_fn(|cx| answer.body.poll_data(cx)).await {
        assert!(answer.body.take_trailers().is_none(), "before the end");
        all.extend_from_slice(&data.unwrap());
    }
    let trailers = answer.body.take_trailers();
    assert!(answer.body.take_trailers().is_none(), "given once");
    (all, trailers.map(|fields| fields["x-load"].to_str().unwrap().to_owned()))
}

#[tokio::test]
async fn fields_after_a_chunked_answer_are_kept() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let server = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut seen = Vec::new();
        while !seen.ends_with(b"hello") {
            assert!(stream.read_buf(&mut seen).await.unwrap() > 0);
        }
        let answer = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: x-load\r\n\r\n2\r\nok\r\n0\r\nx-load: low\r\n\r\n";
        stream.write_all(answer.as_bytes()).await.unwrap();
        stream
    });
    assert_eq!(ask(port, false).await, (b"ok".to_vec(), Some("low".to_owned())));
    server.await.unwrap();
}

#[tokio::test]
async fn fields_after_an_http2_answer_are_kept() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let server = tokio::spawn(async move {
        let (stream, _) = listener.accept().await.unwrap();
        let mut connection = ::h2::server::handshake(stream).await.unwrap();
        let (_request, mut respond) = connection.accept().await.unwrap().unwrap();
        let mut body = respond.send_response(http::Response::new(()), false).unwrap();
        body.send_data(Bytes::from_static(b"ok"), false).unwrap();
        let fields = [(http::HeaderName::from_static("x-load"), http::HeaderValue::from_static("low"))];
        body.send_trailers(fields.into_iter().collect()).unwrap();
        while connection.accept().await.is_some() {}
    });
    assert_eq!(ask(port, true).await, (b"ok".to_vec(), Some("low".to_owned())));
    server.abort();
}
