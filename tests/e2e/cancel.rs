//! B14: a client that goes away takes its upstream request with it.

use std::time::Duration;

use forebay_tests::backend::{Backend, RequestLog, Step};
use forebay_tests::bodies::{CHAT, DONE, OK_JSON, OK_SSE, chunk, ok_json, open_stream, polite, stream};
use forebay_tests::client::{Client, End};
use forebay_tests::config::Config;
use forebay_tests::gateway::Gateway;
use forebay_tests::h2::{self, H2Client};
use forebay_tests::http1;
use tokio::time::Instant;

use crate::common::{through, through_two};

const SOON: Duration = Duration::from_secs(1);

fn silent(_: &RequestLog) -> Vec<Step> {
    vec![Step::Stall]
}

fn endless(_: &RequestLog) -> Vec<Step> {
    open_stream(&vec![chunk("x"); 400], Duration::from_millis(50))
}

/// The backend saw the end of request `index` within a second of `left`, and nothing was sent again.
async fn assert_cancelled(backends: &[Backend; 2], gateway: &Gateway, requests: usize, left: Instant) {
    assert_eq!(backends.iter().map(Backend::count).sum::<usize>(), requests);
    let backend = backends.iter().max_by_key(|b| b.requests().last().map(|r| r.at)).unwrap();
    let connection = backend.requests().last().unwrap().connection;
    let (at, _) = backend.peer_end(connection).await;
    assert!(at.saturating_duration_since(left) <= SOON, "cancelled only after {:?}", at - left);
    assert_eq!(backend.connections()[connection].requests, 1, "the connection was used again");
    gateway.wait_outcome("client_cancelled", requests as f64).await;
    gateway.wait_idle().await;
    assert_eq!(backends.iter().map(Backend::count).sum::<usize>(), requests, "a cancel was retried");
    for other in ["finished", "upstream_error", "upstream_truncated", "stream_error"] {
        assert_eq!(gateway.metric("forebay_requests_total", &[("outcome", other)]).await, 0.0, "{other}");
    }
}

/// Waits until `requests` requests have come to either backend.
async fn arrived(backends: &[Backend; 2], requests: usize) {
    forebay_tests::wait::until("the request at a backend", || {
        (backends.iter().map(Backend::count).sum::<usize>() == requests).then_some(())
    })
    .await;
}

#[tokio::test]
async fn b14_a_b_client_leaves_before_the_headers_of_a_plain_answer() {
    let (backends, gateway) = through_two("", silent).await;
    for (n, with_reset) in [(1, false), (2, true)] {
        let mut client = gateway.connect().await;
        client.send(&http1::post(CHAT, OK_JSON)).await;
        arrived(&backends, n).await;
        let left = Instant::now();
        if with_reset {
            client.reset()
        } else {
            client.close()
        }
        assert_cancelled(&backends, &gateway, n, left).await;
    }
    assert_eq!(gateway.metric("forebay_requests_total", &[("code", "499")]).await, 2.0);
}

#[tokio::test]
async fn b14_client_leaves_before_the_first_event_of_a_stream() {
    let (backends, gateway) = through_two("", |_| {
        let mut steps = open_stream(&[], Duration::ZERO);
        steps.push(Step::Stall);
        steps
    })
    .await;
    let mut client = gateway.connect().await;
    client.send(&http1::post(CHAT, OK_SSE)).await;
    arrived(&backends, 1).await;
    let left = Instant::now();
    client.close();
    assert_cancelled(&backends, &gateway, 1, left).await;
}

#[tokio::test]
async fn b14_c_client_leaves_after_three_events() {
    let (backends, gateway) = through_two("", endless).await;
    for (n, with_reset) in [(1, false), (2, true)] {
        let mut client = gateway.connect().await;
        client.send(&http1::post(CHAT, OK_SSE)).await;
        client.head().await;
        client.read_until("three events", |got| http1::count(got, b"\n\n") >= 3).await;
        let left = Instant::now();
        if with_reset {
            client.reset()
        } else {
            client.close()
        }
        assert_cancelled(&backends, &gateway, n, left).await;
    }
}

#[tokio::test]
async fn b14_client_leaves_pipelined_bytes_behind() {
    let (backends, gateway) = through_two("", silent).await;
    let mut client = gateway.connect().await;
    client.send(&[http1::post(CHAT, OK_JSON), http1::post(CHAT, OK_JSON)].concat()).await;
    arrived(&backends, 1).await;
    let left = Instant::now();
    client.close();
    assert_cancelled(&backends, &gateway, 1, left).await;
}

#[tokio::test]
async fn b14_d_half_close_means_gone_by_default() {
    let (backends, gateway) = through_two("", silent).await;
    let mut client = gateway.connect().await;
    client.send(&http1::post(CHAT, OK_JSON)).await;
    arrived(&backends, 1).await;
    let left = Instant::now();
    client.half_close();
    assert_cancelled(&backends, &gateway, 1, left).await;
    let (rest, end) = client.raw_rest().await;
    assert_ne!(end, End::Limit, "the client's connection stays open");
    assert!(rest.is_empty(), "{:?}", String::from_utf8_lossy(&rest));
}

#[tokio::test]
async fn b14_d_half_close_waits_for_the_answer_where_the_listener_says_so() {
    let slow_stream = |r: &RequestLog| {
        if r.asks_for_stream() {
            stream(&[chunk("a"), chunk("b"), DONE.to_vec()], Duration::from_millis(150))
        } else {
            [vec![Step::Sleep(Duration::from_millis(300))], ok_json()].concat()
        }
    };
    let backend = Backend::start(slow_stream).await;
    let config = Config::chat([backend.url().as_str()])
        .listen("[{address: \"127.0.0.1:0\", client_half_close: true}, {address: \"127.0.0.1:0\"}]");
    let gateway = Gateway::start(&config).await;
    for (n, body) in [OK_JSON, OK_SSE].into_iter().enumerate() {
        let mut client = Client::connect(gateway.listen()[0]).await;
        client.send(&http1::post(CHAT, body)).await;
        client.half_close();
        let response = client.response().await;
        assert_eq!((response.status(), response.is_complete()), (200, true));
        gateway.wait_outcome("finished", (n + 1) as f64).await;
    }
    // The same bytes on the other listener of the same gateway.
    let mut client = Client::connect(gateway.listen()[1]).await;
    client.send(&http1::post(CHAT, OK_JSON)).await;
    backend.request(2).await;
    client.half_close();
    gateway.wait_outcome("client_cancelled", 1.0).await;
}

#[tokio::test]
async fn b14_d_a_reset_is_gone_even_where_half_close_is_allowed() {
    let backend = Backend::start(endless).await;
    let config = Config::chat([backend.url().as_str()])
        .listen("[{address: \"127.0.0.1:0\", client_half_close: true}]");
    let gateway = Gateway::start(&config).await;
    let mut client = gateway.connect().await;
    client.send(&http1::post(CHAT, OK_SSE)).await;
    client.head().await;
    client.reset();
    let left = Instant::now();
    let (at, _) = backend.peer_end(backend.request(0).await.connection).await;
    assert!(at.saturating_duration_since(left) <= SOON);
    gateway.wait_outcome("client_cancelled", 1.0).await;
}

#[tokio::test]
async fn b14_e_http2_reset_of_one_stream() {
    let (backends, gateway) =
        through_two("", |r| if r.asks_for_stream() { endless(r) } else { silent(r) }).await;
    let client = H2Client::connect(gateway.addr()).await;
    // Before the headers.
    let waiting = client.post(CHAT, OK_JSON);
    tokio::select! {
        answer = waiting => panic!("an answer to a silent engine: {answer:?}"),
        () = arrived(&backends, 1) => {}
    }
    let left = Instant::now();
    assert_cancelled(&backends, &gateway, 1, left).await;
    // In the middle of a stream.
    let mut response = client.post(CHAT, OK_SSE).await.unwrap();
    for _ in 0..3 {
        h2::frame(response.body_mut()).await.unwrap().unwrap();
    }
    let left = Instant::now();
    drop(response);
    assert_cancelled(&backends, &gateway, 2, left).await;
    // The connection itself lives on.
    backends.iter().for_each(|b| b.script(polite));
    assert_eq!(client.post(CHAT, OK_JSON).await.unwrap().status(), 200);
}

#[tokio::test]
async fn b14_e_http2_connection_that_closes_cancels_all_its_streams() {
    let (backend, gateway) = through(endless).await;
    let client = H2Client::connect(gateway.addr()).await;
    let mut bodies = Vec::new();
    for _ in 0..5 {
        bodies.push(client.post(CHAT, OK_SSE).await.unwrap());
    }
    drop(client);
    drop(bodies);
    gateway.wait_outcome("client_cancelled", 5.0).await;
    gateway.wait_idle().await;
    for request in backend.requests() {
        backend.peer_end(request.connection).await;
    }
}

#[tokio::test]
async fn b14_f_two_hundred_streams_closed_at_once_leave_readiness_alone() {
    let piece = bytes::Bytes::from(http1::chunk(&[b": ".as_slice(), &[b'x'; 65_532], b"\n\n"].concat()));
    let (backend, gateway) = through(move |_| {
        let mut steps = open_stream(&[chunk("a")], Duration::ZERO);
        // 5 MiB each, as fast as it is taken.
        steps.extend((0..80).map(|_| Step::Send(piece.clone())));
        steps.push(Step::Stall);
        steps
    })
    .await;
    let mut clients = Vec::new();
    for _ in 0..200 {
        let mut client = gateway.connect().await;
        client.send(&http1::post(CHAT, OK_SSE)).await;
        clients.push(client);
    }
    for client in &mut clients {
        client.head().await;
        client.read_until("the first bytes", |got| !got.is_empty()).await;
    }
    let left = Instant::now();
    drop(clients);
    let mut polls = 0;
    while gateway.metric("forebay_endpoint_inflight", &[]).await > 0.0 || polls < 20 {
        assert!(left.elapsed() < forebay_tests::LIMIT, "streams of clients that left are still in flight");
        let mut probe = Client::connect(gateway.admin()).await;
        probe.send(&http1::request("GET", "/readyz", &[], b"")).await;
        // The case wants 200 ms at the 99th percentile; a busy machine gets a generous bound.
        assert_eq!(probe.response_within(Duration::from_secs(2)).await.status(), 200);
        polls += 1;
    }
    gateway.wait_outcome("client_cancelled", 200.0).await;
    for request in backend.requests() {
        backend.peer_end(request.connection).await;
    }
}

#[tokio::test]
async fn b14_client_that_leaves_in_the_middle_of_its_body_reaches_no_engine() {
    let (backend, gateway) = through(polite).await;
    let request = http1::post(CHAT, OK_JSON);
    for with_reset in [false, true] {
        let mut client = gateway.connect().await;
        client.send(&request[..request.len() - 10]).await;
        tokio::time::sleep(Duration::from_millis(50)).await;
        if with_reset { client.reset() } else { client.close() }
    }
    gateway.wait_metric("forebay_client_connections", &[], 0.0).await;
    gateway.wait_idle().await;
    assert_eq!(backend.count(), 0);
    assert_eq!(gateway.post(CHAT, OK_JSON).await.status(), 200);
}

#[tokio::test]
async fn b14_client_that_closes_after_the_whole_answer_is_no_cancel() {
    let (_backend, gateway) = through(|_| stream(&[chunk("a"), DONE.to_vec()], Duration::ZERO)).await;
    for _ in 0..20 {
        let mut client = gateway.connect().await;
        client.send(&http1::post(CHAT, OK_SSE)).await;
        let head = client.head().await;
        assert!(client.rest(head).await.body.ends_with(DONE));
        client.close();
    }
    gateway.wait_outcome("finished", 20.0).await;
    assert_eq!(gateway.metric("forebay_requests_total", &[("outcome", "client_cancelled")]).await, 0.0);
}
