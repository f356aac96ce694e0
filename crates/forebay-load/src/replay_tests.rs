use std::path::Path;

use super::*;
use crate::fake_server::{FakeServer, Reply};

const GOOD: Reply = Reply::Good { cached: 0, more: 0, endpoint: "" };

fn traces(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../traces").join(name)
}

fn options(server: &FakeServer, limit: usize) -> ReplayOptions {
    ReplayOptions {
        trace: traces("azure_2023_conv.csv"),
        limit: Some(limit),
        url: server.url.clone(),
        speed: Some(1e6),
        progress: false,
        ..ReplayOptions::default()
    }
}

/// Runs to the end, with a limit on the test's own time.
async fn run(options: ReplayOptions) -> Result<Finished, LoadError> {
    let (_keep, stop) = watch::channel(false);
    timeout(Duration::from_secs(60), replay(options, Arc::default(), stop)).await.expect("it ends")
}

#[tokio::test]
async fn lengths_are_the_traces_and_the_model_is_asked_for() {
    let server = FakeServer::start(|_, _| Reply::Good { cached: 10, more: 0, endpoint: "e1" }).await;
    let Finished { summary, remarks } = run(options(&server, 40)).await.unwrap();
    assert_eq!((summary.requests, summary.failed, summary.rejected), (40, 0, 0), "{remarks:?}");
    assert_eq!((summary.token_mismatches, summary.endpoints[0].requests), (Some(0), 40));
    let trace = trace::read(&traces("azure_2023_conv.csv"), Some(40)).unwrap();
    let prompt: u64 = trace.requests.iter().map(|r| u64::from(r.input_tokens)).sum();
    assert_eq!(summary.prefix_hit, Some(400.0 / prompt as f64));
    let mut sent: Vec<(u64, u64)> = Vec::new();
    for body in server.bodies() {
        assert_eq!(body["model"], "tide-7b");
        sent.push((body["prompt"].as_array().unwrap().len() as u64, body["max_tokens"].as_u64().unwrap()));
    }
    let mut want: Vec<(u64, u64)> =
        trace.requests.iter().map(|r| (u64::from(r.input_tokens), u64::from(r.output_tokens))).collect();
    sent.sort_unstable();
    want.sort_unstable();
    assert_eq!(sent, want);
    assert!(server.seen.lock().unwrap().iter().all(|s| s.path == "/v1/completions"));
}

#[tokio::test]
async fn prefixes_are_shared_as_in_the_trace() {
    let server = FakeServer::start(|_, _| GOOD).await;
    let options = ReplayOptions {
        trace: traces("mooncake_conversation.jsonl"),
        model: Some("m".into()),
        ..options(&server, 6)
    };
    let summary = run(options).await.unwrap().summary;
    assert_eq!((summary.requests, summary.failed, summary.token_mismatches), (6, 0, Some(0)));
    let bodies = server.bodies();
    let first = |i: usize| &bodies[i]["prompt"].as_array().unwrap()[..512];
    assert!((1..6).all(|i| first(i) == first(0)), "block 0 is in every request");
}

#[tokio::test]
async fn every_way_to_end_is_counted() {
    let server = FakeServer::start(|n, _| match n {
        0 => Reply::Status(429, "slow down"),
        1 => Reply::Status(503, "later"),
        2 => Reply::Status(500, "broken"),
        3 => Reply::Cut,
        4 => Reply::Events(&["{\"choices\":[{\"text\":\"a\"}]}"]),
        5 => Reply::Events(&["{\"error\":{\"message\":\"boom\"}}", "[DONE]"]),
        6 => Reply::Events(&["{\"choices\":[{\"text\":\"\",\"finish_reason\":\"abort\"}]}", "[DONE]"]),
        7 => Reply::Good { cached: 0, more: 1, endpoint: "" },
        _ => GOOD,
    })
    .await;
    // One at a time, so that the n-th request is the n-th of the trace.
    let options = ReplayOptions { max_in_flight: Some(1), ..options(&server, 12) };
    let Finished { summary, remarks } = run(options).await.unwrap();
    assert_eq!((summary.requests, summary.failed, summary.rejected), (12, 5, 2));
    assert_eq!(summary.token_mismatches, Some(1));
    assert_eq!(summary.goodput, 5.0 / 12.0);
    let all = remarks.join("\n");
    assert!(all.contains("rejected: request 1 of the trace: 429 Too Many Requests: slow down"), "{all}");
    assert!(all.contains("failed: request 3 of the trace: 500 Internal Server Error: broken"), "{all}");
    assert!(all.contains("request 5 of the trace: the stream ended without [DONE]"), "{all}");
    assert!(all.contains("token counts: request 8 of the trace"), "{all}");
}

#[tokio::test]
async fn arrivals_keep_the_traces_clock() {
    let server = FakeServer::start(|_, _| GOOD).await;
    let trace = trace::read(&traces("azure_2023_conv.csv"), Some(10)).unwrap();
    let last = trace.requests[9].arrival;
    let options = ReplayOptions { speed: Some(20.0), ..options(&server, 10) };
    let begin = Instant::now();
    run(options).await.unwrap();
    // It may take longer on a busy machine, never less.
    assert!(begin.elapsed() >= last / 20, "{:?} for {last:?}", begin.elapsed());
}

#[tokio::test]
async fn stop_sends_no_more_and_gives_up_after_the_grace() {
    let server = FakeServer::start(|_, _| Reply::Hang).await;
    let live: Arc<Live> = Arc::default();
    let (stop, stopped) = watch::channel(false);
    let grace = Duration::from_millis(50);
    let options = ReplayOptions { speed: Some(1e-3), model: Some("m".into()), grace, ..options(&server, 10) };
    let running = tokio::spawn(replay(options, Arc::clone(&live), stopped));
    timeout(Duration::from_secs(30), async {
        while live.view().tokens == 0 {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    })
    .await
    .expect("the first request streams");
    assert_eq!(live.view().in_flight, 1);
    stop.send(true).unwrap();
    let Finished { summary, remarks } =
        timeout(Duration::from_secs(30), running).await.expect("it ends").unwrap().unwrap();
    assert_eq!((summary.requests, summary.failed), (1, 1));
    assert!(remarks[0].contains("not finished when the run ended"), "{remarks:?}");
    assert_eq!(live.view().in_flight, 0);
}

#[tokio::test]
async fn what_cannot_start_says_why() {
    let server = FakeServer::start(|_, _| GOOD).await;
    let base = options(&server, 1);
    for (options, want) in [
        (ReplayOptions { speed: Some(0.0), ..base.clone() }, "speed: 0 is not"),
        (ReplayOptions { time_scale: -1.0, ..base.clone() }, "time-scale: -1 is not"),
        (ReplayOptions { vocab: 10, ..base.clone() }, "vocab: 10 leaves"),
        (ReplayOptions { max_in_flight: Some(0), ..base.clone() }, "max-in-flight: 0"),
        (ReplayOptions { url: "localhost:80".into(), ..base.clone() }, "url: \"localhost:80\""),
        (ReplayOptions { url: "https://a".into(), ..base.clone() }, "url: \"https://a\": https is not"),
        (ReplayOptions { trace: "/none".into(), ..base.clone() }, "/none: "),
        (
            ReplayOptions { url: "http://127.0.0.1:1".into(), ..base.clone() },
            "asking http://127.0.0.1:1/v1/models",
        ),
        (ReplayOptions { api_key: Some("a\nb".into()), ..base.clone() }, "api key: "),
    ] {
        let error = run(options).await.err().unwrap().to_string();
        assert!(error.starts_with(want), "{error}\nexpected: {want}");
    }
}
