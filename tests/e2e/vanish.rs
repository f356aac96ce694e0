//! Clients of every kind that vanish at random moments leave nothing behind.

use std::time::Duration;

use forebay_tests::backend::{Backend, RequestLog, Step};
use forebay_tests::bodies::{CHAT, DONE, OK_JSON, chunk, ok_json, stream, usage};
use forebay_tests::client::Client;
use forebay_tests::config::Config;
use forebay_tests::gateway::Gateway;
use forebay_tests::h2::{self, H2Client};
use forebay_tests::http1;

use crate::common::{Dice, wait_endpoints};

const REQUESTS: usize = 200;

/// Slow enough that every moment of it can be hit.
fn slow(r: &RequestLog) -> Vec<Step> {
    if r.asks_for_stream() {
        let mut pieces = vec![chunk("x"); 10];
        pieces.extend([usage(3, 10), DONE.to_vec()]);
        stream(&pieces, Duration::from_millis(20))
    } else {
        [vec![Step::Sleep(Duration::from_millis(150))], ok_json()].concat()
    }
}

fn body(kind: usize, streamed: bool) -> (&'static str, Vec<u8>) {
    let (path, fields) = [
        (CHAT, r#""messages":[{"role":"user","content":"hi"}]"#),
        ("/v1/completions", r#""prompt":"hi""#),
        ("/v1/embeddings", r#""input":"hi""#),
        ("/v1/messages", r#""max_tokens":9,"messages":[{"role":"user","content":"hi"}]"#),
        ("/v1/responses", r#""input":"hi""#),
    ][kind];
    // Embeddings are never streamed.
    let streamed = streamed && kind != 2;
    (path, format!(r#"{{"model":"tide-7b",{fields},"stream":{streamed}}}"#).into_bytes())
}

async fn over_http1(addr: std::net::SocketAddr, seed: u64) {
    let mut dice = Dice(seed);
    let (path, body) = body(dice.below(5), dice.below(2) == 0);
    let request = http1::post(path, &body);
    let mut client = Client::connect(addr).await;
    match dice.below(5) {
        // In the middle of the head, or of the body.
        0 => client.send(&request[..1 + dice.below(request.len() - 1)]).await,
        // With a second request behind the first.
        1 => client.send(&[request.clone(), request.clone()].concat()).await,
        _ => client.send(&request).await,
    }
    tokio::time::sleep(Duration::from_millis(dice.below(250) as u64)).await;
    match dice.below(3) {
        0 => client.reset(),
        1 => client.close(),
        _ => {
            // Says goodbye, and stays for a while.
            client.half_close();
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

async fn over_http2(addr: std::net::SocketAddr, seed: u64, shared: &H2Client) {
    let mut dice = Dice(seed);
    let (path, body) = body(dice.below(5), dice.below(2) == 0);
    let moment = tokio::time::sleep(Duration::from_millis(dice.below(250) as u64));
    tokio::pin!(moment);
    // Half of them reset one stream of a shared connection, half close a connection of their own.
    let own = if dice.below(2) == 0 { Some(H2Client::connect(addr).await) } else { None };
    let client = own.as_ref().unwrap_or(shared);
    let mut response = tokio::select! {
        response = client.post(path, &body) => response.unwrap(),
        () = &mut moment => return,
    };
    loop {
        tokio::select! {
            frame = h2::frame(response.body_mut()) => if frame.is_none() { return },
            () = &mut moment => return,
        }
    }
}

#[tokio::test]
async fn two_hundred_clients_that_vanish_leave_every_gauge_at_zero() {
    let backends = [Backend::start(slow).await, Backend::start(slow).await];
    let (a, b) = (backends[0].url(), backends[1].url());
    let config = Config::new().pool("chat", "tide-7b", [a.as_str(), b.as_str()], "policy: least_work");
    let gateway = Gateway::start(&config).await;
    wait_endpoints(&gateway, 2).await;
    let shared = std::sync::Arc::new(H2Client::connect(gateway.addr()).await);
    let mut all = tokio::task::JoinSet::new();
    for n in 0..REQUESTS {
        let addr = gateway.addr();
        let shared = std::sync::Arc::clone(&shared);
        all.spawn(async move {
            // Spread over a second, so that they meet in every state.
            tokio::time::sleep(Duration::from_millis((n * 5) as u64)).await;
            let seed = 1_000 + n as u64;
            if n % 3 == 0 { over_http2(addr, seed, &shared).await } else { over_http1(addr, seed).await }
        });
    }
    all.join_all().await;
    drop(shared);
    gateway.wait_metric("forebay_client_connections", &[], 0.0).await;
    gateway.wait_idle().await;
    let page = gateway.metrics().await;
    for sample in forebay_tests::exposition::parse(&page) {
        if sample.name.contains("inflight") || sample.name.contains("in_flight") {
            assert_eq!(sample.value, 0.0, "{sample:?}");
        }
    }
    for outcome in ["internal_error", "upstream_error", "upstream_truncated", "stream_error"] {
        let count = gateway.metric("forebay_requests_total", &[("outcome", outcome)]).await;
        assert_eq!(count, 0.0, "a client's leaving was counted as {outcome}");
    }
    let cancelled = gateway.metric("forebay_requests_total", &[("outcome", "client_cancelled")]).await;
    assert!(cancelled > 0.0, "nobody left in time: the test proves nothing");
    // No connection to an engine is stuck in a request: what is open is idle.
    forebay_tests::wait::until_async("connections to engines to be idle or closed", async || {
        let page = gateway.metrics().await;
        let of = |name| forebay_tests::exposition::sum(&page, name, &[]).unwrap();
        let open = of("forebay_endpoint_connections_open");
        (open == of("forebay_endpoint_connections_idle")).then_some(())
    })
    .await;
    assert!(!gateway.logs().contains("panicked"), "{}", gateway.logs());
    assert_eq!(gateway.post(CHAT, OK_JSON).await.status(), 200);
}
