//! Event streams: relayed byte for byte, at once, and watched without harm.

use std::sync::Arc;
use std::time::Duration;

use forebay_tests::backend::{Backend, Gate, RequestLog, Step};
use forebay_tests::bodies::{
    self, CHAT, DONE, LAST_CHUNK, OK_JSON, OK_SSE, OK_SSE_USAGE, SSE_HEAD, chunk, events, finish,
    open_stream, stream, usage,
};
use forebay_tests::client::{self, End};
use forebay_tests::config::Config;
use forebay_tests::gateway::Gateway;
use forebay_tests::h2::{self, H2Client};
use forebay_tests::http1;
use tokio::time::Instant;

use crate::common::{Dice, through, through_two, through_with};

const NO_GAP: Duration = Duration::ZERO;

/// One segment per cut piece of `payload`, each an HTTP chunk of its own.
fn cut(payload: &[u8], cuts: &[usize]) -> Vec<Vec<u8>> {
    let mut pieces = Vec::new();
    let mut from = 0;
    for at in cuts.iter().copied().chain([payload.len()]) {
        if at > from {
            pieces.push(payload[from..at].to_vec());
            from = at;
        }
    }
    pieces
}

#[tokio::test]
async fn b01_utf8_character_cut_by_a_segment() {
    let event =
        "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"潮位🦀\"}}]}\n\n".as_bytes().to_vec();
    let payload = [event.clone(), DONE.to_vec()].concat();
    let after_e6_bd = http1::find(&event, b"\xe6\xbd").unwrap() + 2;
    let after_f0_9f_a6 = http1::find(&event, b"\xf0\x9f\xa6").unwrap() + 3;
    let every_byte: Vec<usize> = (1..payload.len()).collect();
    let cuts = [every_byte, vec![after_e6_bd], vec![after_f0_9f_a6], vec![after_e6_bd, after_f0_9f_a6]];
    let script: Vec<Vec<Vec<u8>>> = cuts.iter().map(|c| cut(&payload, c)).collect();
    let (_backend, gateway) = through(move |r| stream(&script[r.index], Duration::from_millis(2))).await;
    for case in &cuts {
        let response = gateway.post(CHAT, OK_SSE).await;
        assert_eq!(response.body, payload, "cuts {case:?}");
        assert!(response.is_complete(), "{:?}", response.end);
        assert_eq!(http1::find(&response.body, b"\xef\xbf\xbd"), None);
    }
    gateway.wait_outcome("finished", 4.0).await;
}

#[tokio::test]
async fn b01_utf8_character_cut_inside_one_http_chunk() {
    // The same, with the segments cutting the chunk framing too.
    let event =
        "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"潮位🦀\"}}]}\n\n".as_bytes().to_vec();
    let payload = [event.clone(), DONE.to_vec()].concat();
    let wire = [http1::chunk(&event), http1::chunk(DONE), LAST_CHUNK.to_vec()].concat();
    let (_backend, gateway) = through(move |_| {
        let mut steps = vec![Step::send(SSE_HEAD)];
        for byte in &wire {
            steps.extend([Step::Sleep(Duration::from_millis(1)), Step::send([*byte])]);
        }
        steps
    })
    .await;
    let response = gateway.post(CHAT, OK_SSE).await;
    assert_eq!(response.body, payload);
    assert!(response.is_complete());
}

#[tokio::test]
async fn b01_utf8_character_cut_while_the_model_is_rewritten() {
    let event = |model: &str| {
        format!("data: {{\"model\":\"{model}\",\"choices\":[{{\"index\":0,\"delta\":{{\"content\":\"潮位🦀\"}}}}]}}\n\n")
            .into_bytes()
    };
    let sent = [event("tide-7b"), event("tide-7b"), DONE.to_vec()].concat();
    let wanted = [event("潮-latest"), event("潮-latest"), DONE.to_vec()].concat();
    let every_byte = cut(&sent, &(1..sent.len()).collect::<Vec<_>>());
    let backend = Backend::start(move |_| stream(&every_byte, Duration::from_millis(1))).await;
    let config = Config::chat([backend.url().as_str()])
        .with("models: [{name: \"潮-latest\", targets: [{model: tide-7b, weight: 1}]}]");
    let gateway = Gateway::start(&config).await;
    let request = r#"{"model":"潮-latest","messages":[{"role":"user","content":"hi"}],"stream":true}"#;
    let response = gateway.post(CHAT, request.as_bytes()).await;
    assert_eq!(String::from_utf8_lossy(&response.body), String::from_utf8_lossy(&wanted));
    assert!(response.is_complete());
    assert_eq!(backend.request(0).await.body, OK_SSE);
}

#[tokio::test]
async fn b02_usage_event_split_over_reads() {
    let usage_event = usage(41, 17);
    let payload = [chunk("a"), finish("length"), usage_event.clone(), DONE.to_vec()].concat();
    let base = payload.len() - DONE.len() - usage_event.len();
    let in_the_name = base + http1::find(&usage_event, b"prompt_tokens").unwrap() + "prompt_tok".len();
    let between_newlines = base + usage_event.len() - 1;
    let mut runs = vec![vec![in_the_name], vec![base + 2], vec![between_newlines]];
    // The last event arrives in the final read, with the end of the body.
    let mut dice = Dice(2);
    for _ in 0..20 {
        let mut cuts: Vec<usize> = (0..1 + dice.below(6)).map(|_| dice.below(payload.len())).collect();
        cuts.sort_unstable();
        runs.push(cuts);
    }
    let script: Vec<Vec<Vec<u8>>> = runs.iter().map(|c| cut(&payload, c)).collect();
    let (_backend, gateway) = through(move |r| {
        let mut steps = stream(&script[r.index], Duration::from_millis(3));
        if r.index % 2 == 1 {
            // Every other run: the last piece and the end in one segment.
            let (Some(Step::Send(end)), Some(Step::Send(last))) = (steps.pop(), steps.pop()) else {
                unreachable!()
            };
            steps.push(Step::send([last, end].concat()));
        }
        steps
    })
    .await;
    for (n, cuts) in runs.iter().enumerate() {
        let response = gateway.post(CHAT, OK_SSE_USAGE).await;
        assert_eq!(response.body, payload, "cuts {cuts:?}");
        assert!(response.is_complete(), "cuts {cuts:?}");
        let n = (n + 1) as f64;
        gateway.wait_metric("forebay_tokens_total", &[("kind", "prompt")], 41.0 * n).await;
        gateway.wait_metric("forebay_tokens_total", &[("kind", "completion")], 17.0 * n).await;
    }
    assert_eq!(gateway.metric("forebay_usage_unknown_total", &[]).await, 0.0);
}

#[tokio::test]
async fn b02_one_huge_event_passes_and_watching_resumes() {
    const SIZES: [usize; 4] = [(64 << 10) + 1, (512 << 10) + 1, (1 << 20) + 1, 4 << 20];
    let huge = |size: usize| {
        let mut event = b"data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"".to_vec();
        event.resize(size - 6, b'x');
        event.extend_from_slice(b"\"}}]}\n\n");
        event
    };
    let payload = move |size| [chunk("a"), huge(size), chunk("b"), usage(41, 17), DONE.to_vec()];
    let (_backend, gateway) = through(move |r| stream(&payload(SIZES[r.index]), NO_GAP)).await;
    let before = gateway.resident_bytes();
    for (n, size) in SIZES.into_iter().enumerate() {
        let response = gateway.post(CHAT, OK_SSE_USAGE).await;
        assert!(response.is_complete(), "{size}: {:?}", response.end);
        assert!(response.body == payload(size).concat(), "{size}: {} bytes came", response.body.len());
        let n = (n + 1) as f64;
        gateway.wait_metric("forebay_tokens_total", &[("kind", "prompt")], 41.0 * n).await;
        gateway.wait_metric("forebay_tokens_total", &[("kind", "completion")], 17.0 * n).await;
    }
    gateway.wait_outcome("finished", 4.0).await;
    let grown = gateway.resident_bytes().saturating_sub(before);
    assert!(grown < 32 << 20, "resident memory grew by {grown} bytes");
}

#[tokio::test]
async fn b04_data_without_a_space() {
    let usage = "data:{\"choices\":[],\"usage\":{\"prompt_tokens\":9,\"completion_tokens\":4,\"total_tokens\":13}}\n\n";
    let payload = [usage.as_bytes(), b"data:[DONE]\n\n"].concat();
    let sent = payload.clone();
    let (_backend, gateway) = through(move |_| stream(std::slice::from_ref(&sent), NO_GAP)).await;
    let response = gateway.post(CHAT, OK_SSE_USAGE).await;
    assert_eq!(response.body, payload);
    gateway.wait_outcome("finished", 1.0).await;
    gateway.wait_metric("forebay_tokens_total", &[("kind", "prompt")], 9.0).await;
    gateway.wait_metric("forebay_tokens_total", &[("kind", "completion")], 4.0).await;
    assert_eq!(gateway.metric("forebay_requests_total", &[("outcome", "upstream_truncated")]).await, 0.0);
}

#[tokio::test]
async fn b04_exactly_one_space_is_stripped() {
    // Two spaces leave one in the data, which is still JSON, and is no `[DONE]`.
    let payload =
        b"data:  {\"choices\":[],\"usage\":{\"prompt_tokens\":9,\"completion_tokens\":4}}\n\ndata:  two-space\n\ndata: [DONE]\n\n";
    let (_backend, gateway) = through(move |_| stream(&[payload.to_vec()], NO_GAP)).await;
    let response = gateway.post(CHAT, OK_SSE_USAGE).await;
    assert_eq!(response.body, payload);
    gateway.wait_outcome("finished", 1.0).await;
    gateway.wait_metric("forebay_tokens_total", &[("kind", "prompt")], 9.0).await;
}

#[tokio::test]
async fn b05_comments_are_no_data_and_no_first_token() {
    let mut pieces = vec![b": warming\n\n".to_vec(); 5];
    pieces.extend([chunk("a"), chunk("b"), chunk("c"), DONE.to_vec()]);
    let payload = pieces.concat();
    // Idle limit below the whole wait and above one gap: comments are activity.
    let (_backend, gateway) = through_with("timeouts: {idle: 900ms}", move |_| {
        let mut steps = vec![Step::send(SSE_HEAD)];
        for piece in &pieces[..5] {
            steps.extend([Step::send(http1::chunk(piece)), Step::Sleep(Duration::from_millis(200))]);
        }
        steps.extend(pieces[5..].iter().map(|p| Step::send(http1::chunk(p))));
        steps.push(Step::send(LAST_CHUNK));
        steps
    })
    .await;
    let response = gateway.post(CHAT, OK_SSE).await;
    assert_eq!(response.body, payload);
    assert_eq!(events(&response.body).len(), 4);
    gateway.wait_outcome("finished", 1.0).await;
    gateway.wait_metric("forebay_ttft_seconds_count", &[], 1.0).await;
    let ttft = gateway.metric("forebay_ttft_seconds_sum", &[]).await;
    assert!(ttft >= 1.0, "the first token was taken at a comment: {ttft} s");
}

#[tokio::test]
async fn b05_comments_reach_the_client_while_the_first_token_waits() {
    let gate = Gate::default();
    let held = gate.clone();
    let (_backend, gateway) = through(move |_| {
        let mut steps = open_stream(&[b": warming\n\n".to_vec()], NO_GAP);
        steps.push(Step::Wait(held.clone()));
        steps.extend([chunk("a"), DONE.to_vec()].map(|p| Step::send(http1::chunk(&p))));
        steps.push(Step::send(LAST_CHUNK));
        steps
    })
    .await;
    let mut client = gateway.connect().await;
    client.send(&http1::post(CHAT, OK_SSE)).await;
    let head = client.head().await;
    client.read_until("the comment", |got| got == b": warming\n\n").await;
    gate.open();
    let response = client.rest(head).await;
    assert_eq!(response.body, [chunk("a"), DONE.to_vec()].concat());
}

#[tokio::test]
async fn b05_a_comment_does_not_end_the_wait_for_the_first_event() {
    let (backend, gateway) = through_with("timeouts: {first_byte: 1s, idle: 30s}", |_| {
        open_stream(&vec![b": warming\n\n".to_vec(); 200], Duration::from_millis(100))
    })
    .await;
    let response = gateway.post(CHAT, OK_SSE).await;
    assert!(response.is_cut(), "a cut that looks like an end");
    assert!(!response.text().contains("[DONE]"));
    gateway.wait_outcome("timeout_first_byte", 1.0).await;
    backend.peer_end(backend.request(0).await.connection).await;
}

#[tokio::test]
async fn b05_odd_events_pass_unchanged() {
    let odd: [&[u8]; 7] = [
        b": warming\n\ndata: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"glued\"}}]}\n\n",
        b"retry: 3000\n\n",
        b"event: ping\ndata: {}\n\n",
        b"id: 5\n: comment\n\n",
        b"data:\n\n",
        b"data\n\n",
        b": crlf\r\n\r\ndata: {\"choices\":[]}\r\n\r\n",
    ];
    let mut pieces: Vec<Vec<u8>> = odd.iter().map(|p| p.to_vec()).collect();
    pieces.extend([chunk("a"), usage(3, 1), DONE.to_vec()]);
    let payload = pieces.concat();
    let (_backend, gateway) = through(move |r| {
        if r.index == 0 {
            stream(&pieces, Duration::from_millis(2))
        } else {
            stream(&[pieces.concat()], NO_GAP)
        }
    })
    .await;
    for n in [1.0, 2.0] {
        let response = gateway.post(CHAT, OK_SSE_USAGE).await;
        assert_eq!(String::from_utf8_lossy(&response.body), String::from_utf8_lossy(&payload));
        assert!(!response.text().contains("data: :"));
        gateway.wait_outcome("finished", n).await;
        gateway.wait_metric("forebay_tokens_total", &[("kind", "prompt")], 3.0 * n).await;
    }
}

#[tokio::test]
async fn b07_stream_without_done_and_a_clean_end_is_whole() {
    let pieces = [chunk("a"), finish("stop")];
    let payload = pieces.concat();
    let (_backend, gateway) = through(move |_| stream(&pieces, NO_GAP)).await;
    let response = gateway.post(CHAT, OK_SSE).await;
    assert_eq!((response.body.as_slice(), response.is_complete()), (payload.as_slice(), true));
    gateway.wait_outcome("finished", 1.0).await;
}

/// A cut answer, by what may stand behind the engine's own bytes: nothing, or
/// the gateway's error event where an event had just ended.
#[track_caller]
fn assert_cut(response: &client::Response, sent: &[u8], between_events: bool) {
    assert!(response.is_cut(), "the client cannot tell that this was cut: {:?}", response.text());
    assert!(response.body.starts_with(sent), "lost bytes: {:?}", response.text());
    assert!(!response.text().contains("[DONE]"), "an invented [DONE]");
    let own = &response.body[sent.len()..];
    if between_events {
        for data in events(own) {
            let json: serde_json::Value =
                serde_json::from_str(&data).expect("an error event that is not JSON");
            assert!(json.get("error").is_some(), "{json}");
        }
    } else {
        assert!(own.is_empty(), "bytes inside an event: {:?}", String::from_utf8_lossy(own));
    }
}

#[tokio::test]
async fn b07_fin_without_the_last_chunk_is_a_cut() {
    let pieces = [chunk("a"), finish("stop")];
    let payload = pieces.concat();
    let (_backend, gateway) = through(move |_| {
        let mut steps = open_stream(&pieces, NO_GAP);
        steps.push(Step::Fin);
        steps
    })
    .await;
    let response = gateway.post(CHAT, OK_SSE).await;
    assert_cut(&response, &payload, true);
    gateway.wait_outcome("upstream_truncated", 1.0).await;
    assert_eq!(gateway.metric("forebay_requests_total", &[("outcome", "finished")]).await, 0.0);
}

#[tokio::test]
async fn b07_bytes_just_before_a_cut_are_not_lost() {
    // Each cut comes in the same breath as the last event before it.
    let (_backend, gateway) = through(|_| {
        let mut steps = open_stream(&[chunk("a")], NO_GAP);
        steps.push(Step::Sleep(Duration::from_millis(50)));
        steps.push(Step::send(http1::chunk(&chunk("b"))));
        steps.push(Step::Fin);
        steps
    })
    .await;
    let sent = [chunk("a"), chunk("b")].concat();
    assert_cut(&gateway.post(CHAT, OK_SSE).await, &sent, true);
    let client = H2Client::connect(gateway.addr()).await;
    let mut response = client.post(CHAT, OK_SSE).await.unwrap();
    let mut got = Vec::new();
    let end = loop {
        match h2::frame(response.body_mut()).await {
            Some(Ok(data)) => got.extend_from_slice(&data),
            end => break end,
        }
    };
    assert!(matches!(end, Some(Err(_))), "over HTTP/2 the cut looks like an end");
    assert_eq!(String::from_utf8_lossy(&got[..sent.len().min(got.len())]), String::from_utf8_lossy(&sent));
    gateway.wait_outcome("upstream_truncated", 2.0).await;
}

#[tokio::test]
async fn b07_rst_in_the_middle_of_an_event_is_a_cut() {
    let half = chunk("b")[..40].to_vec();
    let pieces = [chunk("a"), half];
    let payload = pieces.concat();
    let (_backend, gateway) = through(move |_| {
        let mut steps = open_stream(&pieces, NO_GAP);
        // An RST throws away what the peer has not read yet.
        steps.extend([Step::Sleep(Duration::from_millis(200)), Step::Rst]);
        steps
    })
    .await;
    let response = gateway.post(CHAT, OK_SSE).await;
    assert_cut(&response, &payload, false);
    gateway.wait_outcome("upstream_truncated", 1.0).await;
}

#[tokio::test]
async fn b07_last_event_without_its_blank_line_is_flushed() {
    let last = usage(41, 17);
    let pieces = [chunk("a"), last[..last.len() - 2].to_vec()];
    let payload = pieces.concat();
    let (_backend, gateway) = through(move |_| stream(&pieces, NO_GAP)).await;
    let response = gateway.post(CHAT, OK_SSE_USAGE).await;
    assert_eq!((response.body.as_slice(), response.is_complete()), (payload.as_slice(), true));
    gateway.wait_outcome("finished", 1.0).await;
}

#[tokio::test]
async fn b07_connection_kept_open_after_the_finish_ends_at_the_idle_limit() {
    let pieces = [chunk("a"), finish("stop")];
    let payload = pieces.concat();
    let (backend, gateway) = through_with("timeouts: {idle: 1s}", move |_| {
        let mut steps = open_stream(&pieces, NO_GAP);
        steps.push(Step::Stall);
        steps
    })
    .await;
    let start = Instant::now();
    let response = gateway.post(CHAT, OK_SSE).await;
    assert!(start.elapsed() >= Duration::from_secs(1), "ended before its limit");
    assert_cut(&response, &payload, true);
    gateway.wait_outcome("timeout_idle", 1.0).await;
    backend.peer_end(backend.request(0).await.connection).await;
}

const ERROR_EVENT: &[u8] =
    b"data: {\"error\":{\"message\":\"KV pool \\\"exhausted\\\"\\nline2\",\"code\":500}}\n\n";

#[tokio::test]
async fn b10_error_in_the_middle_of_a_stream_passes_and_counts() {
    let named = [b"event: error\n", ERROR_EVENT].concat();
    let choice = b"data: {\"error\":{\"message\":\"dead\"},\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"error\"}]}\n\n";
    // The last row is what a vLLM that is being shut down says.
    let endings = [ERROR_EVENT.to_vec(), choice.to_vec(), named, finish("abort")]
        .map(|event| vec![event, DONE.to_vec()]);
    let script = endings.clone();
    let ([a, b], gateway) = through_two("", move |r| {
        let which: usize = r.json()["seed"].as_u64().unwrap().try_into().unwrap();
        stream(&[vec![chunk("a"), chunk("b")], script[which].clone()].concat(), NO_GAP)
    })
    .await;
    for (n, ending) in endings.iter().enumerate() {
        let request = format!(
            r#"{{"model":"tide-7b","messages":[{{"role":"user","content":"hi"}}],"stream":true,"seed":{n}}}"#
        );
        let response = gateway.post(CHAT, request.as_bytes()).await;
        assert_eq!(
            response.body,
            [vec![chunk("a"), chunk("b")], ending.clone()].concat().concat(),
            "row {n}"
        );
        for data in events(&response.body).iter().filter(|d| *d != "[DONE]") {
            serde_json::from_str::<serde_json::Value>(data).unwrap();
        }
        gateway.wait_outcome("stream_error", (n + 1) as f64).await;
        assert_eq!(a.count() + b.count(), n + 1, "sent again after bytes had gone out");
    }
    assert_eq!(gateway.metric("forebay_requests_total", &[("outcome", "finished")]).await, 0.0);
}

#[tokio::test]
async fn b10_error_as_the_very_first_event_passes_and_counts() {
    let ([a, b], gateway) = through_two("", |_| stream(&[ERROR_EVENT.to_vec(), DONE.to_vec()], NO_GAP)).await;
    let response = gateway.post(CHAT, OK_SSE).await;
    assert_eq!(response.body, [ERROR_EVENT, DONE].concat());
    gateway.wait_outcome("stream_error", 1.0).await;
    assert_eq!(a.count() + b.count(), 1);
}

#[tokio::test]
async fn b10_reset_after_two_events_is_not_sent_again() {
    let ([a, b], gateway) = through_two("", |_| {
        let mut steps = open_stream(&[chunk("a"), chunk("b")], NO_GAP);
        steps.extend([Step::Sleep(Duration::from_millis(200)), Step::Rst]);
        steps
    })
    .await;
    let response = gateway.post(CHAT, OK_SSE).await;
    assert_cut(&response, &[chunk("a"), chunk("b")].concat(), true);
    gateway.wait_outcome("upstream_truncated", 1.0).await;
    assert_eq!(a.count() + b.count(), 1);
}

/// A stream in lock-step: the backend sends the next event only when the
/// client has the one before. A relay that holds anything back stops it.
fn lock_step(gates: Arc<Vec<Vec<Gate>>>) -> impl Fn(&RequestLog) -> Vec<Step> + Send + Sync {
    move |r| {
        let mut steps = vec![Step::send(
            b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nCache-Control: no-cache\r\nX-Accel-Buffering: no\r\nTransfer-Encoding: chunked\r\n\r\n",
        )];
        let which: usize = r.json()["seed"].as_u64().unwrap().try_into().unwrap();
        let (last, events) = gates[which].split_last().unwrap();
        for (n, gate) in events.iter().enumerate() {
            steps.push(Step::Wait(gate.clone()));
            steps.push(Step::send(http1::chunk(&chunk(&n.to_string()))));
        }
        steps.push(Step::Wait(last.clone()));
        steps.push(Step::send([http1::chunk(DONE), LAST_CHUNK.to_vec()].concat()));
        steps
    }
}

/// One gate per event of each stream, and one for its end.
fn gates(streams: usize, events: usize) -> Arc<Vec<Vec<Gate>>> {
    Arc::new((0..streams).map(|_| (0..=events).map(|_| Gate::default()).collect()).collect())
}

async fn read_in_lock_step(mut client: client::Client, number: usize, gates: &[Gate]) {
    let body = format!(
        r#"{{"model":"tide-7b","messages":[{{"role":"user","content":"hi"}}],"stream":true,"seed":{number}}}"#
    );
    client.send(&http1::post(CHAT, body.as_bytes())).await;
    let (last, events) = gates.split_last().unwrap();
    let mut head = None;
    for (n, gate) in events.iter().enumerate() {
        gate.open();
        if head.is_none() {
            head = Some(client.head().await);
        }
        let event = chunk(&n.to_string());
        client.read_until(&format!("event {n} of stream {number}"), |got| got == event).await;
    }
    last.open();
    let response = client.rest(head.unwrap()).await;
    assert_eq!(response.body, DONE);
    assert!(response.is_complete());
    assert_eq!(response.head.all("cache-control"), ["no-cache"]);
    assert_eq!(response.head.all("x-accel-buffering"), ["no"]);
}

#[tokio::test]
async fn b11_every_event_goes_out_before_the_next_one_comes() {
    let gates = gates(1, 40);
    let (_backend, gateway) = through(lock_step(Arc::clone(&gates))).await;
    read_in_lock_step(gateway.connect().await, 0, &gates[0]).await;
}

#[tokio::test]
async fn b11_two_hundred_parallel_streams_are_not_clumped() {
    let gates = gates(200, 10);
    let (_backend, gateway) = through(lock_step(Arc::clone(&gates))).await;
    let mut all = tokio::task::JoinSet::new();
    for number in 0..200 {
        let client = gateway.connect().await;
        let gates = Arc::clone(&gates);
        all.spawn(async move { read_in_lock_step(client, number, &gates[number]).await });
    }
    all.join_all().await;
    gateway.wait_outcome("finished", 200.0).await;
    gateway.wait_idle().await;
}

#[tokio::test]
async fn b11_head_is_held_until_the_first_byte_of_the_body() {
    // The case asks for early headers. Engines answer 200 before they have
    // scheduled anything, so the gateway holds the head for as long as the
    // request can still be sent elsewhere; the first byte brings both.
    let gates = gates(1, 1);
    let (backend, gateway) = through(lock_step(Arc::clone(&gates))).await;
    let mut client = gateway.connect().await;
    let body = r#"{"model":"tide-7b","messages":[{"role":"user","content":"hi"}],"stream":true,"seed":0}"#;
    client.send(&http1::post(CHAT, body.as_bytes())).await;
    backend.request(0).await;
    assert_eq!(client.try_head("POST", Duration::from_millis(300)).await, Err(End::Limit));
    gates[0].iter().for_each(Gate::open);
    let head = client.head().await;
    assert_eq!(head.status(), 200);
    assert!(client.rest(head).await.is_complete());
}

#[tokio::test]
async fn a_stream_that_is_not_utf8_passes_unchanged() {
    let payload: Vec<Vec<u8>> =
        vec![b"data: \xff\xfe\x00\xed\xa0\x80\n\n".to_vec(), (0..=255).collect(), usage(3, 1), DONE.to_vec()];
    let sent = payload.clone();
    let (_backend, gateway) = through(move |_| stream(&sent, NO_GAP)).await;
    let response = gateway.post(CHAT, OK_SSE).await;
    assert_eq!(response.body, payload.concat());
    assert!(response.is_complete());
}

#[tokio::test]
async fn a_stream_that_only_the_close_delimits_passes_whole() {
    let payload = [chunk("a"), usage(3, 1), DONE.to_vec()].concat();
    let sent = payload.clone();
    let (_backend, gateway) = through(move |_| {
        vec![
            Step::send(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n"),
            Step::send(sent.clone()),
            Step::Fin,
        ]
    })
    .await;
    let response = gateway.post(CHAT, OK_SSE_USAGE).await;
    assert_eq!(response.body, payload);
    assert!(response.is_complete());
    gateway.wait_outcome("finished", 1.0).await;
    gateway.wait_metric("forebay_tokens_total", &[("kind", "prompt")], 3.0).await;
}

#[tokio::test]
async fn usage_of_a_plain_answer_is_counted() {
    let (_backend, gateway) = through(|_| bodies::ok_json()).await;
    let response = gateway.post(CHAT, OK_JSON).await;
    assert_eq!(response.body, bodies::completion("tide-7b", 12, 30));
    gateway.wait_outcome("finished", 1.0).await;
    gateway.wait_metric("forebay_tokens_total", &[("kind", "prompt")], 12.0).await;
    gateway.wait_metric("forebay_tokens_total", &[("kind", "completion")], 30.0).await;
}
