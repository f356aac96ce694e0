//! Who answers is found out, and another one at the same address is noticed.

#![allow(clippy::expect_used, clippy::panic, reason = "a test says what is wrong by panicking")]

mod support;

use std::time::Duration;

use forebay_fleet::{PageKind, ScrapeTarget};
use forebay_wire::signals::{Combine, CustomSignal, Dialect, Signals};
use support::{Answer, Stub, Told, fleet, list, quick, vllm};

const LOADS: &str = r#"{"accelerator":"H100","loads":[{"num_running_reqs":3,"num_waiting_reqs":2,"num_waiting_uncached_tokens":700,"max_total_num_tokens":262144}]}"#;

/// A target whose engine is to be found out.
fn open(id: u32, url: &str) -> ScrapeTarget<u32> {
    ScrapeTarget { dialect: None, ..quick(id, url, Dialect::Vllm) }
}

/// What was told, without every request for a page.
fn events(told: &[Told]) -> Vec<&Told> {
    told.iter().filter(|told| !matches!(told, Told::Scraped(..))).collect()
}

fn position(told: &[Told], fits: impl Fn(&Told) -> bool) -> usize {
    told.iter().position(fits).unwrap_or_else(|| panic!("it was not told: {:?}", events(told)))
}

#[test]
fn every_engine_is_found_out_and_read() {
    let page = |text: &str| Answer::Page(text.to_owned());
    let openai = |owner: &str| Answer::Page(list(owner, &["tide-7b"]));
    let cases: [(Dialect, &[(&str, Answer)]); 7] = [
        (
            Dialect::Vllm,
            &[
                ("/v1/models", openai("vllm")),
                ("/metrics", page("vllm:num_requests_running 3\nvllm:num_requests_waiting 2\n")),
            ],
        ),
        (
            Dialect::Sglang,
            &[
                ("/v1/models", openai("sglang")),
                ("/metrics", page("sglang:num_running_reqs 3\nsglang:num_queue_reqs 2\n")),
            ],
        ),
        (
            Dialect::Trtllm,
            &[
                ("/v1/models", openai("tensorrt_llm")),
                (
                    "/prometheus/metrics",
                    page("trtllm_num_requests_running 3\ntrtllm_num_requests_waiting 2\n"),
                ),
            ],
        ),
        (
            Dialect::Triton,
            &[
                ("/v2", page(r#"{"name":"triton","version":"2.60.0"}"#)),
                ("/v2/repository/index", page(r#"[{"name":"tide-7b","version":"1","state":"READY"}]"#)),
                (
                    "/elsewhere/metrics",
                    page(
                        "nv_trt_llm_request_metrics{request_type=\"scheduled\"} 3\n\
                         nv_trt_llm_request_metrics{request_type=\"waiting\"} 2\n",
                    ),
                ),
            ],
        ),
        (
            Dialect::Tgi,
            &[
                ("/v1/models", openai("tide-maker")),
                ("/metrics", page("tgi_batch_current_size 3\ntgi_queue_size 2\n")),
            ],
        ),
        (
            Dialect::Llamacpp,
            &[
                ("/v1/models", openai("llamacpp")),
                ("/metrics", page("llamacpp:requests_processing 3\nllamacpp:requests_deferred 2\n")),
            ],
        ),
        (
            Dialect::Lmdeploy,
            &[
                ("/v1/models", openai("lmdeploy")),
                ("/metrics", page("lmdeploy:num_requests_running 3\nlmdeploy:num_requests_waiting 2\n")),
            ],
        ),
    ];
    for (dialect, answers) in cases {
        let stub = Stub::start(answers);
        let (fleet, _owner, heard) = fleet();
        let mut target = ScrapeTarget { model: Some("tide-7b".to_owned()), ..open(1, &stub.url()) };
        if dialect == Dialect::Triton {
            target.metrics_url = Some(format!("{}/elsewhere/metrics", stub.url()));
        }
        fleet.set_scrape_targets(vec![target]);
        let mut rounds = 0;
        let told = heard.until(|told| {
            rounds += usize::from(matches!(told, Told::Signals(..)));
            rounds == 5
        });
        let Some(Told::Signals(_, Signals { running, waiting, .. })) = told.last() else { unreachable!() };
        assert_eq!((*running, *waiting), (Some(3), Some(2)), "{dialect}");
        let events = events(&told);
        assert_eq!(events[0], &Told::Detected(1, dialect));
        assert_eq!(events[1], &Told::Identity(1, None), "{dialect}: who it is comes first");
        assert!(matches!(events[2], Told::Models(1, models) if models[0].id == "tide-7b"), "{dialect}");
        assert_eq!(events.len(), 3 + 5, "{dialect}: everything else is told once: {events:?}");
    }
}

#[test]
fn engines_that_tell_no_load_are_found_out_and_their_models_read() {
    let loaded = r#"{"models":[{"name":"tide:latest","size_vram":5}]}"#;
    for (dialect, answers, model) in [
        (
            Dialect::Ollama,
            [("/", "Ollama is running".into()), ("/api/ps", Answer::from(loaded))],
            "tide:latest",
        ),
        (
            Dialect::Openai,
            [("/v1/models", list("a-maker", &["tide-7b"]).into()), ("/health", "".into())],
            "tide-7b",
        ),
    ] {
        let stub = Stub::start(&answers);
        let (fleet, owner, heard) = fleet();
        owner.set_in_flight(1, 3);
        let slow_interval = Duration::from_millis(50);
        fleet.set_scrape_targets(vec![ScrapeTarget { slow_interval, ..open(1, &stub.url()) }]);
        let mut times = 0;
        let told = heard.until(|told| {
            times += usize::from(matches!(told, Told::Models(..)));
            times == 3
        });
        let events = events(&told);
        assert_eq!(events[0], &Told::Detected(1, dialect));
        assert!(matches!(events[1], Told::Models(1, models) if models[0].id == model));
        assert_eq!(events.len(), 4, "{events:?}");
    }
}

#[test]
fn what_answers_nothing_known_is_found_out_when_it_does() {
    let stub = Stub::start(&[("/", "<html>It works!</html>".into())]);
    let (fleet, _owner, heard) = fleet();
    fleet.set_scrape_targets(vec![open(1, &stub.url())]);
    heard.until(|told| *told == Told::Failed(1, "unknown"));
    stub.set("/metrics", vllm(1, 5));
    let told = heard.until(|told| matches!(told, Told::Signals(..)));
    assert!(told.contains(&Told::Detected(1, Dialect::Vllm)));
}

#[test]
fn another_engine_at_the_same_address_is_found_out() {
    let stub = Stub::start(&[("/metrics", vllm(1, 5).into())]);
    let (fleet, _owner, heard) = fleet();
    fleet.set_scrape_targets(vec![open(1, &stub.url())]);
    heard.signals(1);
    stub.become_other(&[("/metrics", "sglang:num_running_reqs 4\n".into())]);
    let told = heard.until(|told| matches!(told, Told::Signals(_, s) if s.running == Some(4)));
    let restarted = position(&told, |told| *told == Told::Restarted(1));
    let detected = position(&told, |told| *told == Told::Detected(1, Dialect::Sglang));
    assert!(restarted < detected, "{told:?}");
}

#[test]
fn an_engine_that_began_anew_is_told_once_before_what_it_says() {
    for dialect in [Some(Dialect::Vllm), None] {
        let stub = Stub::start(&[("/metrics", vllm(1, 9_000_000).into())]);
        stub.set("/v1/models", list("vllm", &["tide-7b"]));
        let (fleet, _owner, heard) = fleet();
        fleet.set_scrape_targets(vec![ScrapeTarget { dialect, ..open(1, &stub.url()) }]);
        heard.signals(1);
        heard.signals(1);
        stub.set("/metrics", vllm(2, 3));
        let mut rounds = 0;
        let told = heard.until(|told| {
            rounds += usize::from(matches!(told, Told::Signals(_, s) if s.running == Some(2)));
            rounds == 5
        });
        let restarted = position(&told, |told| *told == Told::Restarted(1));
        let models = position(&told, |told| matches!(told, Told::Models(..)));
        let signals = position(&told, |told| matches!(told, Told::Signals(_, s) if s.running == Some(2)));
        assert!(restarted < models && models < signals, "{:?}", events(&told));
        assert_eq!(told.iter().filter(|told| **told == Told::Restarted(1)).count(), 1);
    }
}

#[test]
fn other_settings_do_not_hide_a_restart() {
    let stub = Stub::start(&[("/metrics", vllm(1, 9_000_000).into())]);
    let (fleet, _owner, heard) = fleet();
    fleet.set_scrape_targets(vec![quick(1, &stub.url(), Dialect::Vllm)]);
    heard.signals(1);
    heard.signals(1);
    fleet.set_scrape_targets(Vec::new());
    fleet.set_scrape_targets(vec![quick(1, &stub.url(), Dialect::Vllm)]);
    heard.signals(1);
    let faster =
        ScrapeTarget { interval_max: Duration::from_millis(20), ..quick(1, &stub.url(), Dialect::Vllm) };
    stub.set("/metrics", vllm(1, 3));
    fleet.set_scrape_targets(vec![faster]);
    heard.until(|told| *told == Told::Restarted(1));
}

#[test]
fn another_model_under_the_same_address_is_a_mismatch_until_the_right_one_is_back() {
    let page = |model: &str, tokens: u32| Answer::Page(vllm(1, tokens).replace("tide-7b", model));
    let models = |names: &[&str]| Answer::Page(list("vllm", names));
    for dialect in [Some(Dialect::Vllm), None] {
        let stub =
            Stub::start(&[("/metrics", page("tide-7b", 500)), ("/v1/models", models(&["tide-7b", "x"]))]);
        let (fleet, _owner, heard) = fleet();
        let model = Some("tide-7b".to_owned());
        fleet.set_scrape_targets(vec![ScrapeTarget { dialect, model, ..open(1, &stub.url()) }]);
        let told = heard.until(|told| matches!(told, Told::Signals(..)));
        position(&told, |told| *told == Told::Identity(1, None));

        // Nothing but the labels of its metrics shows it at first.
        stub.become_other(&[("/v1/models", models(&["reef-13b"])), ("/metrics", page("reef-13b", 600))]);
        let told = heard.until(|told| matches!(told, Told::Signals(_, s) if s.models == ["reef-13b"]));
        let restarted = position(&told, |told| *told == Told::Restarted(1));
        let mismatch = position(&told, |told| *told == Told::Identity(1, Some("reef-13b".to_owned())));
        assert!(restarted < mismatch, "{:?}", events(&told));
        assert_eq!(told.iter().filter(|told| **told == Told::Restarted(1)).count(), 1);

        stub.become_other(&[("/v1/models", models(&["tide-7b"])), ("/metrics", page("tide-7b", 700))]);
        let told = heard.until(|told| *told == Told::Identity(1, None));
        position(&told, |told| *told == Told::Restarted(1));
    }
}

#[test]
fn another_list_of_models_is_another_engine_and_adapters_are_not() {
    let stub = Stub::start(&[("/metrics", vllm(1, 5).into())]);
    let models = |names: &[&str]| stub.set("/v1/models", list("vllm", names));
    models(&["tide-7b", "sql-tuned<tide-7b"]);
    let (fleet, _owner, heard) = fleet();
    let model = Some("tide-7b".to_owned());
    let slow_interval = Duration::from_millis(50);
    fleet.set_scrape_targets(vec![ScrapeTarget {
        model,
        slow_interval,
        ..quick(1, &stub.url(), Dialect::Vllm)
    }]);
    let listed = |wanted: &'static [&'static str]| {
        heard.until(|told| {
            assert_ne!(*told, Told::Restarted(1), "adapters come and go");
            matches!(told, Told::Models(_, m) if m.iter().map(|m| &*m.id).eq(wanted.iter().copied()))
        })
    };
    listed(&["tide-7b", "sql-tuned"]);
    models(&["tide-7b"]);
    listed(&["tide-7b"]);
    models(&["tide-7b", "fr<tide-7b"]);
    listed(&["tide-7b", "fr"]);
    models(&["reef-13b"]);
    let told = heard.until(|told| matches!(told, Told::Identity(..)));
    position(&told, |told| *told == Told::Restarted(1));
    assert_eq!(told.last(), Some(&Told::Identity(1, Some("reef-13b".to_owned()))));
}

#[test]
fn an_endpoint_whose_models_are_behind_a_key_is_known_by_its_labels() {
    let stub = Stub::start(&[("/metrics", vllm(1, 5).into()), ("/v1/models", Answer::Status(401))]);
    let (fleet, _owner, heard) = fleet();
    let model = Some("tide-7b".to_owned());
    fleet.set_scrape_targets(vec![ScrapeTarget { model, ..quick(1, &stub.url(), Dialect::Vllm) }]);
    heard.until(|told| *told == Told::Identity(1, None));
    stub.set("/metrics", vllm(1, 6).replace("tide-7b", "reef-13b"));
    heard.until(|told| *told == Told::Identity(1, Some("reef-13b".to_owned())));
}

#[test]
fn sglangs_loads_count_and_its_metrics_add_the_rest() {
    let stub = Stub::start(&[
        ("/v1/loads", LOADS.into()),
        ("/metrics", "sglang:num_running_reqs 9\nsglang:page_size 64\nsglang:num_pages 100\n".into()),
    ]);
    let (fleet, _owner, heard) = fleet();
    fleet.set_scrape_targets(vec![quick(1, &stub.url(), Dialect::Sglang)]);
    let mut rounds = 0;
    let told = heard.until(|told| {
        rounds += usize::from(matches!(told, Told::Signals(..)));
        rounds == 20
    });
    let Some(Told::Signals(_, signals)) = told.last() else { unreachable!("it ends so") };
    assert_eq!((signals.running, signals.waiting, signals.waiting_tokens), (Some(3), Some(2), Some(700)));
    assert_eq!((signals.kv_block_size, signals.kv_blocks), (Some(64), Some(100)));
    assert_eq!(signals.kv_tokens, Some(262_144), "as the feed says");
    assert_eq!(signals.accelerator.as_deref(), Some("H100"));
    let pages =
        |kind| told.iter().filter(|told| matches!(told, Told::Scraped(_, k, ..) if *k == kind)).count();
    assert!(pages(PageKind::Metrics) < pages(PageKind::Loads), "the long page is read less often");
}

#[test]
fn a_metrics_page_that_hangs_does_not_hold_up_the_load_feed() {
    let stub = Stub::start(&[("/v1/loads", LOADS.into()), ("/metrics", Answer::Hang)]);
    let (fleet, _owner, heard) = fleet();
    // Longer than this test may take.
    let timeout = Duration::from_secs(3600);
    fleet.set_scrape_targets(vec![ScrapeTarget { timeout, ..quick(1, &stub.url(), Dialect::Sglang) }]);
    while stub.asked("/metrics").is_empty() {
        heard.signals(1);
    }
    (0..20).for_each(|_| assert_eq!(heard.signals(1).running, Some(3)));
    assert_eq!(stub.asked("/metrics").len(), 1);
}

#[test]
fn signals_of_a_metrics_page_beside_a_load_feed_are_unknown_when_it_fails() {
    let page = "sglang:num_pages 100\nqueue_depth 7\n";
    let stub = Stub::start(&[("/v1/loads", LOADS.into()), ("/metrics", Answer::Status(500))]);
    let (fleet, _owner, heard) = fleet();
    let metric = "queue_depth".to_owned();
    let custom = vec![CustomSignal { metric, labels: Vec::new(), combine: Combine::Sum }];
    fleet.set_scrape_targets(vec![ScrapeTarget { custom, ..quick(1, &stub.url(), Dialect::Sglang) }]);
    let first = |s: &Signals| (s.custom[0], s.custom_missing[0]);
    let until = |expected| {
        heard.until(
            |told| matches!(told, Told::Signals(_, s) if first(s) == expected && s.running == Some(3)),
        );
    };
    // It never was there.
    until((None, true));
    stub.set("/metrics", page);
    until((Some(7.0), false));
    // What it said is not true for ever.
    stub.set("/metrics", Answer::Status(500));
    until((None, true));
    stub.set("/metrics", page);
    until((Some(7.0), false));
}

#[test]
fn either_of_sglangs_pages_is_enough() {
    for (path, page) in [("/v1/loads", LOADS), ("/metrics", "sglang:num_running_reqs 3\n")] {
        let stub = Stub::start(&[(path, page.into()), ("/v1/models", list("sglang", &["m"]).into())]);
        let (fleet, _owner, heard) = fleet();
        fleet.set_scrape_targets(vec![open(1, &stub.url())]);
        assert_eq!(heard.signals(1).running, Some(3), "{path}");
        assert_eq!(heard.signals(1).running, Some(3), "{path}");
    }
    // The feed is in trouble: what the page says counts, and it is asked again.
    let stub = Stub::start(&[
        ("/v1/loads", Answer::Status(503)),
        ("/metrics", "sglang:num_running_reqs 4\n".into()),
    ]);
    let (fleet, _owner, heard) = fleet();
    fleet.set_scrape_targets(vec![quick(1, &stub.url(), Dialect::Sglang)]);
    assert_eq!(heard.signals(1).running, Some(4));
    stub.set("/v1/loads", LOADS);
    heard.until(|told| matches!(told, Told::Signals(_, s) if s.running == Some(3)));
}

#[test]
fn the_gpus_of_an_endpoint_are_read_from_the_nodes_exporter() {
    let exporter = Stub::start(&[]);
    let gpus = "DCGM_FI_DEV_GPU_TEMP{gpu=\"0\",UUID=\"GPU-a\"} 50\nDCGM_FI_DEV_GPU_TEMP{gpu=\"1\",UUID=\"GPU-b\"} 71\n";
    exporter.set("/metrics", gpus);
    let engine = Stub::start(&[("/metrics", vllm(1, 5).into()), ("/api/ps", r#"{"models":[]}"#.into())]);
    let (fleet, _owner, heard) = fleet();
    let target = |id, dialect, gpus: &[&str]| ScrapeTarget {
        dcgm_url: Some(format!("{}/metrics", exporter.url())),
        gpus: gpus.iter().map(|&gpu| gpu.to_owned()).collect(),
        slow_interval: Duration::from_millis(50),
        ..quick(id, &engine.url(), dialect)
    };
    fleet.set_scrape_targets(vec![
        target(1, Dialect::Vllm, &["0"]),
        target(2, Dialect::Vllm, &[]),
        target(3, Dialect::Ollama, &["GPU-b"]),
    ]);
    for (id, hottest, running) in [(1, 50.0, Some(1)), (2, 71.0, Some(1)), (3, 71.0, None)] {
        let told = heard.until(
            |told| matches!(told, Told::Signals(of, s) if *of == id && s.gpu.temperature_c == Some(hottest)),
        );
        let Some(Told::Signals(_, signals)) = told.last() else { unreachable!("it ends so") };
        assert_eq!(signals.running, running);
    }
    // Figures that come no more are not kept for ever, and the load goes on.
    exporter.set("/metrics", Answer::Status(500));
    heard.until(|told| matches!(told, Told::Signals(1, s) if s.gpu.temperature_c.is_none()));
}

#[test]
fn an_exporter_that_hangs_does_not_hold_up_the_load() {
    let exporter = Stub::start(&[("/metrics", Answer::Hang)]);
    let engine = Stub::start(&[("/metrics", vllm(1, 5).into())]);
    let (fleet, _owner, heard) = fleet();
    let target = ScrapeTarget {
        dcgm_url: Some(format!("{}/metrics", exporter.url())),
        // Longer than this test may take.
        timeout: Duration::from_secs(3600),
        ..quick(1, &engine.url(), Dialect::Vllm)
    };
    fleet.set_scrape_targets(vec![target]);
    while exporter.asked("/metrics").is_empty() {
        heard.signals(1);
    }
    (0..20).for_each(|_| drop(heard.signals(1)));
}

#[test]
fn metrics_of_another_server_that_is_gone_do_not_hide_the_models() {
    let metrics = Stub::start(&[("/metrics", vllm(1, 5).into())]);
    let engine = Stub::start(&[("/v1/models", list("vllm", &["tide-7b"]).into())]);
    let (fleet, _owner, heard) = fleet();
    let target = ScrapeTarget {
        metrics_url: Some(format!("{}/metrics", metrics.url())),
        slow_interval: Duration::from_millis(50),
        ..quick(1, &engine.url(), Dialect::Vllm)
    };
    fleet.set_scrape_targets(vec![target]);
    heard.signals(1);
    drop(metrics);
    heard.until(|told| matches!(told, Told::Failed(1, "connect" | "broken")));
    let mut times = 0;
    heard.until(|told| {
        times += usize::from(matches!(told, Told::Models(..)));
        times == 3
    });
}

#[test]
fn an_engine_without_a_load_that_was_away_is_found_again() {
    let stub = Stub::start(&[("/v1/models", list("a-maker", &["tide-7b"]).into())]);
    let (fleet, _owner, heard) = fleet();
    let slow_interval = Duration::from_millis(50);
    fleet.set_scrape_targets(vec![ScrapeTarget { slow_interval, ..open(1, &stub.url()) }]);
    heard.until(|told| matches!(told, Told::Models(..)));
    stub.become_other(&[]);
    heard.until(|told| *told == Told::Failed(1, "unknown"));
    stub.set("/v1/models", list("a-maker", &["tide-7b"]));
    let told = heard.until(|told| matches!(told, Told::Models(..)));
    assert!(
        !told.iter().any(|told| matches!(told, Told::Detected(..) | Told::Restarted(..))),
        "it is the same one"
    );
}
