//! What a hostile tester found, as tests of the whole kind.

use std::time::Duration;

use forebay_tests::backend::{Backend, Step};
use forebay_tests::bodies::{CHAT, DONE, OK_JSON, OK_SSE, chunk, ok_json, polite, stream};
use forebay_tests::client::{Client, End};
use forebay_tests::config::Config;
use forebay_tests::gateway::Gateway;
use forebay_tests::http1;
use tokio::task::JoinSet;

use crate::common::{through, through_with, wait_endpoints};

/// A worker must use only its own connections to engines: a socket reports to
/// the runtime it was registered with, and used from another an event is lost.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_answer_hangs_however_many_workers_there_are() {
    let pieces = || {
        let mut pieces = vec![chunk("x"); 12];
        pieces.push(DONE.to_vec());
        pieces
    };
    let backend = Backend::start(move |_| stream(&pieces(), Duration::ZERO)).await;
    let config =
        Config::chat([backend.url().as_str()]).with("workers: 4\ntimeouts: {idle: 5s, first_byte: 5s}");
    let gateway = Gateway::start(&config).await;
    wait_endpoints(&gateway, 1).await;
    let mut clients = JoinSet::new();
    for _ in 0..24 {
        let addr = gateway.addr();
        clients.spawn(async move {
            for _ in 0..4 {
                // A connection each: the kernel gives it to any worker.
                let mut client = Client::connect(addr).await;
                for _ in 0..8 {
                    let answer = client.exchange(&http1::post(CHAT, OK_SSE)).await;
                    assert_eq!(answer.status(), 200);
                    assert!(answer.is_complete() && answer.text().ends_with("data: [DONE]\n\n"));
                }
            }
        });
    }
    clients.join_all().await;
    gateway.wait_idle().await;
}

/// A length is only an announcement: nobody may hold memory with it.
#[tokio::test]
async fn lengths_that_are_only_announced_hold_no_memory() {
    let (_backend, gateway) = through_with("limits: {body_memory: 8MiB, body: 4MiB}", polite).await;
    let mut silent = Vec::new();
    for _ in 0..16 {
        let mut client = gateway.connect().await;
        let head = format!(
            "POST {CHAT} HTTP/1.1\r\nHost: g\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{{",
            4 << 20
        );
        client.send(head.as_bytes()).await;
        silent.push(client);
    }
    let answer = tokio::time::timeout(Duration::from_secs(10), gateway.post(CHAT, OK_JSON)).await;
    assert_eq!(answer.expect("others are not held up").status(), 200);
    drop(silent);
    gateway.wait_idle().await;
}

/// A client that reads nothing of its answer must not hold an engine for ever.
#[tokio::test]
async fn a_client_that_reads_nothing_is_let_go() {
    for limit in ["limits: {client_idle: 1s}", "timeouts: {total: 1s}"] {
        let endless = |_: &_| {
            let mut pieces = vec![vec![b'x'; 1 << 20]; 64];
            pieces.push(DONE.to_vec());
            stream(&pieces, Duration::ZERO)
        };
        let (backend, gateway) = through_with(limit, endless).await;
        let mut client = gateway.connect().await;
        client.send(&http1::post(CHAT, OK_SSE)).await;
        backend.request(0).await;
        gateway.wait_metric("forebay_endpoint_inflight", &[], 0.0).await;
        drop(client);
    }
}

/// The coding wins over a length beside it; the answer must not be cut to it.
#[tokio::test]
async fn an_engines_two_lengths_do_not_cut_its_answer() {
    let (_backend, gateway) = through(|_| {
        let head = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n";
        vec![Step::Send(head.to_vec().into()), Step::Send(b"5\r\nhello\r\n0\r\n\r\n".to_vec().into())]
    })
    .await;
    let answer = gateway.post(CHAT, OK_JSON).await;
    assert_eq!(answer.text(), "hello");
    assert_eq!(answer.head.count("content-length") + answer.head.count("transfer-encoding"), 1);
}

/// What was not read of a request is neither taken for the next one nor turned
/// into a reset under the answer.
#[tokio::test]
async fn an_answer_before_the_body_says_that_it_closes_and_arrives() {
    let (backend, gateway) = through(|_| ok_json()).await;
    let smuggled = http1::post(CHAT, OK_JSON);
    let mut body = smuggled.clone();
    body.resize(2 << 20, b'x');
    for (method, target, status) in
        [("POST", "/nothing", 404), ("PUT", CHAT, 405), ("GET", "/v1/models", 200)]
    {
        let mut client = gateway.connect().await;
        let answer = client.exchange(&http1::request(method, target, &[], &body)).await;
        assert_eq!(answer.status(), status);
        assert_eq!(answer.head.get("connection"), Some("close"), "{method} {target}");
        let (rest, end) = client.raw_rest().await;
        assert_eq!((rest.as_slice(), end), (b"".as_slice(), End::Fin), "{method} {target}");
    }
    assert_eq!(backend.count(), 0);
}

/// Nobody asked for another protocol.
#[tokio::test]
async fn switching_protocols_is_not_passed_on() {
    let (_backend, gateway) = through(|_| {
        vec![Step::Send(
            b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n".to_vec().into(),
        )]
    })
    .await;
    assert_eq!(gateway.post(CHAT, OK_JSON).await.status(), 502);
}
