//! Signals are read often where there is work, and failures are told and survived.

#![allow(clippy::expect_used, clippy::panic, reason = "a test says what is wrong by panicking")]

mod support;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use forebay_config::Health;
use forebay_fleet::{PageKind, ScrapeFailure, ScrapeTarget, Target};
use forebay_wire::signals::{Combine, CustomSignal, Dialect};
use hyper_util::rt::{TokioExecutor, TokioIo};
use support::{Answer, LIMIT, Stub, Told, fleet, list, quick, vllm};
use tokio::net::TcpSocket;

const HOUR: Duration = Duration::from_secs(3600);

fn count_signals(told: &[Told], id: u32) -> usize {
    told.iter().filter(|told| matches!(told, Told::Signals(of, _) if *of == id)).count()
}

#[test]
fn a_busy_endpoint_is_read_often_and_an_idle_one_seldom() {
    let (busy, idle) = (Stub::start(&[("/metrics", vllm(3, 5).into())]), Stub::start(&[]));
    idle.set("/metrics", vllm(0, 5));
    let (fleet, _owner, heard) = fleet();
    let target =
        |id, stub: &Stub| ScrapeTarget { interval_max: HOUR, ..quick(id, &stub.url(), Dialect::Vllm) };
    fleet.set_scrape_targets(vec![target(1, &busy), target(2, &idle)]);
    let mut of_busy = 0;
    let told = heard.until(|told| {
        of_busy += usize::from(matches!(told, Told::Signals(1, _)));
        of_busy == 300
    });
    let of_idle = count_signals(&told, 2);
    assert!((1..=100).contains(&of_idle), "{of_idle} of the idle one, {of_busy} of the busy one");
    // One connection for each, which is kept.
    assert_eq!((busy.connections(), idle.connections()), (1, 1));
    let asked = busy.asked("/metrics");
    assert!(asked[0].head.contains("accept-encoding: identity\r\n"), "{}", asked[0].head);
}

#[test]
fn an_idle_endpoint_that_gets_work_is_read_at_once_and_then_often() {
    let stub = Stub::start(&[("/metrics", vllm(0, 5).into())]);
    let (fleet, owner, heard) = fleet();
    let target = |min, max| ScrapeTarget {
        interval_min: min,
        interval_max: max,
        ..quick(1, &stub.url(), Dialect::Vllm)
    };
    // Read by itself again only in hours.
    fleet.set_scrape_targets(vec![target(HOUR, 24 * HOUR)]);
    heard.signals(1);
    owner.set_in_flight(1, 1);
    heard.signals(1);
    // Its own page tells of no work: that is known from the owner alone.
    fleet.set_scrape_targets(vec![target(Duration::from_millis(10), HOUR)]);
    (0..100).for_each(|_| drop(heard.signals(1)));
}

#[test]
fn a_failing_endpoint_is_read_seldom_and_comes_back() {
    let (busy, failing) = (Stub::start(&[("/metrics", vllm(3, 5).into())]), Stub::start(&[]));
    failing.set("/metrics", Answer::Status(503));
    let (fleet, _owner, heard) = fleet();
    let target = |id, stub: &Stub| quick(id, &stub.url(), Dialect::Vllm);
    let max = Duration::from_secs(1);
    fleet.set_scrape_targets(vec![
        target(1, &busy),
        ScrapeTarget { interval_max: max, ..target(2, &failing) },
    ]);
    let (mut of_busy, mut failures) = (0, 0);
    let told = heard.until(|told| {
        of_busy += usize::from(matches!(told, Told::Signals(1, _)));
        failures += usize::from(*told == Told::Failed(2, "status"));
        failures >= 4
    });
    assert!(of_busy >= 12, "{of_busy} of the busy one, {failures} failures");
    assert_eq!(count_signals(&told, 2), 0);
    let result = Err(ScrapeFailure::Status(503));
    assert!(told.contains(&Told::Scraped(2, PageKind::Metrics, result, 0)));
    failing.set("/metrics", vllm(4, 5));
    assert_eq!(heard.signals(2).running, Some(4));
}

#[test]
fn pages_that_are_none_are_failures_each_by_its_name() {
    let big = format!("# {}\n", "x".repeat(6 << 20));
    let http =
        |head: &str, body: &str| Answer::Raw(format!("HTTP/1.1 200 OK\r\n{head}\r\n\r\n{body}").into_bytes());
    for (answer, why) in [
        (Answer::Status(404), "status"),
        (Answer::Status(307), "status"),
        ("".into(), "empty"),
        ("<!DOCTYPE html><html><body>It works!</body></html>".into(), "not_signals"),
        ("process_start_time_seconds 1.7e9\ngo_goroutines 7\n".into(), "not_signals"),
        (big.as_str().into(), "too_long"),
        (http("content-encoding: gzip\r\ncontent-length: 3", "\u{1f}abc"), "encoding"),
        (Answer::Raw(b"220 mail.example ESMTP\r\n".to_vec()), "broken"),
        (http("content-length: 100", "half"), "broken"),
        (Answer::Raw(Vec::new()), "broken"),
    ] {
        let stub = Stub::start(&[("/metrics", answer.clone())]);
        let (fleet, _owner, heard) = fleet();
        fleet.set_scrape_targets(vec![quick(1, &stub.url(), Dialect::Vllm)]);
        let told = heard.until(|told| matches!(told, Told::Failed(..) | Told::Signals(..)));
        assert_eq!(told.last(), Some(&Told::Failed(1, why)));
        stub.set("/metrics", vllm(1, 5));
        assert_eq!(heard.signals(1).running, Some(1), "after {why}");
    }
}

#[test]
fn a_url_that_cannot_be_used_and_a_host_that_refuses_are_told() {
    // Bound and not listening: connections are refused, and nobody else can take the port.
    let socket = TcpSocket::new_v4().expect("a socket");
    socket.bind(SocketAddr::from(([127, 0, 0, 1], 0))).expect("a port");
    let closed = format!("http://{}", socket.local_addr().expect("bound"));
    for (url, why) in [("http://a b", "url"), ("https://localhost:1", "url"), (&*closed, "connect")] {
        for dialect in [Some(Dialect::Vllm), None] {
            let (fleet, _owner, heard) = fleet();
            fleet.set_scrape_targets(vec![ScrapeTarget { dialect, ..quick(1, url, Dialect::Vllm) }]);
            let mut failures = 0;
            heard.until(|told| {
                failures += usize::from(*told == Told::Failed(1, why));
                assert!(!matches!(told, Told::Failed(_, other) if *other != why), "{told:?} of {url}");
                failures == 3
            });
        }
    }
}

#[test]
fn a_page_that_hangs_is_given_up_and_read_again_when_it_answers() {
    let stub = Stub::start(&[("/metrics", Answer::Hang), ("/v1/models", list("vllm", &["tide-7b"]).into())]);
    let (fleet, _owner, heard) = fleet();
    let target = quick(1, &stub.url(), Dialect::Vllm);
    fleet.set_scrape_targets(vec![ScrapeTarget { timeout: Duration::from_millis(50), ..target.clone() }]);
    let told = heard.until(|told| *told == Told::Failed(1, "timeout"));
    assert!(told.iter().any(|told| matches!(told, Told::Models(..))), "its models were read: {told:?}");
    stub.set("/metrics", vllm(2, 5));
    fleet.set_scrape_targets(vec![target]);
    assert_eq!(heard.signals(1).running, Some(2));
}

#[test]
fn an_endpoint_that_becomes_ready_is_read_at_once() {
    let socket = TcpSocket::new_v4().expect("a socket");
    socket.bind(SocketAddr::from(([127, 0, 0, 1], 0))).expect("a port");
    let url = format!("http://{}", socket.local_addr().expect("bound"));
    let (fleet, _owner, heard) = fleet();
    let health = Health { interval: Duration::from_millis(20), fall: 1, rise: 1, ..Health::default() };
    // Read by itself again only in an hour.
    let target = ScrapeTarget { interval_min: HOUR, interval_max: HOUR, ..quick(1, &url, Dialect::Vllm) };
    fleet.set_scrape_targets(vec![target]);
    heard.until(|told| *told == Told::Failed(1, "connect"));
    fleet.set_targets(vec![Target { id: 1, url, health, key: None, paused: false }]);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build().expect("a runtime");
    let listener = runtime.block_on(async { socket.listen(64)?.into_std() }).expect("it listens");
    let page = vllm(1, 5);
    let models = list("vllm", &["tide-7b"]);
    let _stub = Stub::at(
        listener,
        &[("/health", "ok".into()), ("/metrics", page.into()), ("/v1/models", models.into())],
    );
    let told = heard.until(|told| matches!(told, Told::Signals(1, _)));
    assert!(told.iter().any(|told| matches!(told, Told::Models(1, _))), "{told:?}");
}

#[test]
fn models_are_read_again_when_that_is_asked_for() {
    let stub = Stub::start(&[("/metrics", vllm(1, 5).into())]);
    stub.set("/v1/models", list("vllm", &["tide-7b"]));
    let (fleet, _owner, heard) = fleet();
    let target = quick(1, &stub.url(), Dialect::Vllm);
    fleet.set_scrape_targets(vec![target]);
    heard.until(|told| matches!(told, Told::Models(1, _)));
    stub.set("/v1/models", list("vllm", &["tide-7b", "sql<tide-7b"]));
    (0..1000).for_each(|_| fleet.refresh_models(1));
    fleet.refresh_models(2);
    let told = heard.until(|told| matches!(told, Told::Models(1, _)));
    let Some(Told::Models(_, models)) = told.last() else { unreachable!("it ends so") };
    assert_eq!(models[1].parent.as_deref(), Some("tide-7b"));
    assert_eq!(stub.asked("/v1/models").len(), 2);
}

#[test]
fn targets_come_stay_change_and_go() {
    let stub = Stub::start(&[("/metrics", vllm(1, 5).into())]);
    let (fleet, owner, heard) = fleet();
    let target = |id, path: &str| quick(id, &format!("{}{path}", stub.url()), Dialect::Vllm);
    fleet.set_scrape_targets(vec![target(1, "/a"), target(2, "/b"), target(3, "/c/")]);
    let mut seen = BTreeMap::new();
    heard.until(|told| {
        if let Told::Signals(id, _) = told {
            seen.insert(*id, ());
        }
        seen.len() == 3
    });
    assert!(!stub.asked("/c/metrics").is_empty(), "the slash at the end is not doubled");
    fleet.set_scrape_targets(vec![target(2, "/b"), target(3, "/d"), target(4, "/e")]);
    heard.until(|told| matches!(told, Told::Signals(4, _)));
    let before = (stub.asked("/a/metrics").len(), stub.asked("/c/metrics").len());
    let mut rounds = 0;
    heard.until(|told| {
        rounds += usize::from(matches!(told, Told::Signals(2, _)));
        assert!(!matches!(told, Told::Signals(1, _)), "it is gone");
        rounds == 10
    });
    assert_eq!((stub.asked("/a/metrics").len(), stub.asked("/c/metrics").len()), before);
    assert!(!stub.asked("/d/metrics").is_empty());
    fleet.set_scrape_targets(Vec::new());
    drop((fleet, owner));
    assert!(heard.rest().iter().all(|told| !matches!(told, Told::Signals(1, _))));
}

#[test]
fn a_thousand_endpoints_share_a_bounded_number_of_requests() {
    let page = vllm(1, 5);
    // One stub, so that the most that waited is of one moment.
    let stub = Stub::start(&[("/metrics", Answer::Gated(page))]);
    let (fleet, _owner, heard) = fleet();
    let targets = (0..1000u32).map(|id| ScrapeTarget {
        interval_min: Duration::from_millis(500),
        timeout: LIMIT,
        ..quick(id, &format!("{}/{id}", stub.url()), Dialect::Vllm)
    });
    fleet.set_scrape_targets(targets.collect());
    let waiting = || stub.waiting().0;
    // Nobody is answered: as many wait as may, and no more come however long.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
    runtime.block_on(async {
        let reached = async {
            while waiting() < 256 {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        tokio::time::timeout(LIMIT, reached).await.expect("256 requests at once");
    });
    stub.open_gate();
    let mut times: BTreeMap<u32, u32> = BTreeMap::new();
    heard.until(|told| {
        if let Told::Signals(id, _) = told {
            *times.entry(*id).or_default() += 1;
        }
        assert!(!matches!(told, Told::Failed(..)), "{told:?}");
        times.len() == 1000 && times.values().all(|n| *n >= 2)
    });
    let (_, most) = stub.waiting();
    assert!(most <= 256, "{most} requests at once");
}

#[test]
fn the_users_own_metrics_are_read_of_any_engine() {
    let stub =
        Stub::start(&[("/exporter", "queue_depth{model=\"a\"} 3\nqueue_depth{model=\"b\"} 4\n".into())]);
    let custom = |metric: &str, labels: &[(&str, &str)]| CustomSignal {
        metric: metric.to_owned(),
        labels: labels.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect(),
        combine: Combine::Sum,
    };
    let (fleet, _owner, heard) = fleet();
    let target = ScrapeTarget {
        metrics_url: Some(format!("{}/exporter", stub.url())),
        custom: vec![custom("queue_depth", &[]), custom("queue_depth", &[("model", "b")])],
        ..quick(1, &stub.url(), Dialect::Openai)
    };
    fleet.set_scrape_targets(vec![target]);
    let signals = heard.signals(1);
    assert_eq!(signals.custom[..3], [Some(7.0), Some(4.0), None]);
}

#[test]
fn figures_that_mean_nothing_are_unknown_and_the_rest_counts() {
    let page =
        "vllm:num_requests_running{model_name=\"m\"} 2\nvllm:kv_cache_usage_perc{model_name=\"m\"} NaN\n";
    let stub = Stub::start(&[("/metrics", page.into())]);
    let (fleet, _owner, heard) = fleet();
    fleet.set_scrape_targets(vec![quick(1, &stub.url(), Dialect::Vllm)]);
    let signals = heard.signals(1);
    assert_eq!((signals.running, signals.kv_usage, signals.waiting), (Some(2), None, None));
    stub.set("/metrics", "vllm:kv_cache_usage_perc{model_name=\"m\"} NaN\n");
    let none = heard.until(|told| matches!(told, Told::Signals(_, s) if s.running.is_none())).pop();
    let Some(Told::Signals(_, signals)) = none else { unreachable!("it ends so") };
    assert_eq!((signals.kv_usage, signals.skipped), (None, 1));
}

#[test]
fn dropping_the_fleet_ends_everything() {
    let stub = Stub::start(&[("/metrics", Answer::Hang)]);
    let (fleet, owner, heard) = fleet();
    fleet.set_scrape_targets(vec![quick(1, &stub.url(), Dialect::Vllm)]);
    heard.until(|told| matches!(told, Told::Scraped(1, PageKind::Models, ..)));
    drop(fleet);
    assert_eq!(Arc::strong_count(&owner), 1, "nobody is left to tell");
}

#[test]
fn an_endpoint_that_speaks_only_http2_is_read_in_it() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}", listener.local_addr().expect("bound"));
    listener.set_nonblocking(true).expect("a socket");
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let server = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        let answer = |request: hyper::Request<_>| async move {
            let _: &hyper::body::Incoming = request.body();
            let body = match request.uri().path() {
                "/metrics" => vllm(3, 5),
                "/v1/models" => list("vllm", &["tide-7b"]),
                _ => String::new(),
            };
            Ok::<_, std::convert::Infallible>(hyper::Response::new(body))
        };
        let accept = async move {
            let listener = tokio::net::TcpListener::from_std(listener).expect("a listener");
            while let Ok((stream, _)) = listener.accept().await {
                let connection = hyper::server::conn::http2::Builder::new(TokioExecutor::new())
                    .serve_connection(TokioIo::new(stream), hyper::service::service_fn(answer));
                tokio::spawn(connection);
            }
        };
        runtime.block_on(async {
            tokio::select! { () = accept => {}, _ = stopped => {} }
        });
    });
    let (fleet, _owner, heard) = fleet();
    fleet.set_scrape_targets(vec![ScrapeTarget {
        h2c: true,
        dialect: None,
        ..quick(1, &url, Dialect::Vllm)
    }]);
    assert_eq!(heard.signals(1).running, Some(3));
    drop(fleet);
    drop(stop);
    server.join().expect("the server did not panic");
}
