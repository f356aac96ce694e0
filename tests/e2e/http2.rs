//! HTTP/2 with prior knowledge, from clients and to engines.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use forebay_tests::backend::{Gate, Step};
use forebay_tests::bodies::{CHAT, DONE, OK_JSON, OK_SSE, chunk, completion, events, polite, stream};
use forebay_tests::client;
use forebay_tests::config::Config;
use forebay_tests::gateway::Gateway;
use forebay_tests::h2::{self, H2Answer, H2Backend, H2Client};
use forebay_tests::http1;

use crate::common::{through, through_with};

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
        .pool(
            "chat",
            "tide-7b",
            [backend.url().as_str()],
            &format!("protocol: h2c\nscrape: {{enabled: false}}\n{fields}"),
        )
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
