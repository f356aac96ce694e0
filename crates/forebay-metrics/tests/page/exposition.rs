//! What `/metrics` says is valid, complete and bounded.

use std::time::Duration;

use crate::full::full;
use crate::promtool;
use forebay_metrics::{
    ALL, Dial, EndpointStateLabel, EndpointTold, Kind, Metrics, OutcomeLabel, PoolReading,
};

/// The value of the one series whose name and labels are exactly `series`.
fn value(text: &str, series: &str) -> Option<f64> {
    let mut found = text.lines().filter_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
    let value = found.next()?.parse().expect("a number");
    assert!(found.next().is_none(), "{series} is there twice");
    Some(value)
}

fn series(text: &str) -> usize {
    text.lines().filter(|line| !line.starts_with('#')).count()
}

#[test]
fn promtool_has_nothing_to_complain_about() {
    promtool(&["check", "metrics"], &full().metrics.render());
    promtool(&["check", "metrics"], &Metrics::new("0.1.0").render());
}

#[test]
fn every_definition_is_rendered_with_its_type_and_its_labels() {
    let full = full();
    let text = full.metrics.render();
    for d in ALL {
        assert!(text.contains(&format!("# TYPE {} {}\n", d.name, d.kind.as_str())), "{}", d.name);
        assert!(text.contains(&format!("# HELP {} {}\n", d.name, d.help)), "{}", d.name);
        assert!(d.help.ends_with('.'), "{}: {:?} is not a sentence", d.name, d.help);
        assert_eq!(d.kind == Kind::Counter, d.name.ends_with("_total"), "{}", d.name);
        let suffix = if d.kind == Kind::Histogram { "_count" } else { "" };
        let start = format!("{}{suffix}", d.name);
        let line = text.lines().find(|l| l.starts_with(&start) && !l.starts_with('#')).expect(d.name);
        let labels: Vec<&str> = line
            .split_once('{')
            .map(|(_, rest)| rest.split(',').filter_map(|pair| Some(pair.split_once('=')?.0)).collect())
            .unwrap_or_default();
        assert_eq!(labels, d.labels, "{}", d.name);
    }
    let types = text.lines().filter(|line| line.starts_with("# TYPE ")).count();
    assert_eq!(types, ALL.len(), "a family is rendered that ALL does not list");
}

#[test]
fn values_are_what_was_recorded() {
    let full = full();
    full.route.request(200, OutcomeLabel::Ok, Duration::from_millis(500));
    full.endpoint.load(1, 2);
    let text = full.metrics.render();
    for (series, expected) in [
        (r#"forebay_requests_total{pool="chat",model="tide-7b",code="200",outcome="finished"}"#, 2.0),
        (r#"forebay_requests_total{pool="chat",model="tide-7b",code="418",outcome="client_error"}"#, 1.0),
        (r#"forebay_requests_total{pool="none",model="other",code="200",outcome="finished"}"#, 0.0),
        (r#"forebay_request_duration_seconds_count{pool="chat",model="tide-7b"}"#, 3.0),
        (r#"forebay_request_duration_seconds_sum{pool="chat",model="tide-7b"}"#, 2.007),
        (r#"forebay_request_duration_seconds_bucket{pool="chat",model="tide-7b",le="0.01"}"#, 1.0),
        (r#"forebay_request_duration_seconds_bucket{pool="chat",model="tide-7b",le="0.5"}"#, 2.0),
        (r#"forebay_request_duration_seconds_bucket{pool="chat",model="tide-7b",le="+Inf"}"#, 3.0),
        (r#"forebay_decision_seconds_sum"#, 9e-7),
        (r#"forebay_decision_seconds_bucket{le="5e-07"}"#, 0.0),
        (r#"forebay_decision_seconds_bucket{le="1e-06"}"#, 1.0),
        (r#"forebay_tokens_total{pool="chat",model="tide-7b",kind="prompt"}"#, 900.0),
        (r#"forebay_tokens_total{pool="chat",model="tide-7b",kind="cached"}"#, 512.0),
        (r#"forebay_tokens_total{pool="chat",model="tide-7b",kind="completion"}"#, 180.0),
        (r#"forebay_rejected_total{reason="not_ready"}"#, 1.0),
        (r#"forebay_rejected_total{reason="draining"}"#, 0.0),
        (r#"forebay_retries_total{reason="connect"}"#, 1.0),
        (r#"forebay_client_connections"#, 1.0),
        (r#"forebay_draining"#, 1.0),
        (r#"forebay_build_info{version="0.1.0"}"#, 1.0),
        (r#"forebay_endpoint_inflight{pool="chat",endpoint="http://127.0.0.1:8001"}"#, 1.0),
        (r#"forebay_endpoint_requests_total{pool="chat",endpoint="http://127.0.0.1:8001"}"#, 2.0),
        (r#"forebay_endpoint_state{pool="chat",endpoint="http://127.0.0.1:8001",state="ready"}"#, 1.0),
        (r#"forebay_endpoint_state{pool="chat",endpoint="http://127.0.0.1:8001",state="starting"}"#, 0.0),
        (r#"forebay_endpoint_signal_age_seconds{pool="chat",endpoint="http://127.0.0.1:8001"}"#, 0.25),
        (r#"forebay_endpoint_running{pool="chat",endpoint="http://127.0.0.1:8001"}"#, 7.0),
        (r#"forebay_endpoint_waiting{pool="chat",endpoint="http://127.0.0.1:8001"}"#, 2.0),
        (r#"forebay_endpoint_kv_usage{pool="chat",endpoint="http://127.0.0.1:8001"}"#, 0.75),
        (r#"forebay_endpoint_weight{pool="chat",endpoint="http://127.0.0.1:8001"}"#, 2.5),
        (r#"forebay_endpoint_prefill_factor{pool="chat",endpoint="http://127.0.0.1:8001"}"#, 1.25),
        (r#"forebay_endpoint_decode_factor{pool="chat",endpoint="http://127.0.0.1:8001"}"#, 1.5),
        (r#"forebay_endpoint_gpu_utilization{pool="chat",endpoint="http://127.0.0.1:8001"}"#, 0.5),
        (r#"forebay_endpoint_gpu_temperature_celsius{pool="chat",endpoint="http://127.0.0.1:8001"}"#, 71.0),
        (r#"forebay_endpoint_gpu_throttled{pool="chat",endpoint="http://127.0.0.1:8001"}"#, 1.0),
        (
            r#"forebay_endpoint_scrapes_total{pool="chat",endpoint="http://127.0.0.1:8001",result="failed"}"#,
            3.0,
        ),
        (r#"forebay_scrape_duration_seconds_bucket{page="metrics",le="0.0025"}"#, 0.0),
        (r#"forebay_scrape_duration_seconds_bucket{page="metrics",le="0.005"}"#, 1.0),
        (r#"forebay_prefix_prediction_error_tokens_bucket{pool="chat",model="tide-7b",le="0"}"#, 1.0),
        (r#"forebay_prefix_prediction_error_tokens_bucket{pool="chat",model="tide-7b",le="128"}"#, 2.0),
        (r#"forebay_prefix_prediction_error_tokens_sum{pool="chat",model="tide-7b"}"#, 100.0),
        (r#"forebay_policy_fallback{pool="chat"}"#, 1.0),
        (r#"forebay_ttft_prediction_error{pool="chat",statistic="bias"}"#, 0.9),
        (r#"forebay_ttft_prediction_error{pool="chat",statistic="p90"}"#, 2.0),
        (r#"forebay_tpot_prediction_error{pool="chat",statistic="mean"}"#, 1.2),
        (r#"forebay_output_prediction_error{pool="chat",statistic="bias"}"#, 0.5),
        (r#"forebay_output_prediction_error{pool="chat",statistic="p90"}"#, 8.0),
        (r#"forebay_broken_predictions_ratio{pool="chat"}"#, 0.02),
        (r#"forebay_tpot_correction{pool="chat"}"#, 1.1),
        (r#"forebay_adapter_load_seconds{pool="chat"}"#, 0.4),
        (r#"forebay_shadow_agreement_total{pool="chat",agreed="true"}"#, 6.0),
        (r#"forebay_shadow_agreement_total{pool="chat",agreed="false"}"#, 4.0),
        (r#"forebay_shadow_price_difference_seconds_total{pool="chat",than_chosen="dearer"}"#, 1.5),
        (r#"forebay_shadow_price_difference_seconds_total{pool="chat",than_chosen="cheaper"}"#, 0.25),
        (r#"forebay_prefix_index_bytes"#, 4096.0),
        (r#"forebay_prefix_index_blocks"#, 12.0),
        (r#"forebay_prefix_index_evictions_total{reason="memory"}"#, 4.0),
        (r#"forebay_kv_events_total{result="applied"}"#, 100.0),
        (r#"forebay_kv_event_faults_total{kind="gap"}"#, 1.0),
        (r#"forebay_kv_blocks_total{result="stored"}"#, 90.0),
        (r#"forebay_kv_blocks_total{result="over_limit"}"#, 3.0),
        (r#"forebay_kv_feed_up{pool="chat",endpoint="http://127.0.0.1:8001"}"#, 1.0),
        (r#"forebay_decision_log_entries_total{result="lost"}"#, 2.0),
        (r#"process_cpu_seconds_total"#, 1.5),
    ] {
        assert_eq!(value(&text, series), Some(expected), "{series}\n{text}");
    }
    assert_eq!(full.route.requests_total(), 3);
}

#[test]
fn an_unknown_figure_has_no_series() {
    let full = full();
    full.endpoint.told(&EndpointTold {
        // Nonsense is as good as nothing.
        kv_usage: Some(f64::NAN),
        prefill_factor: Some(f64::INFINITY),
        waiting: Some(0),
        ..EndpointTold::default()
    });
    full.pool.set(&PoolReading::default());
    full.metrics.set_kv_events(None);
    full.metrics.set_decision_log(None);
    let text = full.metrics.render();
    for absent in [
        "forebay_endpoint_signal_age_seconds",
        "forebay_endpoint_running",
        "forebay_endpoint_kv_usage",
        "forebay_endpoint_weight",
        "forebay_endpoint_prefill_factor",
        "forebay_endpoint_decode_factor",
        "forebay_endpoint_gpu_",
        "_prediction_error{",
        "forebay_broken_predictions_ratio",
        "forebay_tpot_correction",
        "forebay_adapter_load_seconds",
        "forebay_shadow_",
        "forebay_kv_event",
        "forebay_decision_log_entries_total",
        "NaN",
    ] {
        assert!(!text.contains(absent), "{absent}\n{text}");
    }
    let known = r#"forebay_endpoint_waiting{pool="chat",endpoint="http://127.0.0.1:8001"}"#;
    assert_eq!(value(&text, known), Some(0.0), "zero is known");
    assert_eq!(value(&text, r#"forebay_policy_fallback{pool="chat"}"#), Some(0.0));
    promtool(&["check", "metrics"], &text);
    drop(full.pool);
    assert!(!full.metrics.render().contains("forebay_policy_fallback"));
}

#[test]
fn predictions_of_held_tokens_are_compared_whichever_way_they_are_off() {
    let metrics = Metrics::new("0.1.0");
    let route = metrics.route("chat", "tide-7b");
    assert!(!metrics.render().contains("forebay_prefix_prediction_error_tokens"));
    for (predicted, cached) in [(0, 512), (512, 0), (64, 64), (u64::MAX, 0)] {
        route.prefix_prediction(predicted, cached);
    }
    let text = metrics.render();
    let of = |rest: &str| value(&text, &format!("forebay_prefix_prediction_error_tokens_{rest}"));
    assert_eq!(of(r#"bucket{pool="chat",model="tide-7b",le="0"}"#), Some(1.0));
    assert_eq!(of(r#"bucket{pool="chat",model="tide-7b",le="256"}"#), Some(1.0));
    assert_eq!(of(r#"bucket{pool="chat",model="tide-7b",le="512"}"#), Some(3.0));
    assert_eq!(of(r#"count{pool="chat",model="tide-7b"}"#), Some(4.0));
}

#[test]
fn a_label_value_cannot_break_the_page() {
    let metrics = Metrics::new("a\"b\\c\nd");
    let nasty = "x\"} 1\ny{z=\"\\";
    let route = metrics.route(nasty, "mödel\r\u{0}🚀");
    route.request(200, OutcomeLabel::Ok, Duration::from_millis(1));
    let endpoint = metrics.endpoint(nasty, nasty);
    endpoint.state(EndpointStateLabel::Unready);
    let text = metrics.render();
    promtool(&["check", "metrics"], &text);
    assert!(text.contains(r#"forebay_build_info{version="a\"b\\c\nd"} 1"#), "{text}");
    assert!(text.contains(r#"pool="x\"} 1\ny{z=\"\\""#), "{text}");
    assert!(!text.lines().any(|line| line.starts_with("y{")), "{text}");
}

#[test]
fn a_flood_of_odd_codes_and_unknown_models_adds_a_bounded_number_of_series() {
    let metrics = Metrics::new("0.1.0");
    let route = metrics.route("chat", "tide-7b");
    route.request(200, OutcomeLabel::Ok, Duration::from_millis(1));
    let before = series(&metrics.render());
    for n in 0..50_000u32 {
        // A client's invented model has no other place to go than this.
        metrics.unrouted().request(404, OutcomeLabel::Unrouted, Duration::from_micros(50));
        route.request((n % 65_536) as u16, OutcomeLabel::UpstreamError, Duration::from_micros(n.into()));
    }
    let text = metrics.render();
    let grown = series(&text) - before;
    assert!(grown < 120, "{grown} series more");
    assert!(text.len() < 100_000, "{} bytes", text.len());
    let other =
        r#"forebay_requests_total{pool="chat",model="tide-7b",code="other",outcome="upstream_error"}"#;
    assert!(value(&text, other).is_some_and(|n| n > 49_000.0), "{text}");
    for bad in ["code=\"0\"", "code=\"99\"", "code=\"600\"", "code=\"65535\""] {
        assert!(!text.contains(bad), "{bad}");
    }
    assert_eq!(route.requests_total(), 50_001, "no request is lost to the limit");

    // A code that has its own cell still has it after the flood, and so has a new route.
    route.request(503, OutcomeLabel::Rejected, Duration::from_millis(1));
    let late = metrics.route("chat", "late");
    late.request(200, OutcomeLabel::Ok, Duration::from_millis(1));
    let text = metrics.render();
    let name = |model, code, outcome| {
        format!(r#"forebay_requests_total{{pool="chat",model="{model}",code="{code}",outcome="{outcome}"}}"#)
    };
    assert_eq!(value(&text, &name("tide-7b", 503, "rejected")), Some(1.0));
    assert_eq!(value(&text, &name("late", 200, "finished")), Some(1.0));
    promtool(&["check", "metrics"], &text);
}

#[test]
fn a_flood_of_routes_ends_in_a_shared_one_and_spares_the_configured() {
    let metrics = Metrics::new("0.1.0");
    let configured = metrics.route("chat", "tide-7b");
    let held: Vec<_> = (0..21_000).map(|n| metrics.route("chat", &format!("m{n}"))).collect();
    held.last().expect("many").request(200, OutcomeLabel::Ok, Duration::from_millis(1));
    configured.request(200, OutcomeLabel::Ok, Duration::from_millis(1));
    let text = metrics.render();
    let name = |pool, model| {
        format!(r#"forebay_requests_total{{pool="{pool}",model="{model}",code="200",outcome="finished"}}"#)
    };
    assert_eq!(value(&text, &name("other", "other")), Some(1.0));
    assert_eq!(value(&text, &name("chat", "m20999")), None);
    assert_eq!(value(&text, &name("chat", "tide-7b")), Some(1.0));
    drop(held);
    let again = metrics.route("chat", "m20999");
    assert_eq!(value(&metrics.render(), &name("chat", "m20999")), Some(0.0));
    drop(again);
}

#[test]
fn series_go_with_the_last_handle_and_survive_a_reload() {
    let metrics = Metrics::new("0.1.0");
    let old = metrics.route("chat", "tide-7b");
    old.request(200, OutcomeLabel::Ok, Duration::from_millis(1));
    let new = metrics.route("chat", "tide-7b");
    drop(old);
    let name = r#"forebay_requests_total{pool="chat",model="tide-7b",code="200",outcome="finished"}"#;
    assert_eq!(value(&metrics.render(), name), Some(1.0));
    drop(new);
    assert_eq!(value(&metrics.render(), name), None);

    let endpoint = metrics.endpoint("chat", "http://a");
    let of_a_stream = endpoint.clone();
    of_a_stream.load(1, 1);
    let name = r#"forebay_endpoint_inflight{pool="chat",endpoint="http://a"}"#;
    assert_eq!(value(&metrics.render(), name), Some(1.0));
    endpoint.remove();
    drop(endpoint);
    assert_eq!(value(&metrics.render(), name), None);
    let back = metrics.endpoint("chat", "http://a");
    assert_eq!(value(&metrics.render(), name), Some(1.0), "the old stream is still load");
    of_a_stream.load(0, 1);
    drop(of_a_stream);
    assert_eq!(value(&metrics.render(), name), Some(0.0));
    drop(back);
    assert!(!metrics.render().contains("forebay_endpoint_"));
}

#[test]
fn recording_from_many_threads_loses_nothing_and_every_render_is_consistent() {
    const THREADS: u64 = 8;
    const EACH: u64 = 5_000;
    let metrics = Metrics::new("0.1.0");
    let route = metrics.route("chat", "tide-7b");
    let endpoint = metrics.endpoint("chat", "http://a");
    std::thread::scope(|scope| {
        for t in 0..THREADS {
            let (route, endpoint) = (route.clone(), endpoint.clone());
            scope.spawn(move || {
                for n in 0..EACH {
                    endpoint.dial(Dial::Ok);
                    let code = if n % 100 == 0 { 299 } else { 200 };
                    route.request(code, OutcomeLabel::Ok, Duration::from_millis(t * n % 4_000));
                    route.tokens(3, 2, 1);
                }
            });
        }
        for _ in 0..20 {
            let text = metrics.render();
            let of = |suffix: &str| {
                value(&text, &format!("forebay_request_duration_seconds_{suffix}")).unwrap_or(0.0)
            };
            assert_eq!(
                of(r#"bucket{pool="chat",model="tide-7b",le="+Inf"}"#),
                of(r#"count{pool="chat",model="tide-7b"}"#)
            );
        }
    });
    assert_eq!(route.requests_total(), THREADS * EACH);
    let text = metrics.render();
    let dials = r#"forebay_endpoint_dials_total{pool="chat",endpoint="http://a",result="ok"}"#;
    assert_eq!(value(&text, dials), Some((THREADS * EACH) as f64));
    let name = |kind| format!(r#"forebay_tokens_total{{pool="chat",model="tide-7b",kind="{kind}"}}"#);
    assert_eq!(value(&text, &name("prompt")), Some((THREADS * EACH * 3) as f64));
    let count = r#"forebay_request_duration_seconds_count{pool="chat",model="tide-7b"}"#;
    assert_eq!(value(&text, count), Some((THREADS * EACH) as f64));
}

#[test]
fn extreme_durations_do_not_panic_and_land_in_the_last_bucket() {
    let metrics = Metrics::new("0.1.0");
    let route = metrics.route("chat", "tide-7b");
    route.ttft(Duration::MAX);
    route.ttft(Duration::ZERO);
    let text = metrics.render();
    let bucket = |le| format!(r#"forebay_ttft_seconds_bucket{{pool="chat",model="tide-7b",le="{le}"}}"#);
    assert_eq!(value(&text, &bucket("300")), Some(1.0));
    assert_eq!(value(&text, &bucket("+Inf")), Some(2.0));
    assert_eq!(value(&text, &bucket("0.001")), Some(1.0));
}
