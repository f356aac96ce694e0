use forebay_core::Usage;

use super::*;

fn record(start: Instant, ttft_ms: u64, tokens: u64, tpot_ms: u64) -> Record {
    let ttft = Duration::from_millis(ttft_ms);
    let streaming = Duration::from_millis(tpot_ms * tokens.saturating_sub(1));
    Record {
        kind: Kind::Done,
        why: String::new(),
        started: start,
        ended: start + ttft + streaming,
        ttft: Some(ttft),
        streaming,
        tokens,
        usage: Some(Usage {
            prompt_tokens: 100,
            cached_tokens: 25,
            completion_tokens: tokens,
            estimated: false,
            cached_known: true,
        }),
        states_cached: true,
        endpoint: Some("a".into()),
        text: String::new(),
    }
}

fn failed(start: Instant, kind: Kind) -> Record {
    Record { kind, why: "no".into(), usage: None, endpoint: None, ..record(start, 10, 1, 0) }
}

#[test]
fn figures_of_a_small_run() {
    let start = Instant::now();
    let mut tally = Tally::new(1.0, Slo::default());
    for (ttft, tokens, tpot) in [(100, 11, 10), (200, 11, 50), (3_000, 11, 10), (400, 11, 51), (500, 1, 0)] {
        tally.add(&record(start, ttft, tokens, tpot), String::new);
    }
    let mut other = record(start, 600, 11, 20);
    other.endpoint = Some("b".into());
    other.usage = Some(Usage { cached_tokens: 100, ..other.usage.unwrap() });
    tally.add(&other, String::new);
    tally.add(&failed(start, Kind::Failed), || "request 7".into());
    tally.add(&failed(start, Kind::Rejected), || "request 8".into());
    let Finished { summary, remarks } = tally.finish(Some("random".into()));

    assert_eq!((summary.requests, summary.failed, summary.rejected), (8, 1, 1));
    let ttft = summary.ttft_ms;
    assert_eq!(ttft.mean, Some(800.0), "failed and rejected ones are not timed");
    assert_eq!((ttft.p50, ttft.p95, ttft.p99), (Some(400.0), Some(3_000.0), Some(3_000.0)));
    assert_eq!(summary.tpot_ms.mean, Some((10.0 + 50.0 + 10.0 + 51.0 + 20.0) / 5.0));
    // Late TTFT, late TPOT, failed and rejected are missed; one token has no TPOT.
    assert_eq!(summary.goodput, 4.0 / 8.0);
    assert_eq!(summary.e2e_ms.p99, Some(3_100.0));
    assert!((summary.tokens_per_second - 56.0 / 3.1).abs() < 1e-9);
    assert_eq!(summary.prefix_hit, Some(225.0 / 600.0));
    let [a, b] = summary.endpoints.as_slice() else { panic!("{:?}", summary.endpoints) };
    assert_eq!((a.name.as_str(), a.requests, a.share, a.prefix_hit), ("a", 5, 5.0 / 6.0, Some(0.25)));
    assert_eq!((b.name.as_str(), b.requests, b.prefix_hit), ("b", 1, Some(1.0)));
    assert_eq!(remarks, ["failed: request 7: no", "rejected: request 8: no"]);
}

#[test]
fn times_are_engine_time() {
    let start = Instant::now();
    let mut tally = Tally::new(10.0, Slo::default());
    tally.add(&record(start, 100, 11, 5), String::new);
    tally.add(&record(start, 300, 11, 5), String::new);
    let summary = tally.finish(None).summary;
    assert_eq!((summary.ttft_ms.p50, summary.tpot_ms.p50), (Some(1_000.0), Some(50.0)));
    assert_eq!(summary.goodput, 0.5, "the SLO is in engine time too");
    assert!((summary.tokens_per_second - 22.0 / 3.5).abs() < 1e-9);
    assert_eq!(summary.time_scale, 10.0);
}

#[test]
fn percentiles_are_nearest_rank() {
    let mut hundred: Vec<f64> = (1..=100).rev().map(f64::from).collect();
    let q = Quantiles::of(&mut hundred);
    assert_eq!((q.mean, q.p50, q.p95, q.p99), (Some(50.5), Some(50.0), Some(95.0), Some(99.0)));
    let one = Quantiles::of(&mut [7.0]);
    assert_eq!((one.p50, one.p99), (Some(7.0), Some(7.0)));
    assert_eq!(Quantiles::of(&mut []), Quantiles::default());
}

#[test]
fn token_counts_are_compared() {
    let start = Instant::now();
    let mut tally = Tally::new(1.0, Slo::default());
    let good = record(start, 10, 5, 1);
    tally.compare(&good, Some(100), 5, || "1".into());
    tally.compare(&good, None, 5, || "2".into());
    tally.compare(&good, Some(99), 5, || "3".into());
    tally.compare(&good, Some(100), 6, || "4".into());
    tally.compare(&failed(start, Kind::Failed), Some(1), 1, || "5".into());
    tally.compare(&Record { usage: None, ..record(start, 10, 5, 1) }, Some(100), 5, || "6".into());
    for i in 0..10 {
        tally.compare(&good, Some(1), 1, || i.to_string());
    }
    let Finished { summary, remarks } = tally.finish(None);
    assert_eq!(summary.token_mismatches, Some(13));
    assert_eq!(remarks[0], "token counts: 3: 100 prompt and 5 output tokens, the trace has 99 and 5");
    assert!(remarks[2].contains("states none"));
    assert_eq!(remarks.last().unwrap(), "... and 8 more like these");
}

#[test]
fn nothing_sent_is_a_summary_too() {
    let finished = Tally::new(1.0, Slo::default()).finish(None);
    assert_eq!((finished.summary.goodput, finished.summary.prefix_hit), (0.0, None));
    assert!(finished.to_string().contains("requests     0, 0 failed, 0 rejected"));
}

#[test]
fn json_keys_are_the_contract() {
    let start = Instant::now();
    let mut tally = Tally::new(1.0, Slo::default());
    tally.add(&record(start, 100, 11, 10), String::new);
    let summary = tally.finish(Some("least_work".into())).summary;
    let json = serde_json::to_value(&summary).unwrap();
    let keys: Vec<&str> = json.as_object().unwrap().keys().map(String::as_str).collect();
    let mut want = [
        "policy",
        "requests",
        "failed",
        "rejected",
        "ttft_ms",
        "tpot_ms",
        "e2e_ms",
        "tokens_per_second",
        "goodput",
        "slo",
        "prefix_hit",
        "endpoints",
        "time_scale",
    ];
    want.sort_unstable();
    assert_eq!(keys, want);
    for key in ["mean", "p50", "p95", "p99"] {
        assert!(json["e2e_ms"][key].is_number());
    }
    for key in ["name", "requests", "share", "prefix_hit"] {
        assert!(!json["endpoints"][0][key].is_null());
    }
    assert_eq!(serde_json::from_value::<Summary>(json).unwrap(), summary);
}

#[test]
fn the_table_lines_up() {
    let start = Instant::now();
    let mut tally = Tally::new(2.0, Slo::default());
    tally.add(&record(start, 100, 1_001, 10), String::new);
    let text = tally.finish(Some("least_work".into())).to_string();
    let want = "\
policy       least_work
requests     1, 0 failed, 0 rejected
throughput   50 tokens/s
goodput      100.0 % within TTFT 2000 ms and TPOT 50.0 ms
prefix hit   25.0 % of prompt tokens
time scale   2 (all times are engine time)

                  mean       p50       p95       p99
TTFT            200 ms    200 ms    200 ms    200 ms
TPOT           20.0 ms   20.0 ms   20.0 ms   20.0 ms
end to end      20.2 s    20.2 s    20.2 s    20.2 s

endpoint      requests     share  prefix hit
a                    1   100.0 %      25.0 %
";
    assert_eq!(text, want);
}
