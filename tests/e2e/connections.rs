//! Connections on both sides: kept, shared, spoken in both versions.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use forebay_tests::backend::{Backend, Gate, Mode, RequestLog, Step};
use forebay_tests::bodies::{
    CHAT, DONE, OK_JSON, OK_SSE, chunk, completion, events, ok_json, polite, response, stream,
};
use forebay_tests::client::{self, End};
use forebay_tests::config::Config;
use forebay_tests::gateway::Gateway;
use forebay_tests::h2::{self, H2Answer, H2Backend, H2Client};
use forebay_tests::http1;
use forebay_tests::socket::{HangingPort, RefusingPort};

use crate::common::{openai_error, retry_after, through, through_with, wait_endpoints};

#[tokio::test]
async fn expect_continue_is_answered_before_the_body() {
    let (backend, gateway) = through(polite).await;
    let mut client = gateway.connect().await;
    let head = format!(
        "POST {CHAT} HTTP/1.1\r\nHost: g\r\nContent-Type: application/json\r\nExpect: 100-continue\r\nContent-Length: {}\r\n\r\n",
        OK_JSON.len()
    );
    client.send(head.as_bytes()).await;
    assert_eq!(client.head().await.status(), 100);
    assert_eq!(backend.count(), 0);
    client.send(OK_JSON).await;
    assert_eq!(client.response().await.status(), 200);
    assert_eq!(backend.request(0).await.body, OK_JSON);
    // The gateway has answered it; the engine need not.
    assert_eq!(backend.request(0).await.head.get("expect"), None);
}

#[tokio::test]
async fn expect_continue_with_a_body_that_is_too_large_is_413_at_once() {
    let (_backend, gateway) = through_with("limits: {body: 1MiB}", polite).await;
    let mut client = gateway.connect().await;
    let head = format!(
        "POST {CHAT} HTTP/1.1\r\nHost: g\r\nExpect: 100-continue\r\nContent-Length: {}\r\n\r\n",
        (1 << 20) + 1
    );
    client.send(head.as_bytes()).await;
    let head = client.head().await;
    assert_eq!(head.status(), 413, "asked for a body that it will refuse");
}

#[tokio::test]
async fn chunked_request_body_arrives_whole() {
    let (backend, gateway) = through(polite).await;
    let head = format!(
        "POST {CHAT} HTTP/1.1\r\nHost: g\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
    );
    for size in [1, 7, 1000] {
        let mut client = gateway.connect().await;
        client.send(head.as_bytes()).await;
        client.send_segments(http1::chunked(OK_JSON, size).chunks(5), Duration::from_micros(200)).await;
        assert_eq!(client.response().await.status(), 200, "chunks of {size}");
    }
    // Extensions and a trailer are framing, not body.
    let body =
        [format!("{:X};a=\"b\"\r\n", OK_JSON.len()).as_bytes(), OK_JSON, b"\r\n0\r\nX-Trailer: 1\r\n\r\n"]
            .concat();
    assert_eq!(client::exchange(gateway.addr(), &[head.as_bytes(), &body].concat()).await.status(), 200);
    assert_eq!(backend.count(), 4);
    for request in backend.requests() {
        assert_eq!(request.body, OK_JSON);
        assert_eq!(request.head.count("content-length") + request.head.count("transfer-encoding"), 1);
    }
    assert_eq!(backend.errors(), Vec::<String>::new());
}

#[tokio::test]
async fn connections_are_kept_on_both_sides() {
    let (backend, gateway) = through(polite).await;
    let mut client = gateway.connect().await;
    for n in 0..20 {
        let body = if n % 2 == 0 { OK_JSON } else { OK_SSE };
        let answer = client.exchange(&http1::post(CHAT, body)).await;
        assert_eq!((answer.status(), answer.is_complete()), (200, true));
    }
    // And for clients that come one after another, whichever worker takes them.
    for _ in 0..20 {
        assert_eq!(gateway.post(CHAT, OK_JSON).await.status(), 200);
    }
    let mut used: Vec<usize> = backend.requests().iter().map(|r| r.connection).collect();
    assert_eq!(used.len(), 40);
    used.dedup();
    assert_eq!(used.len(), 1, "one request after the other took connections {used:?}");
}

#[tokio::test]
async fn a_refused_request_keeps_the_clients_connection_usable() {
    let (_backend, gateway) = through(polite).await;
    let mut client = gateway.connect().await;
    for _ in 0..3 {
        openai_error(&client.exchange(&http1::post(CHAT, b"{")).await, 400);
        openai_error(&client.exchange(&http1::post("/nope", OK_JSON)).await, 404);
        assert_eq!(client.exchange(&http1::post(CHAT, OK_JSON)).await.status(), 200);
    }
}

#[tokio::test]
async fn an_engine_that_closes_after_each_answer_loses_no_request() {
    for announces in [true, false] {
        let (backend, gateway) = through(move |_| {
            let close: &[(&str, &str)] = if announces { &[("Connection", "close")] } else { &[] };
            vec![Step::send(response("200 OK", close, &completion("tide-7b", 1, 1))), Step::Fin]
        })
        .await;
        for _ in 0..50 {
            assert_eq!(gateway.post(CHAT, OK_JSON).await.status(), 200);
        }
        assert_eq!(backend.count(), 50, "announces: {announces}");
    }
}

#[tokio::test]
async fn a_connection_that_breaks_after_the_body_was_taken_is_not_tried_again() {
    let (backend, gateway) = through(|r| if r.index == 0 { ok_json() } else { vec![Step::Fin] }).await;
    assert_eq!(gateway.post(CHAT, OK_JSON).await.status(), 200);
    // On a fresh connection, the case is clear; on a kept one the engine has read the body too.
    for _ in 0..2 {
        openai_error(&gateway.post(CHAT, OK_JSON).await, 502);
    }
    let retries = gateway.metric("forebay_retries_total", &[]).await;
    assert_eq!(backend.count() as f64, 3.0 + retries, "a body came twice and nobody counted it");
    gateway.wait_outcome("upstream_error", 2.0).await;
}

#[tokio::test]
async fn refused_connection_is_tried_on_another_endpoint_once() {
    let port = RefusingPort::new();
    let backend = Backend::start(polite).await;
    let refusing = format!("http://{}", port.addr);
    let config = Config::chat([refusing.as_str(), backend.url().as_str()]).with("health: {enabled: false}");
    let gateway = Gateway::start(&config).await;
    for n in 1..=4 {
        let response = gateway.post(CHAT, OK_JSON).await;
        assert_eq!(response.status(), 200, "{}", response.text());
        assert_eq!(backend.count(), n);
    }
    assert!(gateway.metric("forebay_retries_total", &[("reason", "connect")]).await >= 1.0);
    gateway.wait_outcome("finished", 4.0).await;
    gateway.wait_idle().await;
}

#[tokio::test]
async fn reset_connection_before_any_byte_is_tried_on_another_endpoint() {
    let bad = Backend::start(polite).await;
    let good = Backend::start(polite).await;
    bad.set_mode(Mode::Reset);
    let config = Config::chat([bad.url().as_str(), good.url().as_str()]).with("health: {enabled: false}");
    let gateway = Gateway::start(&config).await;
    // The reset may come while the request is on its way; then whether the engine
    // has it is not known, and the honest answer is 502 and no second try.
    for _ in 0..4 {
        let status = gateway.post(CHAT, OK_JSON).await.status();
        assert!(matches!(status, 200 | 502), "{status}");
    }
    assert!(good.count() <= 4);
    gateway.wait_idle().await;
}

#[tokio::test]
async fn endpoint_that_does_not_connect_in_time_is_replaced() {
    let port = HangingPort::new().await;
    let backend = Backend::start(polite).await;
    let hanging = format!("http://{}", port.addr);
    let config = Config::chat([hanging.as_str(), backend.url().as_str()])
        .with("health: {enabled: false}\ntimeouts: {connect: 300ms}");
    let gateway = Gateway::start(&config).await;
    for n in 1..=3 {
        let response = gateway.post(CHAT, OK_JSON).await;
        assert_eq!(response.status(), 200, "{}", response.text());
        assert_eq!(backend.count(), n);
    }
    assert!(gateway.metric("forebay_endpoint_dials_total", &[("result", "timeout")]).await >= 1.0);
    assert!(gateway.metric("forebay_retries_total", &[("reason", "connect")]).await >= 1.0);
    gateway.wait_idle().await;
}

#[tokio::test]
async fn no_connection_in_time_anywhere_is_504() {
    let port = HangingPort::new().await;
    let hanging = format!("http://{}", port.addr);
    let config =
        Config::chat([hanging.as_str()]).with("health: {enabled: false}\ntimeouts: {connect: 300ms}");
    let gateway = Gateway::start(&config).await;
    openai_error(&gateway.post(CHAT, OK_JSON).await, 504);
    gateway.wait_outcome("timeout_connect", 1.0).await;
    gateway.wait_idle().await;
}

#[tokio::test]
async fn every_endpoint_refusing_is_an_error_that_says_so() {
    let ports = [RefusingPort::new(), RefusingPort::new(), RefusingPort::new()];
    let urls = ports.each_ref().map(|p| format!("http://{}", p.addr));
    let config = Config::chat(urls.iter().map(String::as_str)).with("health: {enabled: false}");
    let gateway = Gateway::start(&config).await;
    let response = gateway.post(CHAT, OK_JSON).await;
    openai_error(&response, 502);
    let dials = gateway.metric("forebay_endpoint_dials_total", &[]).await;
    assert!(dials <= 2.0, "{dials} endpoints were tried for one request");
    gateway.wait_outcome("upstream_error", 1.0).await;
    gateway.wait_idle().await;
}

#[tokio::test]
async fn endpoint_that_fails_its_probes_is_not_picked_and_comes_back() {
    let backends = [Backend::start(polite).await, Backend::start(polite).await];
    let (a, b) = (backends[0].url(), backends[1].url());
    let config = Config::chat([a.as_str(), b.as_str()]).with("health: {interval: 100ms, fall: 2}");
    let gateway = Gateway::start(&config).await;
    wait_endpoints(&gateway, 2).await;
    backends[0].set_healthy(false);
    wait_endpoints(&gateway, 1).await;
    let before = backends[0].count();
    for _ in 0..10 {
        assert_eq!(gateway.post(CHAT, OK_JSON).await.status(), 200);
    }
    assert_eq!(backends[0].count(), before);
    backends[0].set_healthy(true);
    wait_endpoints(&gateway, 2).await;
    for _ in 0..4 {
        assert_eq!(gateway.post(CHAT, OK_JSON).await.status(), 200);
    }
    assert!(backends[0].count() > before);
}

#[tokio::test]
async fn backpressure_of_an_engine_passes_through() {
    let (backend, gateway) = through(|r| {
        let (status, fields): (_, &[(&str, &str)]) = match r.index {
            0 => ("429 Too Many Requests", &[("Retry-After", "7"), ("Content-Type", "application/json")]),
            1 => (
                "503 Service Unavailable",
                &[("Retry-After", "Wed, 21 Oct 2026 07:28:00 GMT"), ("Content-Type", "application/json")],
            ),
            2 => ("400 Bad Request", &[("Content-Type", "application/json")]),
            _ => ("500 Internal Server Error", &[("Content-Type", "application/json")]),
        };
        vec![Step::send(response(
            status,
            fields,
            br#"{"error":{"message":"m","type":"t","param":null,"code":1}}"#,
        ))]
    })
    .await;
    for (status, retry) in
        [(429, Some("7")), (503, Some("Wed, 21 Oct 2026 07:28:00 GMT")), (400, None), (500, None)]
    {
        let answer = gateway.post(CHAT, OK_JSON).await;
        assert_eq!(answer.status(), status);
        assert_eq!(answer.head.get("retry-after"), retry);
        assert_eq!(answer.body, br#"{"error":{"message":"m","type":"t","param":null,"code":1}}"#);
    }
    gateway.wait_outcome("backpressure", 2.0).await;
    gateway.wait_outcome("client_error", 1.0).await;
    gateway.wait_outcome("upstream_error", 1.0).await;
    assert_eq!(backend.count(), 4);
}

#[tokio::test]
async fn an_answer_that_is_no_http_is_502() {
    let (_backend, gateway) = through(|r| match r.index {
        0 => vec![Step::send(b"SSH-2.0-OpenSSH_9.9\r\n"), Step::Fin],
        1 => vec![Step::send(b"HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n"), Step::Fin],
        _ => vec![Step::send(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n"), Step::Fin],
    })
    .await;
    for n in 0..2 {
        openai_error(&gateway.post(CHAT, OK_JSON).await, 502);
        gateway.wait_outcome("upstream_error", f64::from(n + 1)).await;
    }
    // Both framings: the coding wins, and one of them goes on; or it is refused.
    let answer = gateway.post(CHAT, OK_JSON).await;
    assert!(matches!(answer.status(), 200 | 502));
    assert_eq!(answer.head.count("content-length") + answer.head.count("transfer-encoding"), 1);
    if answer.status() == 200 {
        assert_eq!(answer.body, b"hello");
    }
}

#[tokio::test]
async fn plain_answer_that_breaks_off_is_cut_for_the_client_too() {
    let (_backend, gateway) = through(|_| {
        let whole = response("200 OK", &[("Content-Type", "application/json")], &completion("tide-7b", 1, 1));
        vec![Step::send(&whole[..whole.len() - 20]), Step::Sleep(Duration::from_millis(50)), Step::Fin]
    })
    .await;
    let mut client = gateway.connect().await;
    client.send(&http1::post(CHAT, OK_JSON)).await;
    match client.try_head("POST", forebay_tests::LIMIT).await {
        Ok(head) if head.status() == 200 => assert!(client.rest(head).await.is_cut()),
        Ok(head) => assert_eq!(head.status(), 502),
        Err(end) => assert!(matches!(end, End::Fin | End::Rst), "{end:?}"),
    }
    gateway.wait_outcome("upstream_truncated", 1.0).await;
}

#[tokio::test]
async fn http2_client_with_a_hundred_streams_at_once() {
    let gate = Gate::default();
    let held = gate.clone();
    let (backend, gateway) = through(move |r| {
        let seed = r.json()["seed"].as_u64().unwrap();
        // Nobody is answered before all hundred are here.
        [
            vec![Step::Wait(held.clone())],
            stream(&[chunk(&seed.to_string()), DONE.to_vec()], Duration::from_millis(5)),
        ]
        .concat()
    })
    .await;
    let client = Arc::new(H2Client::connect(gateway.addr()).await);
    let mut all = tokio::task::JoinSet::new();
    for n in 0..100 {
        let client = Arc::clone(&client);
        all.spawn(async move {
            let body = format!(r#"{{"model":"tide-7b","messages":[{{"role":"user","content":"hi"}}],"stream":true,"seed":{n}}}"#);
            let response = client.post(CHAT, body.as_bytes()).await.unwrap();
            assert_eq!(response.status(), 200);
            assert!(response.headers().contains_key("x-request-id"));
            assert!(!response.headers().contains_key("transfer-encoding"));
            assert_eq!(h2::body(response).await.unwrap(), [chunk(&n.to_string()), DONE.to_vec()].concat());
        });
    }
    backend.request(99).await;
    gate.open();
    all.join_all().await;
    gateway.wait_outcome("finished", 100.0).await;
    gateway.wait_idle().await;
    assert_eq!(client.get("/v1/models").await.unwrap().status(), 200);
    assert_eq!(client.get("/nope").await.unwrap().status(), 404);
    assert_eq!(client.post(CHAT, b"{").await.unwrap().status(), 400);
}

#[tokio::test]
async fn http2_client_sees_a_cut_as_a_cut() {
    let (_backend, gateway) = through(|_| {
        let mut steps = forebay_tests::bodies::open_stream(&[chunk("a")], Duration::ZERO);
        steps.extend([Step::Sleep(Duration::from_millis(100)), Step::Fin]);
        steps
    })
    .await;
    let client = H2Client::connect(gateway.addr()).await;
    let response = client.post(CHAT, OK_SSE).await.unwrap();
    assert!(h2::body(response).await.is_err(), "a cut stream ended as if it were whole");
    gateway.wait_outcome("upstream_truncated", 1.0).await;
    assert_eq!(client.get("/v1/models").await.unwrap().status(), 200, "the connection went with the stream");
}

fn h2c_config(backend: &H2Backend, fields: &str) -> Config {
    Config::new()
        .pool("chat", "tide-7b", [backend.url().as_str()], &format!("protocol: h2c\n{fields}"))
        // Each worker has its own connections; one worker makes neighbours share one.
        .with("workers: 1\nhealth: {enabled: false}")
}

fn h2_stream(pieces: &[Vec<u8>], gap: Duration, hang: bool) -> H2Answer {
    H2Answer {
        content_type: "text/event-stream",
        frames: pieces.iter().map(|p| (gap, p.clone())).collect(),
        hang,
    }
}

#[tokio::test]
async fn h2c_pool_is_probed_in_http2() {
    // The backend speaks nothing else.
    let backend = H2Backend::start(100, |_| h2_stream(&[DONE.to_vec()], Duration::ZERO, false)).await;
    let config = Config::new().pool("chat", "tide-7b", [backend.url().as_str()], "protocol: h2c");
    let gateway = Gateway::start(&config).await;
    assert_eq!(gateway.post(CHAT, OK_SSE).await.body, DONE);
}

#[tokio::test]
async fn h2c_pool_streams_and_answers() {
    let backend = H2Backend::start(100, |r| {
        if r.body.ends_with(b"true}") {
            h2_stream(&[chunk("a"), chunk("b"), DONE.to_vec()], Duration::from_millis(5), false)
        } else {
            H2Answer {
                content_type: "application/json",
                frames: vec![(Duration::ZERO, completion("tide-7b", 12, 30))],
                hang: false,
            }
        }
    })
    .await;
    let gateway = Gateway::start(&h2c_config(&backend, "")).await;
    for _ in 0..3 {
        let streamed = gateway.post(CHAT, OK_SSE).await;
        assert_eq!(streamed.body, [chunk("a"), chunk("b"), DONE.to_vec()].concat());
        assert!(streamed.is_complete());
        assert_eq!(gateway.post(CHAT, OK_JSON).await.body, completion("tide-7b", 12, 30));
    }
    // HTTP/2 on both sides.
    let client = H2Client::connect(gateway.addr()).await;
    let response = client.post(CHAT, OK_SSE).await.unwrap();
    assert_eq!(events(&h2::body(response).await.unwrap()).len(), 3);
    for request in backend.requests() {
        assert_eq!(request.target, CHAT);
        assert_eq!(format!("http://{}", request.authority), backend.url());
        for field in ["connection", "transfer-encoding", "keep-alive", "upgrade", "host"] {
            assert!(!request.headers.contains_key(field), "{field} on HTTP/2");
        }
    }
    gateway.wait_outcome("finished", 7.0).await;
}

#[tokio::test]
async fn h2c_pool_runs_more_requests_than_one_connection_takes() {
    let running = Arc::new(AtomicUsize::new(0));
    let most = Arc::clone(&running);
    let backend = H2Backend::start(10, move |_| {
        most.fetch_add(1, Ordering::SeqCst);
        h2_stream(&[chunk("a"), DONE.to_vec()], Duration::from_millis(20), false)
    })
    .await;
    let gateway = Gateway::start(&h2c_config(&backend, "h2_connections: 4")).await;
    let addr = gateway.addr();
    let mut all = tokio::task::JoinSet::new();
    for _ in 0..100 {
        all.spawn(async move { client::post(addr, CHAT, OK_SSE).await });
    }
    for response in all.join_all().await {
        assert_eq!((response.status(), response.is_complete()), (200, true), "{}", response.text());
    }
    assert_eq!(running.load(Ordering::SeqCst), 100);
    assert!(backend.connections() <= 4, "{} connections", backend.connections());
    gateway.wait_idle().await;
}

#[tokio::test]
async fn h2c_cancel_ends_only_its_own_stream() {
    let backend = H2Backend::start(100, |r| {
        if r.body.starts_with(br#"{"model":"tide-7b","seed":1"#) {
            h2_stream(&[chunk("a")], Duration::ZERO, true)
        } else {
            h2_stream(&vec![chunk("a"); 20], Duration::from_millis(50), false)
        }
    })
    .await;
    let gateway = Gateway::start(&h2c_config(&backend, "h2_connections: 1")).await;
    let mut staying = gateway.connect().await;
    staying.send(&http1::post(CHAT, OK_SSE)).await;
    let head = staying.head().await;
    let mut leaving = gateway.connect().await;
    let body = br#"{"model":"tide-7b","seed":1,"messages":[{"role":"user","content":"hi"}],"stream":true}"#;
    leaving.send(&http1::post(CHAT, body)).await;
    leaving.head().await;
    leaving.close();
    forebay_tests::wait::until("the cancel at the engine", || (backend.cancelled().len() == 1).then_some(()))
        .await;
    let response = staying.rest(head).await;
    assert!(response.is_complete(), "{:?}", response.end);
    assert_eq!(response.body, chunk("a").repeat(20));
    assert_eq!(backend.cancelled().len(), 1);
    let requests = backend.requests();
    assert_eq!(requests[0].connection, requests[1].connection);
    gateway.wait_outcome("client_cancelled", 1.0).await;
    gateway.wait_outcome("finished", 1.0).await;
}

#[tokio::test]
async fn h2c_slow_client_does_not_stall_its_neighbours() {
    let backend = H2Backend::start(100, |r| {
        if r.body.starts_with(br#"{"model":"tide-7b","seed":1"#) {
            let big = [b"data: ".as_slice(), &[b'x'; 64 << 10], b"\n\n"].concat();
            h2_stream(&vec![big; 256], Duration::ZERO, false)
        } else {
            h2_stream(&[vec![chunk("a"); 10], vec![DONE.to_vec()]].concat(), Duration::from_millis(5), false)
        }
    })
    .await;
    let gateway = Gateway::start(&h2c_config(&backend, "h2_connections: 1")).await;
    let body = br#"{"model":"tide-7b","seed":1,"messages":[{"role":"user","content":"hi"}],"stream":true}"#;
    let mut slow = Vec::new();
    for _ in 0..4 {
        // These send and never read: 16 MiB each wait for them.
        let mut client = gateway.connect().await;
        client.send(&http1::post(CHAT, body)).await;
        slow.push(client);
    }
    forebay_tests::wait::until("the slow ones at the engine", || {
        (backend.requests().len() == 4).then_some(())
    })
    .await;
    tokio::time::sleep(Duration::from_millis(300)).await;
    for _ in 0..5 {
        let response = gateway.post(CHAT, OK_SSE).await;
        assert_eq!((response.status(), response.is_complete()), (200, true));
    }
    assert!(gateway.resident_bytes() < 256 << 20, "answers pile up in the gateway");
}

#[tokio::test]
async fn a_client_that_reads_slowly_slows_its_engine_and_not_the_gateways_memory() {
    let piece = bytes::Bytes::from(http1::chunk(&[b": ".as_slice(), &[b'x'; 65_532], b"\n\n"].concat()));
    let (_backend, gateway) = through(move |_| {
        let mut steps = forebay_tests::bodies::open_stream(&[chunk("a")], Duration::ZERO);
        steps.extend((0..1024).map(|_| Step::Send(piece.clone())));
        steps.push(Step::send(forebay_tests::bodies::LAST_CHUNK));
        steps
    })
    .await;
    let before = gateway.resident_bytes();
    let mut client = gateway.connect().await;
    client.send(&http1::post(CHAT, OK_SSE)).await;
    let head = client.head().await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    let grown = gateway.resident_bytes().saturating_sub(before);
    assert!(grown < 16 << 20, "64 MiB that nobody reads took {grown} bytes");
    let response = client.rest(head).await;
    assert!(response.is_complete());
    assert_eq!(response.body.len(), chunk("a").len() + 1024 * 65_536);
}

fn hold(gate: &Gate) -> impl Fn(&RequestLog) -> Vec<Step> + Send + Sync + use<> {
    let gate = gate.clone();
    move |_| [vec![Step::Wait(gate.clone())], ok_json()].concat()
}

#[tokio::test]
async fn requests_over_the_in_flight_limit_are_refused_with_a_time_to_wait() {
    let gate = Gate::default();
    let (backend, gateway) = through_with("limits: {in_flight: 2}", hold(&gate)).await;
    let mut held = Vec::new();
    for n in 0..2 {
        let mut client = gateway.connect().await;
        client.send(&http1::post(CHAT, OK_JSON)).await;
        backend.request(n).await;
        held.push(client);
    }
    for _ in 0..3 {
        let refused = gateway.post(CHAT, OK_JSON).await;
        openai_error(&refused, 503);
        retry_after(&refused);
    }
    gateway.wait_metric("forebay_rejected_total", &[("reason", "inflight_limit")], 3.0).await;
    gate.open();
    for client in &mut held {
        assert_eq!(client.response().await.status(), 200);
    }
    assert_eq!(gateway.post(CHAT, OK_JSON).await.status(), 200);
    assert_eq!(backend.count(), 3);
}

#[tokio::test]
async fn head_over_its_limit_is_431() {
    let (backend, gateway) = through_with("limits: {header_bytes: 8KiB}", polite).await;
    let big = "x".repeat(16 << 10);
    let mut client = gateway.connect().await;
    client.send(&http1::request("POST", CHAT, &[("X-Big", &big)], OK_JSON)).await;
    assert_eq!(client.head().await.status(), 431);
    let many: Vec<(String, String)> = (0..400).map(|n| (format!("X-Field-{n}"), "y".repeat(40))).collect();
    let many: Vec<(&str, &str)> = many.iter().map(|(n, v)| (n.as_str(), v.as_str())).collect();
    let mut client = gateway.connect().await;
    client.send(&http1::request("POST", CHAT, &many, OK_JSON)).await;
    assert_eq!(client.head().await.status(), 431);
    let fits = "x".repeat(6 << 10);
    let request = http1::request("POST", CHAT, &[("X-Big", &fits)], OK_JSON);
    assert_eq!(client::exchange(gateway.addr(), &request).await.status(), 200);
    assert_eq!(backend.count(), 1);
    gateway.wait_metric("forebay_rejected_total", &[("reason", "headers_too_large")], 2.0).await;
}

#[tokio::test]
async fn head_that_does_not_come_in_time_ends_the_connection() {
    let (backend, gateway) = through_with("limits: {header_read: 500ms}", polite).await;
    // Half a head; and one that comes a byte at a time, which must not extend the limit.
    for drip in [false, true] {
        let mut client = gateway.connect().await;
        client.send(b"POST /v1/chat/completions HTTP/1.1\r\nHost: g\r\nX-Slow: ").await;
        let (answer, end) = if drip {
            for _ in 0..200 {
                if client.try_send(b"x").await.is_err() {
                    break;
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            client.raw_rest().await
        } else {
            client.raw_rest().await
        };
        assert_ne!(end, End::Limit, "drip: {drip}");
        let text = String::from_utf8_lossy(&answer);
        assert!(text.is_empty() || text.starts_with("HTTP/1.1 408"), "{text}");
    }
    assert_eq!(backend.count(), 0);
    gateway.wait_metric("forebay_client_connections", &[], 0.0).await;
}

#[tokio::test]
async fn body_that_stalls_is_408() {
    let (backend, gateway) = through_with("limits: {body_stall: 500ms}", polite).await;
    let mut client = gateway.connect().await;
    client
        .send(
            format!("POST {CHAT} HTTP/1.1\r\nHost: g\r\nContent-Length: 1000\r\n\r\n{{\"model\"").as_bytes(),
        )
        .await;
    openai_error(&client.response().await, 408);
    assert!(client.closes_within(Duration::from_secs(10)).await);
    gateway.wait_metric("forebay_rejected_total", &[("reason", "body_timeout")], 1.0).await;
    gateway.wait_idle().await;
    // A body that is slow and never silent for that long is not stalled.
    let bytes = http1::post(CHAT, OK_JSON);
    let mut client = gateway.connect().await;
    client.send_segments(bytes.chunks(8), Duration::from_millis(60)).await;
    assert_eq!(client.response().await.status(), 200);
    assert_eq!(backend.count(), 1);
}

#[tokio::test]
async fn bodies_of_all_requests_together_are_bounded() {
    let gate = Gate::default();
    let (backend, gateway) = through_with("limits: {body: 1MiB, body_memory: 1MiB}", hold(&gate)).await;
    let mut body = br#"{"model":"tide-7b","messages":[{"role":"user","content":""#.to_vec();
    body.resize(700 << 10, b'x');
    body.extend_from_slice(br#""}]}"#);
    let mut first = gateway.connect().await;
    first.send(&http1::post(CHAT, &body)).await;
    backend.request(0).await;
    let mut second = gateway.connect().await;
    let _ = second.try_send(&http1::post(CHAT, &body)).await;
    let refused = second.response_within(Duration::from_secs(60)).await;
    openai_error(&refused, 503);
    retry_after(&refused);
    gateway.wait_metric("forebay_rejected_total", &[("reason", "body_memory")], 1.0).await;
    gate.open();
    assert_eq!(first.response().await.status(), 200);
    assert_eq!(gateway.post(CHAT, &body).await.status(), 200, "the room was not given back");
}

#[tokio::test]
async fn connections_over_their_limit_are_turned_away_with_a_time_to_wait() {
    let (_backend, gateway) = through_with("limits: {connections: 2}", polite).await;
    let mut first = gateway.connect().await;
    let mut second = gateway.connect().await;
    for client in [&mut first, &mut second] {
        assert_eq!(client.exchange(&http1::post(CHAT, OK_JSON)).await.status(), 200);
    }
    for _ in 0..5 {
        let refused = gateway.post(CHAT, OK_JSON).await;
        openai_error(&refused, 503);
        retry_after(&refused);
    }
    gateway.wait_metric("forebay_rejected_total", &[("reason", "connection_limit")], 5.0).await;
    first.close();
    gateway.wait_metric("forebay_client_connections", &[], 1.0).await;
    assert_eq!(gateway.post(CHAT, OK_JSON).await.status(), 200);
    assert_eq!(second.exchange(&http1::post(CHAT, OK_JSON)).await.status(), 200);
}

#[tokio::test]
async fn idle_clients_are_let_go() {
    let (_backend, gateway) = through_with("limits: {client_idle: 1s}", polite).await;
    let mut client = gateway.connect().await;
    assert_eq!(client.exchange(&http1::post(CHAT, OK_JSON)).await.status(), 200);
    assert!(client.closes_within(Duration::from_secs(10)).await);
    gateway.wait_metric("forebay_client_connections", &[], 0.0).await;
}

#[tokio::test]
async fn http2_requests_have_the_same_limits() {
    let (backend, gateway) = through_with("limits: {body: 64KiB, body_stall: 500ms}", polite).await;
    let client = H2Client::connect(gateway.addr()).await;
    let over = vec![b'x'; (64 << 10) + 1];
    assert_eq!(client.post(CHAT, &over).await.unwrap().status(), 413);
    let response = client.post(CHAT, OK_JSON).await.unwrap();
    assert_eq!(response.status(), 200, "the connection went with the refused request");
    assert_eq!(h2::body(response).await.unwrap(), completion("tide-7b", 12, 30));
    assert_eq!(client.get(CHAT).await.unwrap().status(), 405);
    assert_eq!(backend.count(), 1);
}
