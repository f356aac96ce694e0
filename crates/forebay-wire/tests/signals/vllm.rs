//! Pages recorded from a real vLLM.

use forebay_wire::signals::{
    Adapters, Counters,
    Dialect::Vllm,
    Signals, detect,
    rates::{delta, delta_known, restarted},
};

use crate::read;

macro_rules! page {
    ($name:literal) => {
        &include_bytes!(concat!($name, ".prom"))[..]
    };
}

/// What all pages of this server have in common.
fn idle(blocks: u32, process_start: f64) -> Signals {
    Signals {
        running: Some(0),
        waiting: Some(0),
        kv_usage: Some(0.0),
        kv_block_size: Some(32),
        kv_blocks: Some(blocks),
        kv_tokens: Some(32 * u64::from(blocks)),
        asleep: Some(false),
        counters: counters([0.0; 7]),
        process_start: Some(process_start),
        models: vec!["tiny".to_owned()],
        ..Signals::default()
    }
}

fn counters([prompt, generation, queries, hits, preemptions, requests, rejections]: [f64; 7]) -> Counters {
    Counters {
        prompt_tokens: Some(prompt),
        generation_tokens: Some(generation),
        prefix_queries: Some(queries),
        prefix_hits: Some(hits),
        preemptions: Some(preemptions),
        requests: Some(requests),
        rejections: Some(rejections),
    }
}

fn adapters(loaded: &[&str]) -> Option<Adapters> {
    Some(Adapters { loaded: loaded.iter().map(|name| (*name).to_owned()).collect(), max: Some(2) })
}

#[test]
fn fresh() {
    assert_eq!(read(Vllm, page!("vllm_fresh")), idle(65536, 1_795_969_741.03));
}

#[test]
fn loaded() {
    let expected = Signals {
        running: Some(8),
        waiting: Some(6),
        kv_usage: Some(0.000_991_836_4),
        counters: counters([3736.0, 1657.0, 3734.0, 576.0, 0.0, 50.0, 0.0]),
        // Four series; the youngest is the last.
        adapters: adapters(&["lora1", "lora2"]),
        ..idle(65536, 1_795_970_037.74)
    };
    assert_eq!(read(Vllm, page!("vllm_loaded")), expected);
}

#[test]
fn kv_nearly_full() {
    let expected = Signals {
        running: Some(7),
        waiting: Some(6),
        kv_usage: Some(1.0),
        counters: counters([2341.0, 497.0, 2341.0, 192.0, 0.0, 13.0, 0.0]),
        adapters: adapters(&["lora1"]),
        ..idle(64, 1_795_970_188.13)
    };
    assert_eq!(read(Vllm, page!("vllm_kv_nearly_full")), expected);
}

#[test]
fn after_preemptions() {
    let expected = Signals {
        counters: counters([3179.0, 6060.0, 3179.0, 192.0, 17.0, 26.0, 0.0]),
        adapters: adapters(&[]),
        ..idle(64, 1_795_970_188.13)
    };
    let read = read(Vllm, page!("vllm_preempting"));
    assert_eq!(read, expected);
    // The same process as on the page before.
    let before = crate::read(Vllm, page!("vllm_kv_nearly_full"));
    assert!(!restarted(&before, &read));
    assert!(restarted(&read, &before));
    let made = delta_known(before.counters.generation_tokens, read.counters.generation_tokens);
    assert_eq!(made, Some(5563.0));
}

#[test]
fn queue_full() {
    let expected = Signals {
        running: Some(6),
        waiting: Some(4),
        kv_usage: Some(0.952_380_95),
        counters: counters([1648.0, 639.0, 1648.0, 0.0, 0.0, 0.0, 9.0]),
        adapters: adapters(&[]),
        ..idle(64, 1_795_970_461.3)
    };
    assert_eq!(read(Vllm, page!("vllm_queue_full")), expected);
}

#[test]
fn paused_looks_idle() {
    let expected = Signals {
        counters: counters([1853.0, 3403.0, 1853.0, 0.0, 0.0, 57.0, 0.0]),
        adapters: adapters(&[]),
        ..idle(65536, 1_795_970_588.88)
    };
    assert_eq!(read(Vllm, page!("vllm_paused")), expected);
}

#[test]
fn two_ranks() {
    let expected = Signals {
        running: Some(14),
        waiting: Some(0),
        kv_usage: Some(0.888_888_9),
        counters: counters([3303.0, 672.0, 3303.0, 0.0, 0.0, 2.0, 0.0]),
        adapters: adapters(&[]),
        // Two ranks of 64: each states the sum.
        ..idle(128, 1_795_971_146.88)
    };
    assert_eq!(read(Vllm, page!("vllm_two_ranks")), expected);
}

#[test]
fn three_adapters_in_two_slots() {
    let expected = Signals {
        running: Some(4),
        waiting: Some(2),
        kv_usage: Some(0.000_488_288_7),
        counters: counters([1441.0, 1688.0, 1441.0, 0.0, 0.0, 51.0, 0.0]),
        adapters: adapters(&["lora1", "lora2"]),
        ..idle(65536, 1_795_970_588.88)
    };
    assert_eq!(read(Vllm, page!("vllm_three_adapters")), expected);
}

#[test]
fn every_page_names_its_engine() {
    for page in [page!("vllm_fresh"), page!("vllm_loaded"), page!("vllm_two_ranks")] {
        assert_eq!(detect(page), Some(Vllm));
    }
}

#[test]
fn sleep() {
    let page = |awake, offloaded, discarded| {
        read(
            Vllm,
            format!(
                "vllm:engine_sleep_state{{sleep_state=\"awake\"}} {awake}\nvllm:engine_sleep_state{{sleep_state=\"weights_offloaded\"}} {offloaded}\nvllm:engine_sleep_state{{sleep_state=\"discard_all\"}} {discarded}\n"
            ),
        )
        .asleep
    };
    assert_eq!(page(1, 0, 0), Some(false));
    assert_eq!(page(0, 1, 0), Some(true));
    assert_eq!(page(0, 0, 1), Some(true));
    assert_eq!(read(Vllm, "vllm:engine_sleep_state{sleep_state=\"awake\"} 0").asleep, Some(true));
    assert_eq!(read(Vllm, "vllm:engine_sleep_state{sleep_state=\"awake\"} NaN").asleep, None);
    assert_eq!(read(Vllm, "").asleep, None);
}

#[test]
fn blocks_that_are_not_known_yet() {
    let early =
        read(Vllm, "vllm:cache_config_info{block_size=\"16\",engine=\"0\",num_gpu_blocks=\"None\"} 1.0\n");
    assert_eq!((early.kv_block_size, early.kv_blocks, early.kv_tokens), (Some(16), None, None));
    assert_eq!(early.skipped, 0);
    let odd = read(Vllm, "vllm:cache_config_info{block_size=\"big\",num_gpu_blocks=\"0\"} 1.0\n");
    assert_eq!((odd.kv_block_size, odd.kv_blocks, odd.skipped), (None, None, 1));
}

#[test]
fn adapters_of_the_youngest_series() {
    let series = |running: &str, waiting: &str, value: &str| {
        format!(
            "vllm:lora_requests_info{{running_lora_adapters=\"{running}\",waiting_lora_adapters=\"{waiting}\",max_lora=\"2\"}} {value}\n"
        )
    };
    let page = series("old", "", "1.7e9")
        + &series("sql-tuned,fr", "fr, de ,", "1.8e9")
        + &series("bad", "", "NaN")
        + &series("older", "", "1.6e9");
    let signals = read(Vllm, page);
    assert_eq!(signals.adapters, adapters(&["sql-tuned", "fr", "de"]));
    assert_eq!(signals.skipped, 1);
    let many: Vec<String> = (0..1000).map(|i| format!("a{i}")).collect();
    let crowded = read(Vllm, series(&many.join(","), &"x,".repeat(100_000), "1.8e9"));
    assert_eq!(crowded.adapters.unwrap().loaded.len(), 256);
}

#[test]
fn start_of_the_process() {
    let created = "vllm:prompt_tokens_created{engine=\"0\"} 1.7e9\nvllm:request_success_created{finished_reason=\"stop\"} 1.69e9\nvllm:num_preemptions_created 0\n";
    assert_eq!(read(Vllm, created).process_start, None, "a gauge that nobody set");
    let created = created.replace("num_preemptions_created 0", "num_preemptions_created 1.8e9");
    assert_eq!(read(Vllm, &created).process_start, Some(1.69e9));
    let both = format!("{created}process_start_time_seconds 1.6e9\n");
    assert_eq!(read(Vllm, both).process_start, Some(1.6e9));
}

#[test]
fn restarts() {
    let at = |start: f64, tokens: f64| Signals {
        process_start: Some(start),
        counters: Counters { prompt_tokens: Some(tokens), ..Counters::default() },
        ..Signals::default()
    };
    let unknown = Signals::default();
    assert!(!restarted(&at(1e9, 10.0), &at(1e9 + 0.5, 20.0)));
    assert!(restarted(&at(1e9, 10.0), &at(1e9 + 60.0, 20.0)));
    assert!(restarted(&at(1e9, 10.0), &at(1e9, 9.0)));
    for pair in [(&unknown, &at(1e9, 1.0)), (&at(1e9, 1.0), &unknown), (&unknown, &unknown)] {
        assert!(!restarted(pair.0, pair.1));
    }
    for (previous, current, moved) in [
        (1.0, 4.0, 3.0),
        (9e6, 3.0, 3.0),
        (5.0, 5.0, 0.0),
        (f64::NAN, 5.0, 0.0),
        (5.0, f64::INFINITY, 0.0),
        (5.0, -1.0, 0.0),
    ] {
        assert_eq!(delta(previous, current), moved, "{previous} {current}");
    }
    assert_eq!(delta_known(None, Some(1.0)), None);
}
