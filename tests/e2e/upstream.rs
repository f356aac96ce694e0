//! Engines that refuse, break, push back or speak something else.

use std::time::Duration;

use forebay_tests::backend::{Backend, Mode, Step};
use forebay_tests::bodies::{CHAT, OK_JSON, OK_SSE, chunk, completion, ok_json, polite, response};
use forebay_tests::client::End;
use forebay_tests::config::Config;
use forebay_tests::gateway::Gateway;
use forebay_tests::http1;
use forebay_tests::socket::{HangingPort, RefusingPort};

use crate::common::{openai_error, through, wait_endpoints};

#[tokio::test]
async fn an_engine_that_closes_after_each_answer_loses_no_request() {
    for announces in [true, false] {
        let (backend, gateway) = through(move |_| {
            let close: &[(&str, &str)] = if announces { &[("Connection", "close")] } else { &[] };
            vec![Step::send(response("200 OK", close, &completion("tide-7b", 1, 1))), Step::Fin]
        })
        .await;
        // The engine's FIN is there before the client has its answer: each next
        // request comes after it.
        for n in 0..50 {
            let answer = gateway.post(CHAT, OK_JSON).await;
            assert_eq!(answer.status(), 200, "request {n}, close announced: {announces}: {}", answer.text());
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
