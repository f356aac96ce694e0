//! Case B46, and the pages of a real vLLM.

use proptest::prelude::*;

use super::*;
use crate::signals::{Dialect, Reader};

/// Every sample as text: name, labels, value.
fn samples(page: &str) -> Vec<String> {
    let mut out = vec![];
    read(page.as_bytes(), |s| {
        let labels: Vec<String> = s.labels.iter().map(|(k, v)| format!("{k}={v:?}")).collect();
        out.push(format!("{} [{}] {:?}", s.name, labels.join(" "), s.value));
    });
    out
}

fn load(page: impl AsRef<[u8]>) -> (Option<u32>, Option<u32>, Option<f32>) {
    let signals = Reader::new(Dialect::Vllm, None, &[]).read(page.as_ref());
    (signals.running, signals.waiting, signals.kv_usage)
}

#[test]
fn lines_of_every_kind() {
    for (line, expected) in [
        ("a 1", "a [] 1.0"),
        ("a{} 1", "a [] 1.0"),
        ("a{x=\"y\"} 1", "a [x=\"y\"] 1.0"),
        ("a{x=\"y\"}1", "a [x=\"y\"] 1.0"),
        (
            "  vllm:a_b1 \t { x = \"y\" , z=\"\", } \t 1.5e3 1795970136000",
            "vllm:a_b1 [x=\"y\" z=\"\"] 1500.0",
        ),
        ("a_total 17.0 # {trace_id=\"x\"} 0.67 1.5", "a_total [] 17.0"),
        ("a_bucket{le=\"+Inf\"} 3 # {id=\"}\"} 1", "a_bucket [le=\"+Inf\"] 3.0"),
        ("a 1\r", "a [] 1.0"),
        ("a NaN", "a [] NaN"),
        ("a nan", "a [] NaN"),
        ("a -nan", "a [] NaN"),
        ("a +Inf", "a [] inf"),
        ("a -Inf", "a [] -inf"),
        ("a 1.7e308", "a [] 1.7e308"),
        (r#"a{m="q\"b\\s\nn}c,d=\"e"} 2"#, "a [m=\"q\\\"b\\\\s\\nn}c,d=\\\"e\"] 2.0"),
        (r#"a{m="odd \t"} 2"#, "a [m=\"odd \\\\t\"] 2.0"),
    ] {
        assert_eq!(samples(line), [expected], "{line}");
        assert_eq!(samples(&format!("# HELP a x\n{line}\n# EOF\n")), [expected], "{line}");
    }
}

#[test]
fn lines_that_cannot_be_read_are_passed_over() {
    for line in [
        "",
        " ",
        "a",
        "a ",
        "a{",
        "a{x=\"y\"",
        "a{x=\"y} 1",
        "a{x=\"y\\\"} 1",
        "a{} ",
        "a x",
        "a 1x",
        "1a 1",
        "{x=\"y\"} 1",
        "<html><body>a 1</body>",
        "a=1",
        "-1 1",
        "a} 1",
        "\u{e9} 1",
        "a\"b\" 1",
        "a{x=\"\\",
    ] {
        assert_eq!(samples(&format!("b 1\n{line}\nc 2")), ["b [] 1.0", "c [] 2.0"], "{line:?}");
    }
    // Labels that break off are read as far as they go.
    assert_eq!(samples("a{x=\"1\",y} 1"), ["a [x=\"1\"] 1.0"]);
    let mut raw = vec![];
    read(b"a{x=\"\xff\"} 1\nb\xff 1\n\xff\xfe", |s| {
        raw.push((s.name, s.label("x").map(|v| v.into_owned()), s.labels.raw()))
    });
    assert_eq!(raw, [("a", Some("\u{fffd}".to_owned()), &b"x=\"\xff\""[..])]);
}

#[test]
fn only_wanted_lines_are_parsed() {
    let mut seen = vec![];
    read_named(
        b"a 1\nb broken\nb{m=\"x\"} 2\nc 3",
        |name| name == "b",
        |s| seen.push((s.label("m").map(|m| m.into_owned()), s.value)),
    );
    assert_eq!(seen, [(Some("x".to_owned()), 2.0)]);
}

#[test]
fn b46_names_old_and_new() {
    let new = "vllm:kv_cache_usage_perc{engine=\"0\"} 0.25\n";
    let old = "vllm:gpu_cache_usage_perc{engine=\"0\"} 0.75\n";
    assert_eq!(load(new).2, Some(0.25));
    assert_eq!(load(old).2, Some(0.75));
    assert_eq!(load([old, new].concat()).2, Some(0.25));
    assert_eq!(load([old, "vllm:kv_cache_usage_perc NaN\n"].concat()).2, None);
}

#[test]
fn b46_unusable_values_are_unknown() {
    for value in ["NaN", "-nan", "+Inf", "-Inf", "1.7e308", "-0.1", "1.4", "37", "x", ""] {
        assert_eq!(load(format!("vllm:kv_cache_usage_perc {value}")).2, None, "{value}");
    }
    for value in ["NaN", "+Inf", "1.7e308", "-1"] {
        let page = format!(
            "vllm:num_requests_running{{engine=\"0\"}} 3\nvllm:num_requests_running{{engine=\"1\"}} {value}"
        );
        assert_eq!(load(page).0, None, "{value}");
    }
    for page in ["", "<html>502</html>", "{\"detail\":\"Not Found\"}", "\0\0\0"] {
        assert_eq!(load(page), (None, None, None), "{page}");
    }
    assert_eq!(load("vllm:num_requests_running 4e9\nvllm:num_requests_running 4e9").0, Some(u32::MAX));
}

#[test]
fn b46_other_spellings_of_a_page() {
    let page = "# TYPE x gauge\nvllm:num_requests_running{engine=\"0\",model_name=\"a\"} 3.0 1795970136000\nvllm:num_requests_running{engine=\"1\",model_name=\"b\"} 4.0\nvllm:num_requests_waiting{model_name=\"q\\\"}, \\\\\\n\"} 2.0 # {a=\"b\"} 1\nvllm:kv_cache_usage_perc{engine=\"0\"} 0.5\nvllm:kv_cache_usage_perc{engine=\"1\"} 0.25";
    let expected = (Some(7), Some(2), Some(0.5));
    assert_eq!(load(page), expected);
    assert_eq!(load(format!("{page}\n# EOF\n")), expected);
    assert_eq!(load(page.replace('\n', "\r\n")), expected);
    let large = format!("{}{page}", "other_series{le=\"0.5\"} 1.0\n".repeat(200_000));
    assert!(large.len() > 5 << 20);
    assert_eq!(load(large), expected);
    assert_eq!(load(format!("x{}\n{page}", "{".repeat(5 << 20))), expected);
    assert_eq!(load(format!("x{{a=\"{}\n{page}", "\\".repeat(5 << 20))), expected);
}

#[test]
fn recorded_pages() {
    assert_eq!(
        load(include_bytes!("../../testdata/metrics_under_load.prom")),
        (Some(8), Some(6), Some(0.000_991_836_4))
    );
    assert_eq!(
        load(include_bytes!("../../testdata/dp2_metrics_under_load.prom")),
        (Some(14), Some(0), Some(0.888_888_9))
    );
    assert_eq!(
        load(include_bytes!("../../testdata/i2_metrics_kv_nearly_full.prom")),
        (Some(7), Some(6), Some(1.0))
    );
}

proptest! {
    #[test]
    fn any_page_is_survived(bytes: Vec<u8>, soup in "[a{}=\",\\\\n 1.#\n\r\t]{0,80}") {
        for page in [&bytes[..], soup.as_bytes()] {
            let mut n = 0;
            read(page, |s| {
                n += 1;
                s.labels.iter().for_each(drop);
            });
            prop_assert!(n <= page.split(|&b| b == b'\n').count());
        }
    }

    #[test]
    fn what_is_written_is_read(
        name in "[a-z_:][a-z0-9_:]{0,10}",
        labels in prop::collection::vec(("[a-z_][a-z0-9_]{0,6}", any::<String>()), 0..4),
        value: f64,
    ) {
        let text: Vec<String> = labels
            .iter()
            .map(|(k, v)| format!("{k}=\"{}\"", v.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")))
            .collect();
        let line = format!("{name}{{{}}} {value}\n", text.join(","));
        let mut read_back = None;
        read(line.as_bytes(), |s| {
            let pairs: Vec<_> = s.labels.iter().map(|(k, v)| (k.to_owned(), v.into_owned())).collect();
            read_back = Some((s.name.to_owned(), pairs, s.value.to_bits()));
        });
        prop_assert_eq!(read_back, Some((name, labels, value.to_bits())));
    }
}

proptest! {
    #[test]
    fn a_filter_never_hides_a_name(
        names in prop::collection::vec("[a-z_:][a-z0-9_:]{0,24}", 1..30),
        odd in "[ \t]{0,3}",
    ) {
        let filter = NameFilter::new(names.iter().map(String::as_str));
        let page: Vec<String> = names
            .iter()
            .enumerate()
            .map(|(i, name)| format!("{odd}{name}{} {i}\n", if i % 2 == 0 { "" } else { "{a=\"b\"}" }))
            .collect();
        let mut seen = vec![];
        read_found(page.concat().as_bytes(), &filter, Some, |name, sample| {
            seen.push((name.to_owned(), sample.map(|s| s.value)));
        });
        let expected: Vec<_> =
            names.into_iter().enumerate().map(|(i, name)| (name, Some(i as f64))).collect();
        prop_assert_eq!(seen, expected);
    }
}
