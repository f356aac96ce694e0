//! The rig proves itself: what the backend and the client say of a connection is what happened on it.

use std::time::Duration;

use forebay_tests::backend::{Backend, Mode, PeerEnd, Step};
use forebay_tests::bodies::{self, CHAT, DONE, LAST_CHUNK, OK_JSON, OK_SSE, SSE_HEAD, chunk, polite};
use forebay_tests::client::{self, Client, End};
use forebay_tests::http1;
use forebay_tests::socket::{HangingPort, RefusingPort};

#[tokio::test]
async fn the_default_routes_answer_and_are_not_counted() {
    let backend = Backend::start(polite).await;
    for path in ["/health", "/v1/models", "/metrics"] {
        assert_eq!(client::get(backend.addr(), path).await.status(), 200, "{path}");
    }
    backend.set_healthy(false);
    assert_eq!(client::get(backend.addr(), "/health").await.status(), 503);
    assert_eq!(backend.count(), 0);
    assert_eq!(backend.connections().len(), 4);
}

#[tokio::test]
async fn requests_are_logged_with_their_exact_bytes() {
    let backend = Backend::start(polite).await;
    let mut client = Client::connect(backend.addr()).await;
    let first = http1::post(CHAT, OK_JSON);
    assert_eq!(client.exchange(&first).await.json()["usage"]["prompt_tokens"], 12);
    let mut second =
        format!("POST {CHAT} HTTP/1.1\r\nHost: g\r\nTransfer-Encoding: chunked\r\n\r\n").into_bytes();
    second.extend(http1::chunked(OK_SSE, 7));
    client.send_segments(second.chunks(11), Duration::from_micros(100)).await;
    let response = client.response().await;
    assert!(response.is_complete());
    assert_eq!(response.body, [chunk("a"), chunk("b"), bodies::finish("stop"), DONE.to_vec()].concat());
    let log = backend.requests();
    assert_eq!((log[0].raw.as_slice(), log[0].body.as_slice()), (first.as_slice(), OK_JSON));
    assert_eq!((log[1].raw.as_slice(), log[1].body.as_slice()), (second.as_slice(), OK_SSE));
    assert_eq!((log[0].connection, log[1].connection), (0, 0));
    client.close();
    assert_eq!(backend.peer_end(0).await.1, PeerEnd::Fin);
}

#[tokio::test]
async fn a_cut_is_told_from_an_end() {
    let backend = Backend::start(|r| {
        let mut steps = vec![Step::send(SSE_HEAD), Step::send(http1::chunk(&chunk("a")))];
        steps.extend(match r.index {
            0 => vec![Step::send(LAST_CHUNK), Step::Fin],
            1 => vec![Step::Fin],
            _ => vec![Step::Sleep(Duration::from_millis(50)), Step::Rst],
        });
        steps
    })
    .await;
    for (complete, end) in [(true, End::Complete), (false, End::Fin), (false, End::Rst)] {
        let response = client::post(backend.addr(), CHAT, OK_SSE).await;
        assert_eq!((response.is_complete(), response.end.clone()), (complete, end));
        assert_eq!(response.body, chunk("a"));
    }
}

#[tokio::test]
async fn segments_arrive_one_by_one() {
    let backend = Backend::start(|_| {
        bodies::stream(&[b"1".to_vec(), b"2".to_vec(), b"3".to_vec()], Duration::from_millis(30))
    })
    .await;
    let response = client::post(backend.addr(), CHAT, OK_SSE).await;
    assert_eq!(response.pieces.iter().map(|p| p.1.as_slice()).collect::<Vec<_>>(), [b"1", b"2", b"3"]);
}

#[tokio::test]
async fn the_ways_to_leave_are_told_apart() {
    let backend = Backend::start(|_| vec![Step::Stall]).await;
    let mut a = Client::connect(backend.addr()).await;
    a.send(&http1::post(CHAT, OK_JSON)).await;
    backend.request(0).await;
    a.reset();
    assert_eq!(backend.peer_end(0).await.1, PeerEnd::Rst);
    let mut b = Client::connect(backend.addr()).await;
    b.send(&http1::post(CHAT, OK_JSON)).await;
    backend.request(1).await;
    b.half_close();
    assert_eq!(backend.peer_end(1).await.1, PeerEnd::Fin);
}

#[tokio::test]
async fn ports_refuse_and_backends_fall_silent_on_demand() {
    let port = RefusingPort::new();
    assert!(tokio::net::TcpStream::connect(port.addr).await.is_err());
    let port = HangingPort::new().await;
    let connecting = tokio::net::TcpStream::connect(port.addr);
    assert!(tokio::time::timeout(Duration::from_millis(200), connecting).await.is_err());
    let backend = Backend::start(polite).await;
    backend.set_mode(Mode::Black);
    let mut client = Client::connect(backend.addr()).await;
    client.send(&http1::request("GET", "/health", &[], b"")).await;
    assert_eq!(client.try_head("GET", Duration::from_millis(50)).await, Err(End::Limit));
    backend.set_mode(Mode::Reset);
    let mut client = Client::connect(backend.addr()).await;
    assert!(client.closes_within(Duration::from_secs(5)).await);
}
