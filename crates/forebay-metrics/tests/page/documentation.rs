//! `docs/metrics.md` says what is rendered, no more and no less.

use std::collections::BTreeSet;

use crate::full::full;
use crate::promtool;
use forebay_metrics::{
    ALL, Agreed, Dial, EndpointStateLabel, ErrorStatistic, Eviction, KvBlock, KvEvent, KvFault, LogEntry,
    OutcomeLabel, Page, Probe, Reject, Retry, Scrape, Tokenized,
};

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/metrics.md");

fn page() -> String {
    std::fs::read_to_string(PAGE).expect(PAGE)
}

/// The words between backticks.
fn quoted(text: &str) -> Vec<&str> {
    text.split('`').skip(1).step_by(2).collect()
}

/// The cells of the table rows under one heading, without its head.
fn rows<'a>(page: &'a str, heading: &str) -> Vec<Vec<&'a str>> {
    let section = page.split("\n## ").find(|s| s.starts_with(heading)).expect(heading);
    let lines = section.lines().filter(|line| line.starts_with('|')).skip(2);
    lines.map(|line| line.trim_matches('|').split('|').map(str::trim).collect()).collect()
}

#[test]
fn the_table_lists_every_rendered_metric_and_no_other() {
    let page = page();
    let documented: BTreeSet<_> = rows(&page, "Every metric")
        .into_iter()
        .map(|row| {
            let [name, kind, labels, meaning] = row[..] else { panic!("four columns: {row:?}") };
            assert!(meaning.ends_with('.'), "{name}: {meaning:?}");
            (quoted(name).join(""), kind.to_owned(), quoted(labels).join(","))
        })
        .collect();
    let defined: BTreeSet<_> =
        ALL.iter().map(|d| (d.name.to_owned(), d.kind.as_str().to_owned(), d.labels.join(","))).collect();
    assert_eq!(documented, defined);

    let text = full().metrics.render();
    let rendered: BTreeSet<_> = text
        .lines()
        .filter_map(|line| line.strip_prefix("# TYPE ")?.split_once(' '))
        .map(|(name, _)| name)
        .collect();
    assert_eq!(rendered, ALL.iter().map(|d| d.name).collect());
}

#[test]
fn the_label_values_are_those_of_the_enums() {
    let page = page();
    let rows = rows(&page, "Label values");
    let values = |label: &str| -> BTreeSet<String> {
        let row = rows.iter().find(|row| row[0] == label).unwrap_or_else(|| panic!("no row {label}"));
        // What follows a value in parentheses explains it.
        let mut plain = String::new();
        let mut depth = 0;
        for c in row[1].chars() {
            depth += i32::from(c == '(');
            if depth == 0 {
                plain.push(c);
            }
            depth -= i32::from(c == ')');
        }
        quoted(&plain).into_iter().map(str::to_owned).collect()
    };
    let words = |all: Vec<&str>| -> BTreeSet<String> { all.into_iter().map(str::to_owned).collect() };
    macro_rules! same {
        ($row:literal, $label:ident) => {
            assert_eq!(values($row), words($label::ALL.iter().map(|l| l.as_str()).collect()), $row);
        };
    }
    same!("`outcome`", OutcomeLabel);
    same!("`reason` of `forebay_rejected_total`", Reject);
    same!("`reason` of `forebay_retries_total`", Retry);
    same!("`state`", EndpointStateLabel);
    same!("`result` of `forebay_endpoint_dials_total`", Dial);
    same!("`result` of `forebay_endpoint_probes_total`", Probe);
    same!("`result` of `forebay_endpoint_scrapes_total`", Scrape);
    same!("`page`", Page);
    same!("`statistic`", ErrorStatistic);
    same!("`agreed`", Agreed);
    same!("`reason` of `forebay_prefix_index_evictions_total`", Eviction);
    same!("`result` of `forebay_kv_events_total`", KvEvent);
    same!("`kind` of `forebay_kv_event_faults_total`", KvFault);
    same!("`result` of `forebay_kv_blocks_total`", KvBlock);
    same!("`result` of `forebay_decision_log_entries_total`", LogEntry);
    same!("`result` of `forebay_tokenizer_prompts_total`", Tokenized);
    for page in Page::ALL {
        assert_eq!(Page::from_word(page.as_str()), Some(*page));
    }
    for word in EndpointStateLabel::ALL {
        assert_eq!(EndpointStateLabel::from_word(word.as_str()), Some(*word));
    }
}

fn examples(page: &str) -> Vec<String> {
    let blocks = page.split("```promql\n").skip(1);
    blocks.map(|b| b.split("```").next().expect("split gives one").to_owned()).collect()
}

#[test]
fn the_examples_name_metrics_that_exist() {
    let page = page();
    let mut names: BTreeSet<String> = ALL.iter().map(|d| d.name.to_owned()).collect();
    for d in ALL {
        names.extend(["_bucket", "_sum", "_count"].map(|suffix| format!("{}{suffix}", d.name)));
    }
    let examples = examples(&page);
    assert!(examples.len() >= 5);
    let words = examples.iter().flat_map(|e| e.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_')));
    for word in words.filter(|w| w.starts_with("forebay_")) {
        assert!(names.contains(word), "{word} is not a metric");
    }
}

#[test]
fn promtool_can_parse_the_examples() {
    let mut rules = String::from("groups:\n- name: examples\n  rules:\n");
    for (n, example) in examples(&page()).iter().enumerate() {
        rules += &format!("  - record: example:number:{n}\n    expr: |\n");
        for line in example.lines() {
            rules += &format!("      {line}\n");
        }
    }
    promtool(&["check", "rules", "/dev/stdin"], &rules);
}
