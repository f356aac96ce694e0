//! Renamed series, odd values, several models, restarts, and pages that are none.

use forebay_wire::signals::{
    Combine, CustomSignal, Dialect, Dialect::Vllm, Reader, Signals, detect, rates::restarted, read_dcgm,
    read_loads,
};
use proptest::prelude::*;

use crate::{read, read_model};

#[test]
fn b46_a_to_c_names_old_and_new() {
    let new = "vllm:kv_cache_usage_perc{engine=\"0\"} 0.25\n";
    let old = "vllm:gpu_cache_usage_perc{engine=\"0\"} 0.25\n";
    assert_eq!(read(Vllm, old).kv_usage, Some(0.25));
    assert_eq!(read(Vllm, new), read(Vllm, old));
    let older = old.replace("0.25", "0.75");
    assert_eq!(read(Vllm, [&older, new].concat()).kv_usage, Some(0.25));
    assert_eq!(read(Vllm, [new, &older].concat()).kv_usage, Some(0.25));
    // The new name counts, even when it tells nothing.
    assert_eq!(read(Vllm, [&older, "vllm:kv_cache_usage_perc NaN\n"].concat()).kv_usage, None);
    let hits = "vllm:gpu_prefix_cache_hits_total 5\nvllm:gpu_prefix_cache_queries_total 9\n";
    let counters = read(Vllm, hits).counters;
    assert_eq!((counters.prefix_hits, counters.prefix_queries), (Some(5.0), Some(9.0)));
}

#[test]
fn b46_d_values_that_mean_nothing_are_unknown() {
    for value in ["NaN", "-nan", "+Inf", "-Inf", "1.7e308", "-0.1", "1.4", "37", "x", ""] {
        let signals = read(Vllm, format!("vllm:kv_cache_usage_perc {value}\nvllm:num_requests_running 3\n"));
        assert_eq!((signals.kv_usage, signals.running, signals.skipped), (None, Some(3), 1), "{value}");
    }
    for value in ["NaN", "+Inf", "1.7e308", "-1", "x"] {
        let page = format!(
            "vllm:num_requests_running{{engine=\"0\"}} 3\nvllm:num_requests_running{{engine=\"1\"}} {value}\n"
        );
        assert_eq!(read(Vllm, page).running, None, "{value}: a part of a sum is not a small sum");
    }
    // Rounding is not nonsense, and nothing is not zero.
    assert_eq!(read(Vllm, "vllm:kv_cache_usage_perc 1.0000000002").kv_usage, Some(1.0));
    assert_eq!(read(Vllm, ""), Signals::default());
    assert_eq!(read(Vllm, "vllm:num_requests_running -0").running, Some(0));
    let many = "vllm:num_requests_running 4e9\nvllm:num_requests_running 4e9\n";
    assert_eq!(read(Vllm, many).running, Some(u32::MAX));
    let llama = "llamacpp:n_busy_slots_per_decode -nan\nllamacpp:predicted_tokens_seconds -nan\nllamacpp:requests_processing 1\n";
    let signals = read(Dialect::Llamacpp, llama);
    assert_eq!((signals.generation_throughput, signals.running, signals.skipped), (None, Some(1), 1));
}

const TWO_MODELS: &str = "vllm:num_requests_running{engine=\"0\",model_name=\"a\"} 1.0
vllm:num_requests_running{engine=\"1\",model_name=\"a\"} 2.0
vllm:num_requests_running{engine=\"0\",model_name=\"b\"} 40.0
vllm:num_requests_waiting{engine=\"0\",model_name=\"b\"} 50.0
vllm:kv_cache_usage_perc{engine=\"0\",model_name=\"a\"} 0.1
vllm:kv_cache_usage_perc{engine=\"1\",model_name=\"a\"} 0.3
vllm:kv_cache_usage_perc{engine=\"0\",model_name=\"b\"} 0.9
vllm:request_success_total{finished_reason=\"stop\",model_name=\"a\"} 7.0
vllm:cache_config_info{block_size=\"16\",engine=\"0\",num_gpu_blocks=\"100\"} 1.0
";

#[test]
fn b46_e_several_models_and_ranks() {
    let a = read_model(Vllm, "a", TWO_MODELS);
    assert_eq!((a.running, a.kv_usage, a.counters.requests), (Some(3), Some(0.3), Some(7.0)));
    assert_eq!(a.waiting, None, "another model's queue is not this one's");
    assert_eq!(a.kv_blocks, Some(100), "what has no model is everybody's");
    let b = read_model(Vllm, "b", TWO_MODELS);
    assert_eq!((b.running, b.waiting, b.kv_usage), (Some(40), Some(50), Some(0.9)));
    // A name that no label has, as an alias: all of them.
    let all = read_model(Vllm, "alias", TWO_MODELS);
    assert_eq!((all.running, all.waiting, all.kv_usage), (Some(43), Some(50), Some(0.9)));
    assert_eq!(all, read(Vllm, TWO_MODELS));
    for signals in [&a, &b, &all] {
        assert_eq!(signals.models, ["a", "b"]);
    }
    // The other model's nonsense is not this one's.
    let page = TWO_MODELS.replace("} 40.0", "} NaN");
    assert_eq!(read_model(Vllm, "a", &page).running, Some(3));
    assert_eq!(read_model(Vllm, "b", &page).running, None);
    let many: String =
        (0..100).map(|i| format!("vllm:num_requests_running{{model_name=\"m{i}\"}} 1\n")).collect();
    let crowd = read(Vllm, many);
    assert_eq!((crowd.models.len(), crowd.running), (16, Some(100)));
}

#[test]
fn b46_f_counters() {
    for name in ["vllm:prompt_tokens_total", "vllm:prompt_tokens"] {
        assert_eq!(read(Vllm, format!("{name} 9e6")).counters.prompt_tokens, Some(9e6), "{name}");
    }
    // Both spellings on one page, and the time of its making, are one counter.
    let page = "vllm:prompt_tokens 5\nvllm:prompt_tokens_total 5\nvllm:prompt_tokens_created 1.7e9\nvllm:prompt_tokens_bucket{le=\"1\"} 2\n";
    let before = read(Vllm, page);
    assert_eq!(before.counters.prompt_tokens, Some(5.0));
    assert_eq!(before.process_start, Some(1.7e9));
    let after = read(Vllm, page.replace("prompt_tokens 5", "prompt_tokens 3").replace("total 5", "total 3"));
    assert!(restarted(&before, &after));
    assert!(!restarted(&before, &before));
}

#[test]
fn b46_g_other_spellings_of_a_page() {
    let page = "# TYPE x gauge\nvllm:num_requests_running{engine=\"0\",model_name=\"a\"} 3.0 1795970136000\n  vllm:num_requests_running { engine = \"1\" , model_name=\"a\", } \t 4.0\nvllm:num_requests_waiting{model_name=\"a\"} 2.0 # {trace_id=\"b\"} 1 1.5\nvllm:prompt_tokens_total{model_name=\"a\"} 17.0 # {trace_id=\"}\"} 0.67\nvllm:kv_cache_usage_perc{engine=\"0\"} 0.5\nvllm:kv_cache_usage_perc{engine=\"1\"} 0.25";
    let expected = read(Vllm, page);
    assert_eq!((expected.running, expected.waiting, expected.kv_usage), (Some(7), Some(2), Some(0.5)));
    assert_eq!(expected.counters.prompt_tokens, Some(17.0));
    assert_eq!(read(Vllm, format!("{page}\n# EOF\n")), expected);
    assert_eq!(read(Vllm, page.replace('\n', "\r\n")), expected);
    assert_eq!(read(Vllm, page.replace('\n', "\n\n")), expected);
    let large = format!("{}{page}", "other_series_of_long_name{le=\"0.5\"} 1.0\n".repeat(140_000));
    assert!(large.len() > 5 << 20);
    assert_eq!(read(Vllm, large), expected);
    assert_eq!(read(Vllm, format!("vllm:other_series{}\n{page}", "{".repeat(5 << 20))), expected);
    assert_eq!(read(Vllm, format!("vllm:other_series{{a=\"{}\n{page}", "\\".repeat(5 << 20))), expected);
    // Five megabytes of wanted lines, of as many ranks and models.
    let ranks: String = (0..50_000)
        .map(|i| {
            format!("sglang:num_running_reqs{{dp_rank=\"{i}\",tp_rank=\"{i}\",model_name=\"m{i}\"}} 1\n")
        })
        .collect();
    assert_eq!(read(Dialect::Sglang, ranks).running, Some(50_000));
    // Compressed, and nobody unpacked it.
    assert_eq!(read(Vllm, b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03\x8b\x0b\x00"), Signals::default());
}

#[test]
fn b46_h_escapes_in_labels() {
    let odd = "q\\\"}, \\\\\\n{x=\\\"1";
    let page = format!(
        "vllm:num_requests_running{{model_name=\"{odd}\",engine=\"0\"}} 2.0\nvllm:num_requests_running{{engine=\"1\",model_name=\"other\"}} 9.0\n"
    );
    let plain = "q\"}, \\\n{x=\"1";
    let signals = read_model(Vllm, plain, page);
    assert_eq!(signals.running, Some(2));
    assert_eq!(signals.models, [plain, "other"]);
}

#[test]
fn b46_i_pages_that_are_none() {
    for page in [
        "",
        "\n",
        "<html><body>502 Bad Gateway</body></html>",
        "<!DOCTYPE html>\n<title>vllm:num_requests_running 3</title>\n",
        "{\"detail\":\"Not Found\"}",
        "[{\"iter\":1,\"numActiveRequests\":3}]",
        "\0\0\0",
    ] {
        for dialect in Dialect::ALL {
            assert_eq!(read(dialect, page), Signals::default(), "{page}");
        }
        assert_eq!(detect(page.as_bytes()), None, "{page}");
    }
}

#[test]
fn b46_a_page_that_breaks_off() {
    let page = "vllm:num_requests_running{engine=\"0\"} 3\nvllm:num_requests_running{engine=\"1\",mo";
    assert_eq!((read(Vllm, page).running, read(Vllm, page).skipped), (None, 1));
}

#[test]
fn a_signal_whose_metric_is_nowhere_is_missing_and_nonsense_is_not() {
    let signal = |metric: &str, labels: &[(&str, &str)]| CustomSignal {
        metric: metric.to_owned(),
        labels: labels.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect(),
        combine: Combine::Sum,
    };
    let custom = [signal("queue", &[]), signal("depth", &[]), signal("queue", &[("of", "b")])];
    let reader = Reader::new(Vllm, Some("m"), &custom);
    for (page, missing) in [
        ("queue{of=\"b\"} 1\ndepth 2\n", [false, false, false]),
        ("queue{of=\"a\"} 1\ndepth NaN\n", [false, false, true]),
        ("queue 1\ndepth x\n", [false, false, true]),
        ("depth{model_name=\"another\"} 2\n", [true, false, true]),
        ("", [true, true, true]),
    ] {
        assert_eq!(reader.read(page.as_bytes()).custom_missing[..3], missing, "{page}");
    }
    assert!(!reader.read(b"").custom_missing[3], "nobody asked for it");
}

fn everything(dialect: Dialect, page: &[u8]) -> Signals {
    let custom = CustomSignal { metric: "a".to_owned(), labels: vec![], combine: Combine::Mean };
    Reader::new(dialect, Some("m"), &[custom]).read(page)
}

proptest! {
    #[test]
    fn any_page_is_survived(
        bytes: Vec<u8>,
        soup in "((vllm:num_requests_running|sglang:token_usage|vllm:lora_requests_info|vllm:cache_config_info|a)[{}=\",\\\\n 1.#\n\r\t-]{0,20}){0,6}",
    ) {
        for dialect in Dialect::ALL {
            for page in [&bytes[..], soup.as_bytes()] {
                let signals = everything(dialect, page);
                prop_assert!(signals.kv_usage.is_none_or(|v| (0.0..=1.0).contains(&v)));
                prop_assert!(signals.custom[0].is_none_or(f64::is_finite));
            }
        }
        read_dcgm(&bytes, Some(&["0"]));
        let _ = read_loads(&bytes);
    }

    #[test]
    fn damaged_pages_are_survived(damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..40)) {
        for (dialect, page) in [
            (Vllm, &include_bytes!("vllm_two_ranks.prom")[..]),
            (Dialect::Sglang, include_bytes!("sglang_tp_dp.prom")),
            (Dialect::Triton, include_bytes!("triton_trtllm.prom")),
        ] {
            let mut page = page.to_vec();
            for (at, byte) in &damage {
                let at = at.index(page.len());
                page[at] = *byte;
            }
            let signals = everything(dialect, &page);
            prop_assert!(signals.kv_usage.is_none_or(|v| (0.0..=1.0).contains(&v)));
            prop_assert!(signals.models.len() <= 16);
        }
    }

    #[test]
    fn sums_and_maxima(values in prop::collection::vec((0u32..1000, 0.0..=1.0f64), 1..20), at in any::<prop::sample::Index>()) {
        let page: Vec<String> = values
            .iter()
            .enumerate()
            .map(|(i, (n, kv))| format!("vllm:num_requests_running{{engine=\"{i}\"}} {n}\nvllm:kv_cache_usage_perc{{engine=\"{i}\"}} {kv}\n"))
            .collect();
        let signals = read(Vllm, page.concat());
        prop_assert_eq!(signals.running, Some(values.iter().map(|v| v.0).sum()));
        prop_assert_eq!(signals.kv_usage, values.iter().map(|v| v.1 as f32).max_by(f32::total_cmp));
        // Cut anywhere, nothing is invented.
        let page = page.concat();
        let part = read(Vllm, &page[..at.index(page.len())]);
        prop_assert!(part.running.is_none_or(|n| n <= signals.running.unwrap()));
    }
}
