//! Pages of the other engines.

use forebay_wire::signals::{
    Adapters, Combine, Counters, CustomSignal,
    Dialect::{self, Llamacpp, Lmdeploy, Sglang, Tgi, Triton, Trtllm, Vllm},
    Gpu, Reader, Signals, detect, read_dcgm, read_loads,
};

use crate::{read, read_model};

fn one_model() -> Vec<String> {
    vec!["tide-7b".to_owned()]
}

#[test]
fn sglang() {
    let expected = Signals {
        running: Some(20),
        waiting: Some(3),
        kv_usage: Some(0.5),
        kv_block_size: Some(64),
        kv_blocks: Some(4096),
        kv_tokens: Some(262_144),
        running_tokens: Some(98_304),
        generation_throughput: Some(1500.5),
        put_back: Some(1),
        counters: Counters {
            prompt_tokens: Some(10_000.0),
            generation_tokens: Some(3000.0),
            prefix_queries: Some(10_000.0),
            prefix_hits: Some(6000.0),
            preemptions: Some(48.0),
            requests: Some(100.0),
            rejections: None,
        },
        adapters: Some(Adapters { loaded: vec![], max: Some(8) }),
        models: one_model(),
        ..Signals::default()
    };
    let page = include_str!("sglang_tp_dp.prom");
    assert_eq!(read(Sglang, page), expected);
    assert_eq!(read_model(Sglang, "tide-7b", page), expected);
    assert_eq!(detect(page.as_bytes()), Some(Sglang));
}

#[test]
fn sglang_ranks_without_the_first() {
    // Under data-parallel attention every rank has a tensor-parallel rank of
    // its own: the lowest of each counts, not only rank 0.
    let page = "sglang:num_running_reqs{dp_rank=\"0\",tp_rank=\"0\"} 3\nsglang:num_running_reqs{dp_rank=\"1\",tp_rank=\"1\"} 4\n";
    assert_eq!(read(Sglang, page).running, Some(7));
    let pipeline = "sglang:num_running_reqs{pp_rank=\"1\",tp_rank=\"0\"} 3\nsglang:num_running_reqs{pp_rank=\"0\",tp_rank=\"1\"} 4\n";
    assert_eq!(read(Sglang, pipeline).running, Some(4));
}

#[test]
fn sglang_capacity_in_labels() {
    let old = read(Sglang, include_str!("sglang_old.prom"));
    assert_eq!((old.running, old.waiting, old.kv_usage), (Some(2), Some(0), Some(0.02)));
    assert_eq!((old.kv_block_size, old.kv_blocks), (Some(64), Some(11_147)));
    assert_eq!(old.kv_tokens, Some(64 * 11_147));
    let tokens = read(Sglang, "sglang:page_size 64\nsglang:max_total_num_tokens 6400\n");
    assert_eq!(tokens.kv_blocks, Some(100));
}

#[test]
fn sglang_counts_what_it_puts_back_or_tells_it_as_a_gauge() {
    // A gauge falls while the engine lives: it is no counter, or every fall would be a restart.
    let read = |page: &str| {
        let signals = read(Sglang, page);
        (signals.put_back, signals.counters.preemptions)
    };
    assert_eq!(read("sglang:num_retracted_reqs{tp_rank=\"0\"} 3\n"), (Some(3), None));
    assert_eq!(read("sglang:num_retracted_requests_total 48\n"), (None, Some(48.0)));
    assert_eq!(read("sglang:num_retracted_reqs_total 48\n"), (None, Some(48.0)));
    let both = "sglang:num_retracted_reqs 3\nsglang:num_retracted_requests_total 48\nsglang:num_retracted_reqs_total 48\n";
    assert_eq!(read(both), (Some(3), Some(48.0)));
}

#[test]
fn sglang_loads() {
    let expected = Signals {
        running: Some(21),
        waiting: Some(3),
        kv_usage: Some(0.37),
        kv_tokens: Some(262_144),
        waiting_tokens: Some(5120),
        running_tokens: Some(78_000),
        generation_throughput: Some(3270.5),
        max_running: Some(512),
        accelerator: Some("NVIDIA H100 80GB HBM3".to_owned()),
        adapters: Some(Adapters { loaded: vec![], max: Some(8) }),
        ..Signals::default()
    };
    assert_eq!(read_loads(include_bytes!("sglang_loads.json")), Ok(expected));
    let odd = br#"{"loads":[{"num_running_reqs":-1,"num_waiting_reqs":"3","token_usage":null,"gen_throughput":1e300},{"num_running_reqs":2}]}"#;
    assert_eq!(read_loads(odd), Ok(Signals { skipped: 3, ..Signals::default() }));
    assert_eq!(read_loads(br#"{"loads":[]}"#), Ok(Signals::default()));
    assert_eq!(read_loads(br#"{"loads":[1,null,"x"]}"#), Ok(Signals::default()));
    for body in ["", "<html>", "[]", "[[]]", "{}", r#"{"loads":{}}"#, r#"{"detail":"Not Found"}"#] {
        let error = read_loads(body.as_bytes()).unwrap_err().to_string();
        assert!(error.starts_with("/v1/loads: "), "{error}");
    }
}

#[test]
fn trtllm() {
    let expected = Signals {
        running: Some(5),
        waiting: Some(2),
        kv_usage: Some(0.125),
        kv_block_size: Some(32),
        kv_blocks: Some(8192),
        kv_tokens: Some(262_144),
        max_running: Some(64),
        counters: Counters {
            prompt_tokens: Some(4096.0),
            generation_tokens: Some(512.0),
            prefix_queries: Some(4096.0),
            prefix_hits: Some(1024.0),
            requests: Some(34.0),
            ..Counters::default()
        },
        models: one_model(),
        ..Signals::default()
    };
    let page = include_str!("trtllm.prom");
    assert_eq!(read(Trtllm, page), expected);
    assert_eq!(detect(page.as_bytes()), Some(Trtllm));
    // As Dynamo passes it on, and with both one does not count twice.
    let dynamos = page.replace("trtllm_", "trtllm:");
    assert_eq!(read(Trtllm, &dynamos), read(Trtllm, page));
    assert_eq!(read(Trtllm, format!("{dynamos}{page}")), read(Trtllm, page));
    assert_eq!(detect(dynamos.as_bytes()), Some(Trtllm));
}

#[test]
fn triton_with_trtllm() {
    // The backend's series carry the backend's model, whatever was asked for.
    let page = include_str!("triton_trtllm.prom");
    let signals = read_model(Triton, "ensemble", page);
    let expected = Signals {
        running: Some(6),
        waiting: Some(4),
        kv_usage: Some(0.4875),
        kv_block_size: Some(64),
        kv_blocks: Some(6240),
        kv_tokens: Some(399_360),
        max_running: Some(512),
        counters: Counters { requests: Some(40.0), rejections: Some(3.0), ..Counters::default() },
        gpu: Gpu { utilization: Some(0.75), power_w: Some(700.5), ..Gpu::default() },
        models: ["ensemble", "preprocessing", "tensorrt_llm"].map(str::to_owned).to_vec(),
        ..Signals::default()
    };
    assert_eq!(signals, expected);
    assert_eq!(detect(page.as_bytes()), Some(Triton));
}

#[test]
fn triton() {
    let page = include_str!("triton.prom");
    let embed = read_model(Triton, "embed", page);
    assert_eq!((embed.running, embed.waiting, embed.counters.requests), (None, Some(3), Some(25.0)));
    let all = read(Triton, page);
    assert_eq!((all.waiting, all.counters.requests), (Some(11), Some(125.0)));
    assert_eq!(read_model(Triton, "other", page), all);
}

#[test]
fn tgi() {
    let page = include_str!("tgi.prom");
    let expected = Signals {
        running: Some(7),
        waiting: Some(3),
        running_tokens: Some(9000),
        counters: Counters {
            prompt_tokens: Some(4000.0),
            generation_tokens: Some(1500.0),
            requests: Some(20.0),
            ..Counters::default()
        },
        ..Signals::default()
    };
    assert_eq!(read(Tgi, page), expected);
    assert_eq!(detect(page.as_bytes()), Some(Tgi));
}

#[test]
fn llamacpp() {
    let page = include_str!("llamacpp.prom");
    let expected = Signals {
        running: Some(2),
        waiting: Some(1),
        generation_throughput: Some(41.5),
        counters: Counters {
            prompt_tokens: Some(1200.0),
            generation_tokens: Some(340.0),
            ..Counters::default()
        },
        ..Signals::default()
    };
    assert_eq!(read(Llamacpp, page), expected);
    assert_eq!(read(Llamacpp, "llamacpp:kv_cache_usage_ratio 0.25").kv_usage, Some(0.25));
    assert_eq!(detect(page.as_bytes()), Some(Llamacpp));
}

#[test]
fn lmdeploy() {
    let page = include_str!("lmdeploy.prom");
    let expected = Signals {
        running: Some(5),
        // In the engine and before it.
        waiting: Some(5),
        kv_usage: Some(0.75),
        counters: Counters {
            prompt_tokens: Some(150.0),
            generation_tokens: Some(50.0),
            ..Counters::default()
        },
        models: one_model(),
        ..Signals::default()
    };
    assert_eq!(read(Lmdeploy, page), expected);
    assert_eq!(detect(page.as_bytes()), Some(Lmdeploy));
}

#[test]
fn engines_without_metrics() {
    for dialect in [Dialect::Ollama, Dialect::Openai] {
        let signals = read(dialect, include_str!("vllm_fresh.prom"));
        assert_eq!(signals, Signals { process_start: signals.process_start, ..Signals::default() });
        assert_eq!(dialect.metrics_path(), None);
    }
    assert_eq!(detect(b""), None);
    assert_eq!(detect(b"# HELP vllm:num_requests_running x\nprocess_start_time_seconds 1.7e9\n"), None);
    for dialect in Dialect::ALL {
        assert_eq!(Dialect::from_name(dialect.as_str()), Some(dialect));
    }
    assert_eq!(Dialect::from_name("auto"), None);
}

#[test]
fn dcgm() {
    let page = include_bytes!("dcgm.prom");
    let all = Gpu {
        utilization: Some(0.75),
        temperature_c: Some(87.0),
        throttle: Some(37),
        power_w: Some(1112.0),
        sm_clock_mhz: Some(1410.0),
    };
    assert_eq!(read_dcgm(page, None), all);
    assert_eq!(all.throttled(), Some(true));
    let first = Gpu {
        utilization: Some(0.5),
        temperature_c: Some(61.0),
        throttle: Some(1),
        power_w: Some(412.5),
        sm_clock_mhz: Some(1980.0),
    };
    for id in ["0", "GPU-a", "nvidia0", "chat-0"] {
        assert_eq!(read_dcgm(page, Some(&[id])), first, "{id}");
    }
    assert_eq!(first.throttled(), Some(false));
    assert_eq!(read_dcgm(page, Some(&["0", "GPU-b"])), all);
    assert_eq!(read_dcgm(page, Some(&["7"])), Gpu::default());
    assert_eq!(Gpu::default().throttled(), None);
    // The older name, and what DCGM writes for unknown.
    let odd = b"DCGM_FI_DEV_CLOCK_THROTTLE_REASONS{gpu=\"0\"} 8\nDCGM_FI_DEV_GPU_TEMP{gpu=\"0\"} 2147483632\nDCGM_FI_DEV_GPU_UTIL{gpu=\"0\"} 101\nDCGM_FI_DEV_POWER_USAGE{gpu=\"0\"} x\n";
    assert_eq!(read_dcgm(odd, None), Gpu { throttle: Some(8), ..Gpu::default() });
    assert_eq!(read_dcgm(b"DCGM_FI_DEV_CLOCKS_EVENT_REASONS 2147483632\n", None).throttle, None);
}

fn custom(metric: &str, labels: &[(&str, &str)], combine: Combine) -> CustomSignal {
    let labels = labels.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
    CustomSignal { metric: metric.to_owned(), labels, combine }
}

#[test]
fn signals_of_the_users_own() {
    let page = "my_queue{kind=\"fast\",model=\"a\"} 3\nmy_queue{kind=\"slow\",model=\"a\"} 5\nmy_queue{kind=\"slow\",model=\"b\"} 70\nq 2\ncold -4.5\nbroken NaN\nvllm:num_requests_running{model_name=\"a\"} 1\nvllm:num_requests_running{model_name=\"b\"} 2\n";
    let signals = [
        custom("my_queue", &[], Combine::Sum),
        custom("my_queue", &[("kind", "slow")], Combine::Max),
        custom("my_queue", &[("kind", "slow")], Combine::Mean),
        custom("q", &[("kind", "")], Combine::Sum),
        custom("cold", &[], Combine::Max),
        custom("broken", &[], Combine::Sum),
        custom("absent", &[], Combine::Sum),
        // One that the engine's own table reads as well.
        custom("vllm:num_requests_running", &[("model_name", "b")], Combine::Sum),
        custom("q", &[], Combine::Sum),
    ];
    let all = Reader::new(Vllm, None, &signals).read(page.as_bytes());
    assert_eq!(
        all.custom,
        [Some(78.0), Some(70.0), Some(37.5), Some(2.0), Some(-4.5), None, None, Some(2.0)]
    );
    assert_eq!((all.running, all.skipped), (Some(3), 1));
    let own = Reader::new(Vllm, Some("a"), &signals).read(page.as_bytes());
    assert_eq!(own.custom[..4], [Some(8.0), Some(5.0), Some(5.0), Some(2.0)]);
    assert_eq!(own.running, Some(1));
    // Any engine, or none.
    let generic = Reader::new(Dialect::Openai, None, &signals[..1]).read(page.as_bytes());
    assert_eq!(generic.custom[0], Some(78.0));
}
