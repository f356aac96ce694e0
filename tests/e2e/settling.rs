//! What is made of an answer's end: what it counts as, and what is learned from it.

use std::time::Duration;

use forebay_tests::backend::{Gate, Step};
use forebay_tests::bodies::{
    CHAT, DONE, OK_JSON, OK_SSE, OK_SSE_USAGE, chunk, completion, json, open_stream, stream, usage,
};
use forebay_tests::gateway::Gateway;
use forebay_tests::http1;

use crate::common::through;

/// Output tokens that the last request was expected to have.
async fn expected(gateway: &Gateway) -> u64 {
    let page = gateway.admin_json("/api/v1/decisions?last=1").await;
    page["decisions"][0]["output_tokens"].as_u64().unwrap()
}

#[tokio::test]
async fn streams_without_usage_are_learned_from_and_not_metered() {
    let (_backend, gateway) = through(|_| {
        let pieces = [vec![chunk("a"); 40], vec![DONE.to_vec()]].concat();
        stream(&pieces, Duration::from_millis(1))
    })
    .await;
    for _ in 0..40 {
        assert_eq!(gateway.post(CHAT, OK_SSE).await.status(), 200);
    }
    gateway.wait_outcome("finished", 40.0).await;
    gateway.post(CHAT, OK_SSE).await;
    let expected = expected(&gateway).await;
    assert!((40..=80).contains(&expected), "answers of 40 tokens were expected to have {expected}");
    let pool = gateway.admin_json("/api/v1/pools/chat").await;
    assert_ne!(pool["tpot_correction"], 1.0, "{pool}");
    gateway.wait_metric("forebay_usage_unknown_total", &[], 41.0).await;
    assert_eq!(gateway.metric("forebay_tokens_total", &[]).await, 0.0);
}

#[tokio::test]
async fn what_an_event_stands_for_is_learned_from_those_that_state_it() {
    // Three tokens in each event, as with drafts that are verified.
    let (_backend, gateway) = through(|r| {
        let mut pieces = vec![chunk("a b c"); 40];
        if r.json()["stream_options"]["include_usage"] == true {
            pieces.push(usage(12, 120));
        }
        pieces.push(DONE.to_vec());
        stream(&pieces, Duration::ZERO)
    })
    .await;
    for _ in 0..60 {
        assert_eq!(gateway.post(CHAT, OK_SSE_USAGE).await.status(), 200);
    }
    gateway.wait_outcome("finished", 60.0).await;
    // Counted as one token for each event it would fall far below.
    for _ in 0..200 {
        assert_eq!(gateway.post(CHAT, OK_SSE).await.status(), 200);
    }
    gateway.wait_outcome("finished", 260.0).await;
    gateway.post(CHAT, OK_SSE).await;
    let expected = expected(&gateway).await;
    assert!((114..=126).contains(&expected), "answers of 120 tokens were expected to have {expected}");
}

#[tokio::test]
async fn several_choices_are_several_answers() {
    let (_backend, gateway) = through(|_| json("200 OK", &completion("tide-7b", 12, 400))).await;
    let four = br#"{"model":"tide-7b","messages":[{"role":"user","content":"hi"}],"n":4}"#;
    for _ in 0..60 {
        assert_eq!(gateway.post(CHAT, four).await.status(), 200);
    }
    gateway.wait_outcome("finished", 60.0).await;
    gateway.post(CHAT, four).await;
    let of_four = expected(&gateway).await;
    assert!((390..=440).contains(&of_four), "four answers with 400 tokens in all, expected: {of_four}");
    gateway.post(CHAT, OK_JSON).await;
    let of_one = expected(&gateway).await;
    assert!((97..=110).contains(&of_one), "one of four answers with 400 tokens in all, expected: {of_one}");
}

#[tokio::test]
async fn a_client_that_leaves_at_the_end_of_the_stream_is_no_cancel() {
    // The engine's connection ends its answer later than the answer itself.
    let gate = Gate::default();
    let held = gate.clone();
    let (_backend, gateway) = through(move |_| {
        let pieces = [chunk("a"), chunk("b"), usage(12, 7), DONE.to_vec()];
        [open_stream(&pieces, Duration::ZERO), vec![Step::Wait(held.clone())]].concat()
    })
    .await;
    for _ in 0..3 {
        let mut client = gateway.connect().await;
        client.send(&http1::post(CHAT, OK_SSE_USAGE)).await;
        client.head().await;
        client.read_until("the end of the stream", |got| http1::count(got, DONE) > 0).await;
        client.close();
    }
    gateway.wait_outcome("finished", 3.0).await;
    assert_eq!(gateway.metric("forebay_requests_total", &[("outcome", "client_cancelled")]).await, 0.0);
    gateway.wait_metric("forebay_tokens_total", &[("kind", "prompt")], 36.0).await;
    gateway.wait_metric("forebay_tokens_total", &[("kind", "completion")], 21.0).await;
    gateway.wait_idle().await;
    gate.open();
}

#[tokio::test]
async fn of_a_cancelled_stream_what_was_stated_and_what_came_is_counted() {
    let gate = Gate::default();
    let held = gate.clone();
    let (_backend, gateway) = through(move |_| {
        let pieces = [usage(12, 1), chunk("a"), chunk("b"), chunk("c")];
        [open_stream(&pieces, Duration::ZERO), vec![Step::Wait(held.clone())]].concat()
    })
    .await;
    let mut client = gateway.connect().await;
    client.send(&http1::post(CHAT, OK_SSE_USAGE)).await;
    client.head().await;
    client.read_until("three tokens", |got| http1::count(got, &chunk("c")) > 0).await;
    client.close();
    gateway.wait_outcome("client_cancelled", 1.0).await;
    gateway.wait_metric("forebay_tokens_total", &[("kind", "prompt")], 12.0).await;
    gateway.wait_metric("forebay_tokens_total", &[("kind", "completion")], 3.0).await;
    gate.open();
}
