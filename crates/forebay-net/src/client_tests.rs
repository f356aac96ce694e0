use super::*;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

const LIMIT: Duration = Duration::from_secs(20);

async fn listen() -> (TcpListener, String) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    (listener, url)
}

/// Reads one request head (the tests send no longer bodies than fit behind it).
async fn read_head(stream: &mut TcpStream) -> String {
    let mut head = Vec::new();
    while !head.windows(4).any(|w| w == b"\r\n\r\n") {
        let mut buf = [0; 4096];
        let n = stream.read(&mut buf).await.unwrap();
        assert!(n > 0, "the client closed before a whole head");
        head.extend_from_slice(&buf[..n]);
    }
    String::from_utf8(head).unwrap()
}

async fn answer(stream: &mut TcpStream, body: &str) {
    let text = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{body}", body.len());
    stream.write_all(text.as_bytes()).await.unwrap();
}

fn client() -> Client {
    Client::new(ClientOptions::default())
}

fn post(url: &str) -> Request<Full<Bytes>> {
    Request::post(url).body(Full::new(Bytes::from_static(b"{}"))).unwrap()
}

#[tokio::test]
async fn keeps_a_connection_and_sends_origin_form_with_host() {
    let (listener, url) = listen().await;
    let server = tokio::spawn(async move {
        let (mut stream, address) = listener.accept().await.unwrap();
        for i in 0..3 {
            let head = read_head(&mut stream).await;
            assert!(head.starts_with("GET /x?y=1 HTTP/1.1\r\n"), "{head}");
            let host = format!("host: {}\r\n", stream.local_addr().unwrap());
            assert!(head.contains(&host), "{head}");
            answer(&mut stream, &i.to_string()).await;
        }
        address
    });
    let client = client();
    for i in 0..3 {
        let (status, _, body) = client.get(&format!("{url}/x?y=1"), LIMIT, 10).await.unwrap();
        assert_eq!((status, body), (StatusCode::OK, Bytes::from(i.to_string())));
    }
    server.await.unwrap();
}

#[tokio::test]
async fn a_reused_connection_that_died_is_replaced_once() {
    let (listener, url) = listen().await;
    let server = tokio::spawn(async move {
        let (mut first, _) = listener.accept().await.unwrap();
        read_head(&mut first).await;
        answer(&mut first, "one").await;
        // The second request is read whole and answered by closing.
        read_head(&mut first).await;
        drop(first);
        let (mut second, _) = listener.accept().await.unwrap();
        let head = read_head(&mut second).await;
        answer(&mut second, "two").await;
        head
    });
    let client = client();
    let (_, _, body) = client.get(&url, LIMIT, 10).await.unwrap();
    assert_eq!(body, "one");
    let body = client.send(post(&format!("{url}/p"))).await.unwrap().into_body();
    assert_eq!(body.read_whole(10).await.unwrap(), "two");
    assert!(server.await.unwrap().starts_with("POST /p "));
}

#[tokio::test]
async fn a_fresh_connection_that_dies_is_an_error_that_names_the_address() {
    let (listener, url) = listen().await;
    let address = listener.local_addr().unwrap().to_string();
    let server = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        read_head(&mut stream).await;
        drop(stream);
        listener
    });
    let error = client().send(post(&url)).await.err().unwrap();
    assert!(matches!(error, ClientError::Exchange { .. }), "{error:?}");
    assert!(error.to_string().contains(&address), "{error}");
    server.await.unwrap();
}

#[tokio::test]
async fn a_partial_head_on_a_reused_connection_is_not_sent_again() {
    let (listener, url) = listen().await;
    let server = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        read_head(&mut stream).await;
        answer(&mut stream, "one").await;
        read_head(&mut stream).await;
        stream.write_all(b"HTTP/1.1 20").await.unwrap();
        drop(stream);
        listener // open to the end: a second dial would be accepted and hang
    });
    let client = client();
    client.get(&url, LIMIT, 10).await.unwrap();
    let error = timeout(LIMIT, client.send(post(&url))).await.unwrap().err().unwrap();
    assert!(matches!(error, ClientError::Exchange { .. }), "{error:?}");
    server.await.unwrap();
}

#[tokio::test]
async fn dropping_a_body_or_a_waiting_request_closes_the_connection() {
    let (listener, url) = listen().await;
    let client = client();
    // Dropped with the body half read.
    let sending = tokio::spawn({
        let (client, url) = (client.clone(), url.clone());
        async move {
            let mut body = client.send(post(&url)).await.unwrap().into_body();
            assert!(body.frame().await.unwrap().is_ok());
        }
    });
    let (mut stream, _) = listener.accept().await.unwrap();
    read_head(&mut stream).await;
    stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\nsome").await.unwrap();
    sending.await.unwrap();
    let mut rest = Vec::new();
    let _ = timeout(LIMIT, stream.read_to_end(&mut rest)).await.expect("closed after the body was dropped");

    // Dropped before the head came.
    let sending = tokio::spawn(async move { client.send(post(&url)).await.map(drop) });
    let (mut stream, _) = listener.accept().await.unwrap();
    read_head(&mut stream).await;
    sending.abort();
    let _ = timeout(LIMIT, stream.read_to_end(&mut rest)).await.expect("closed after the future was dropped");
}

#[tokio::test]
async fn limits_of_get() {
    let (listener, url) = listen().await;
    let server = tokio::spawn(async move {
        for _ in 0..2 {
            let (mut stream, _) = listener.accept().await.unwrap();
            read_head(&mut stream).await;
            stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n0123456789").await.unwrap();
            let _ = stream.read(&mut [0; 10]).await;
        }
    });
    let error = client().get(&url, LIMIT, 5).await.err().unwrap();
    assert!(matches!(error, ClientError::BodyTooLong { limit: 5, .. }), "{error:?}");
    let error = client().get(&url, Duration::from_millis(50), 100).await.err().unwrap();
    assert!(matches!(error, ClientError::Timeout { .. }), "{error:?}");
    server.await.unwrap();
}

#[tokio::test]
async fn idle_connections_expire_and_are_bounded() {
    let (listener, url) = listen().await;
    let server = tokio::spawn(async move {
        let mut streams = Vec::new();
        for _ in 0..2 {
            let (mut stream, _) = listener.accept().await.unwrap();
            read_head(&mut stream).await;
            answer(&mut stream, "x").await;
            streams.push(stream);
        }
    });
    let client = Client::new(ClientOptions { idle_timeout: Duration::ZERO, ..ClientOptions::default() });
    client.get(&url, LIMIT, 10).await.unwrap();
    client.get(&url, LIMIT, 10).await.unwrap();
    server.await.unwrap();
}

#[tokio::test]
async fn refused_connections_and_bad_urls_are_told_clearly() {
    let (listener, url) = listen().await;
    drop(listener);
    let error = client().get(&url, LIMIT, 10).await.err().unwrap().to_string();
    assert!(error.starts_with("cannot connect to 127.0.0.1:"), "{error}");
    for (url, why) in [
        ("https://a/", "https is not supported"),
        ("/path", "must be absolute"),
        ("ftp://a/", "must be http"),
        ("http://u:p@a/", "user name"),
        ("http://a:x/", "port"),
        ("http://a:99999/", "port"),
        ("", "does not parse"),
    ] {
        let error = client().get(url, LIMIT, 10).await.err().unwrap().to_string();
        assert!(error.contains(why) || error.contains("does not parse"), "{url}: {error}");
    }
}

#[test]
fn hosts_and_ports() {
    for (url, host, port, address, header) in [
        ("http://[::1]:8001/v1", "::1", 8001, "[::1]:8001", "[::1]:8001"),
        ("http://[::1]", "::1", 80, "[::1]:80", "[::1]"),
        ("http://pod-3.svc:9/", "pod-3.svc", 9, "pod-3.svc:9", "pod-3.svc:9"),
    ] {
        let target = Target::of(&url.parse().unwrap()).unwrap();
        assert_eq!((target.host.as_str(), target.port, &*target.address), (host, port, address));
        assert_eq!(target.host_header, header);
    }
}

#[tokio::test]
async fn json_is_posted_whole() {
    let (listener, url) = listen().await;
    let server = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut seen = Vec::new();
        while !seen.ends_with(b"{\"a\":1}") {
            let mut some = [0; 256];
            let n = timeout(LIMIT, stream.read(&mut some)).await.unwrap().unwrap();
            assert!(n > 0, "the request ended early");
            seen.extend_from_slice(&some[..n]);
        }
        answer(&mut stream, "well").await;
        String::from_utf8(seen).unwrap()
    });
    let body = Bytes::from_static(b"{\"a\":1}");
    let (status, _, answer) = client().post_json(&url, body, LIMIT, 10).await.unwrap();
    assert_eq!((status, &*answer), (StatusCode::OK, &b"well"[..]));
    let seen = server.await.unwrap().to_lowercase();
    assert!(seen.starts_with("post / http/1.1\r\n"), "{seen}");
    assert!(
        seen.contains("content-type: application/json\r\n") && seen.contains("content-length: 7\r\n"),
        "{seen}"
    );
}

#[tokio::test]
async fn a_read_buffer_does_not_grow_with_the_answer() {
    const BUFFER: usize = 16 << 10;
    const LENGTH: usize = 4 << 20;
    let (listener, url) = listen().await;
    let server = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        read_head(&mut stream).await;
        answer(&mut stream, &"x".repeat(LENGTH)).await;
    });
    let client = Client::new(ClientOptions { read_buffer: BUFFER, ..ClientOptions::default() });
    let mut body = client.send(Request::get(url).body(Full::default()).unwrap()).await.unwrap().into_body();
    let mut length = 0;
    while let Some(frame) = body.frame().await {
        let data = frame.unwrap().into_data().unwrap();
        assert!(data.len() <= 2 * BUFFER, "{} bytes at once", data.len());
        length += data.len();
    }
    assert_eq!(length, LENGTH);
    server.await.unwrap();
}

#[tokio::test]
async fn a_read_buffer_below_the_least_is_the_least() {
    let (listener, url) = listen().await;
    let server = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        read_head(&mut stream).await;
        answer(&mut stream, "here").await;
    });
    let client = Client::new(ClientOptions { read_buffer: 0, ..ClientOptions::default() });
    assert_eq!(client.get(&url, LIMIT, 10).await.unwrap().2, "here");
    server.await.unwrap();
}
