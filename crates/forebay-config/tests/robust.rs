//! No text makes the reader panic, run away, or point outside the text.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test says so by failing")]

use std::path::PathBuf;

use forebay_config::{Errors, parse};
use proptest::prelude::*;

fn env(name: &str) -> Option<String> {
    (name == "A").then(|| "SECRET".to_owned())
}

/// Reads a text and checks what every error promises.
fn check(text: &str) {
    let Err(Errors(errors)) = parse("f.yaml", text, &env) else { return };
    assert!(!errors.is_empty());
    let lines = text.lines().count().max(1) as u32;
    for error in &errors {
        assert!(error.place.line >= 1 && error.place.column >= 1);
        // The end of the text is a place, too.
        assert!(error.place.line <= lines + 1, "line {} of {lines}", error.place.line);
        assert!(!error.message.is_empty());
        let shown = error.to_string();
        assert!(!shown.contains("SECRET") || text.contains("SECRET"));
        assert!(
            shown.chars().all(|c| c == '\n' || !c.is_control()),
            "a control character reaches the terminal"
        );
    }
    assert!(errors.is_sorted_by_key(|error| (error.place.line, error.place.column)));
    let json = serde_json::to_value(Errors(errors)).unwrap();
    for key in ["file", "line", "column", "path", "message"] {
        assert!(json[0].get(key).is_some(), "{key} is missing in {json}");
    }
}

#[test]
fn the_corpus_is_read_without_harm() {
    let corpus = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/config");
    let mut files = 0;
    for entry in std::fs::read_dir(corpus).unwrap() {
        let bytes = std::fs::read(entry.unwrap().path()).unwrap();
        let text = String::from_utf8_lossy(&bytes);
        check(&text);
        // Cut anywhere: a file that is being written is read like that.
        for end in (0..text.len()).filter(|&end| text.is_char_boundary(end)).step_by(31) {
            check(&text[..end]);
        }
        files += 1;
    }
    assert!(files >= 12, "only {files} files");
}

#[test]
fn ten_thousand_endpoints_are_fine() {
    let mut text = "version: 1\npools:\n- name: chat\n  model: tide\n  endpoints:\n".to_owned();
    for n in 0..10_000 {
        text.push_str(&format!(
            "  - {{url: \"http://10.1.{}.{}:8000\", weight: 2, zone: a}}\n",
            n / 250,
            n % 250
        ));
    }
    let config = parse("f.yaml", &text, &env).unwrap();
    assert_eq!(config.pools[0].endpoints.len(), 10_000);
}

#[test]
fn the_same_mistake_ten_thousand_times_is_short() {
    let endpoint = "  - {url: \"https://a:1\", weight: 2}\n";
    let text =
        format!("version: 1\npools:\n- name: chat\n  model: tide\n  endpoints:\n{}", endpoint.repeat(10_000));
    check(&text);
    let Errors(errors) = parse("f.yaml", &text, &env).unwrap_err();
    assert_eq!(errors.len(), 101);
    assert_eq!(errors[100].message, "and 9900 more errors, not shown");
}

/// Pieces that configurations are made of, put together at random.
fn pieces() -> impl Strategy<Value = String> {
    let piece = prop::sample::select(vec![
        "version: 1\n",
        "listen:",
        "pools:\n",
        "  - ",
        "name: a",
        "model: b",
        "endpoints:",
        "url: http://a:1",
        "\n",
        "\n  ",
        "\n    ",
        "[",
        "]",
        "{",
        "}",
        ", ",
        ": ",
        "${A}",
        "${",
        "$${",
        "\"",
        "'",
        "&x ",
        "*x",
        "<<: ",
        "!t ",
        "!!int ",
        "|\n",
        "# c\n",
        "---\n",
        "~",
        "0",
        "-1",
        "1.5s",
        "64MiB",
        "http://[::1%25lo]:1",
        "\t",
        "\0",
        "é",
        "timeouts",
        "limits",
        "models",
        "targets",
        "health",
        "weight",
        "tenants",
        "signals: {q: m}",
        "labels:",
        "kv_events: {}",
        "tcp://{host}:5557",
        "rule:",
        "version: v",
        "?",
        "- ",
    ]);
    prop::collection::vec(piece, 0..40).prop_map(|pieces| pieces.concat())
}

/// A good file with one stretch of it replaced.
fn damaged() -> impl Strategy<Value = String> {
    let good = include_str!("../../../examples/reference.yaml");
    (0..good.len(), 0..20usize, "\\PC{0,8}|[\\x00-\\x7f]{0,8}").prop_map(move |(start, length, text)| {
        let mut from = start;
        while !good.is_char_boundary(from) {
            from -= 1;
        }
        let mut to = (from + length).min(good.len());
        while !good.is_char_boundary(to) {
            to -= 1;
        }
        format!("{}{text}{}", &good[..from], &good[to.max(from)..])
    })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(400) })]

    #[test]
    fn any_text(text in any::<String>()) {
        check(&text);
    }

    #[test]
    fn pieces_in_any_order(text in pieces()) {
        check(&text);
    }

    #[test]
    fn a_damaged_file(text in damaged()) {
        check(&text);
    }
}

proptest! {
    // Each case reads the file once per field.
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(20) })]

    #[test]
    fn any_value_of_a_variable(value in any::<String>()) {
        // Every field takes a variable: none may show it or panic on it.
        let good = include_str!("../../../examples/reference.yaml");
        let fields: Vec<(usize, usize)> = good.match_indices(": ").map(|(at, _)| at + 2)
            .filter_map(|at| good[at..].find(['\n', ' ', ',', '}']).map(|end| (at, at + end)))
            .filter(|(from, to)| from < to && !good[*from..*to].starts_with(['{', '[', '#'])).collect();
        for (from, to) in fields {
            let text = format!("{}${{A}}{}", &good[..from], &good[to..]);
            if let Err(errors) = parse("f.yaml", &text, &|name| (name == "A").then(|| format!("<{value}>"))) {
                let shown = errors.to_string().contains(&format!("<{value}>"));
                prop_assert!(!shown || value.is_empty(), "{}", errors);
            }
        }
    }
}
