//! Prints what a rule costs for each candidate:
//! `cargo run --release -p forebay-rule --example rule_bench`.

use std::hint::black_box;
use std::time::{Duration, Instant};

use forebay_rule::{EndpointVars, RequestVars, Rule, Verdict};

/// Candidates of one request.
const CANDIDATES: usize = 1000;

const RULES: [(&str, Option<&str>, Option<&str>); 4] = [
    ("one comparison", Some("kv_usage < 0.95"), None),
    ("one product", None, Some("waiting * 20")),
    (
        "a condition and a cost",
        Some("kv_usage < 0.95 && zone in ['eu-1a', 'eu-1b'] && !gpu_throttled"),
        Some("value_or(depth, 0) * 20 + (version == 'canary' ? 50 : 0)"),
    ),
    (
        "sixteen terms",
        None,
        Some(
            "running + waiting * 2 + kv_usage * 3 + in_flight * 4 + owed_ms * 5 + held_tokens / 6 + weight * 7 + \
             ramp * 8 + min(depth, 9) + prompt_tokens * 10 + output_tokens * 11 + (stream ? 12 : 13)",
        ),
    ),
];

#[expect(clippy::disallowed_methods, reason = "a bench reads the clock")]
fn main() {
    let mut signals = [None; 8];
    signals[0] = Some(3.0);
    let endpoint = |i: usize| EndpointVars {
        name: "http://10.0.0.1:8000",
        zone: if i.is_multiple_of(2) { "eu-1a" } else { "eu-1b" },
        version: "stable",
        running: Some(i as f64),
        waiting: Some((i % 7) as f64),
        kv_usage: Some((i % 10) as f64 / 10.0),
        gpu_throttled: Some(false),
        signals,
        ..EndpointVars::default()
    };
    let endpoints: Vec<_> = (0..CANDIDATES).map(endpoint).collect();
    let request = RequestVars { prompt_tokens: 4096.0, output_tokens: 200.0, ..RequestVars::default() };
    println!("{:<24} {:>16} {:>10}", "rule", "ns a candidate", "filtered");
    for (name, filter, cost) in RULES {
        let rule = match Rule::compile(filter, cost, &["depth"]) {
            Ok(rule) => rule,
            Err(error) => {
                println!("{name}: {error}");
                continue;
            }
        };
        let (mut best, mut filtered) = (Duration::MAX, 0);
        for _ in 0..200 {
            let began = Instant::now();
            filtered = endpoints
                .iter()
                .filter(|endpoint| rule.eval(black_box(&request), black_box(endpoint)) == Verdict::Filtered)
                .count();
            best = best.min(began.elapsed());
        }
        println!("{name:<24} {:>16.1} {filtered:>10}", best.as_nanos() as f64 / CANDIDATES as f64);
    }
}
