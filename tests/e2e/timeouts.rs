//! B28 and the other limits on time: each its own setting, each named when it cuts.

use std::time::Duration;

use forebay_tests::backend::{Backend, Step};
use forebay_tests::bodies::{CHAT, DONE, OK_JSON, OK_SSE, chunk, ok_json, open_stream, stream};
use forebay_tests::config::Config;
use forebay_tests::gateway::Gateway;
use tokio::time::Instant;

use crate::common::{openai_error, through, through_with};

const SECOND: Duration = Duration::from_secs(1);

#[tokio::test]
async fn b28_a_long_stream_is_not_cut_by_default() {
    // The entry's 130 s, scaled: with the default configuration one event per
    // second for 12 s, and below the same rule with limits that are smaller.
    let pieces: Vec<Vec<u8>> = (0..12).map(|n| chunk(&n.to_string())).chain([DONE.to_vec()]).collect();
    let payload = pieces.concat();
    let (_backend, gateway) = through(move |_| stream(&pieces, SECOND)).await;
    let mut client = gateway.connect().await;
    client.send(&forebay_tests::http1::post(CHAT, OK_SSE)).await;
    let response = client.response_within(Duration::from_secs(60)).await;
    assert_eq!((response.body.as_slice(), response.is_complete()), (payload.as_slice(), true));
    gateway.wait_outcome("finished", 1.0).await;
}

#[tokio::test]
async fn b28_a_stream_outlives_every_limit_but_the_total() {
    // It lasts 2.6 s, longer than each of these; only silence and the first byte are limited.
    let pieces: Vec<Vec<u8>> = (0..12).map(|n| chunk(&n.to_string())).chain([DONE.to_vec()]).collect();
    let payload = pieces.concat();
    let (_backend, gateway) = through_with(
        "timeouts: {connect: 1s, first_byte: 1500ms, answer: 1s, idle: 1500ms, total: 0s}",
        move |_| stream(&pieces, Duration::from_millis(200)),
    )
    .await;
    let response = gateway.post(CHAT, OK_SSE).await;
    assert_eq!((response.body.as_slice(), response.is_complete()), (payload.as_slice(), true));
    gateway.wait_outcome("finished", 1.0).await;
}

#[tokio::test]
async fn b28_silence_after_five_events_ends_at_the_idle_limit() {
    let pieces: Vec<Vec<u8>> = (0..5).map(|n| chunk(&n.to_string())).collect();
    let payload = pieces.concat();
    let (backend, gateway) = through_with("timeouts: {idle: 1s}", move |_| {
        let mut steps = open_stream(&pieces, Duration::from_millis(50));
        steps.push(Step::Stall);
        steps
    })
    .await;
    let response = gateway.post(CHAT, OK_SSE).await;
    assert!(response.body.starts_with(&payload));
    assert!(response.is_cut());
    let silent = response.ended - response.pieces[response.pieces.len() - 1].0.min(response.ended);
    let since_fifth =
        response.ended - response.pieces.iter().rfind(|p| p.1.starts_with(b"data: {\"id")).unwrap().0;
    assert!(since_fifth >= Duration::from_millis(990), "cut after {since_fifth:?} ({silent:?})");
    gateway.wait_outcome("timeout_idle", 1.0).await;
    backend.peer_end(backend.request(0).await.connection).await;
    gateway.wait_idle().await;
}

#[tokio::test]
async fn b28_total_limit_cuts_where_it_is_set_and_says_so() {
    let (backend, gateway) = through_with("timeouts: {total: 1s}", |_| {
        open_stream(&vec![chunk("x"); 200], Duration::from_millis(100))
    })
    .await;
    let start = Instant::now();
    let response = gateway.post(CHAT, OK_SSE).await;
    assert!(start.elapsed() >= SECOND);
    assert!(response.is_cut());
    gateway.wait_outcome("timeout_total", 1.0).await;
    backend.peer_end(backend.request(0).await.connection).await;
}

#[tokio::test]
async fn b28_a_pools_own_limit_wins() {
    let slow = |_: &_| stream(&[chunk("a"), chunk("b"), DONE.to_vec()], Duration::from_millis(1200));
    let patient = Backend::start(slow).await;
    let hasty = Backend::start(slow).await;
    hasty.set_model("reef-13b");
    let config = Config::new()
        .pool("patient", "tide-7b", [patient.url().as_str()], "timeouts: {idle: 30s}")
        .pool("hasty", "reef-13b", [hasty.url().as_str()], "")
        .with("timeouts: {idle: 500ms}");
    let gateway = Gateway::start(&config).await;
    crate::common::wait_endpoints(&gateway, 2).await;
    assert!(gateway.post(CHAT, OK_SSE).await.is_complete());
    let other = br#"{"model":"reef-13b","messages":[{"role":"user","content":"hi"}],"stream":true}"#;
    assert!(gateway.post(CHAT, other).await.is_cut());
    let of = |pool, outcome| {
        let gateway = &gateway;
        async move {
            gateway.wait_metric("forebay_requests_total", &[("pool", pool), ("outcome", outcome)], 1.0).await
        }
    };
    of("patient", "finished").await;
    of("hasty", "timeout_idle").await;
}

#[tokio::test]
async fn b28_zero_disables_a_limit() {
    let (_backend, gateway) =
        through_with("timeouts: {first_byte: 0s, answer: 0s, idle: 0s, total: 0s, connect: 0s}", |r| {
            if r.asks_for_stream() {
                stream(&[chunk("a"), DONE.to_vec()], Duration::from_millis(600))
            } else {
                [vec![Step::Sleep(Duration::from_millis(600))], ok_json()].concat()
            }
        })
        .await;
    for body in [OK_SSE, OK_JSON] {
        let response = gateway.post(CHAT, body).await;
        assert_eq!((response.status(), response.is_complete()), (200, true));
    }
}

#[tokio::test]
async fn a_stream_without_a_first_event_is_504() {
    // Silence before the head, and a head with silence behind it, are the same to the client.
    let (backend, gateway) = through_with("timeouts: {first_byte: 500ms}", |r| {
        if r.index == 0 {
            vec![Step::Stall]
        } else {
            [open_stream(&[], Duration::ZERO), vec![Step::Stall]].concat()
        }
    })
    .await;
    for n in 0..2 {
        let response = gateway.post(CHAT, OK_SSE).await;
        openai_error(&response, 504);
        gateway.wait_outcome("timeout_first_byte", (n + 1) as f64).await;
        backend.peer_end(backend.request(n).await.connection).await;
    }
    assert_eq!(backend.count(), 2, "sent again after an engine may have begun");
}

#[tokio::test]
async fn a_plain_answer_has_a_limit_of_its_own() {
    let (backend, gateway) = through_with("timeouts: {first_byte: 200ms, answer: 1500ms}", |r| {
        if r.index == 0 {
            [vec![Step::Sleep(Duration::from_millis(600))], ok_json()].concat()
        } else {
            vec![Step::Stall]
        }
    })
    .await;
    assert_eq!(gateway.post(CHAT, OK_JSON).await.status(), 200, "cut by the limit for streams");
    let start = Instant::now();
    openai_error(&gateway.post(CHAT, OK_JSON).await, 504);
    assert!(start.elapsed() >= Duration::from_millis(1500));
    gateway.wait_outcome("timeout_first_byte", 1.0).await;
    backend.peer_end(backend.request(1).await.connection).await;
}
