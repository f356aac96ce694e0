//! The files of `--out`.

use std::fmt::Write;
use std::path::Path;

use super::page;
use super::report::Report;
use super::rows::{Quantiles, Row};
use crate::cli::Failure;

/// Makes the directory and tries to write there: better known before the runs than after.
pub(super) fn prepare(directory: &Path) -> Result<(), Failure> {
    let shown = directory.display();
    std::fs::create_dir_all(directory)
        .map_err(Failure::doing(format!("--out: cannot make the directory {shown}")))?;
    let probe = directory.join(format!(".forebay-{}", std::process::id()));
    std::fs::write(&probe, "")
        .and_then(|()| std::fs::remove_file(&probe))
        .map_err(Failure::doing(format!("--out: cannot write in {shown}")))
}

/// Writes report.html, report.json and report.csv.
pub(super) fn write(report: &Report, directory: &Path) -> Result<(), Failure> {
    let json = serde_json::to_string_pretty(report).map_err(Failure::doing("cannot write the report"))?;
    for (name, text) in
        [("report.html", page::html(report)), ("report.json", json + "\n"), ("report.csv", csv(report))]
    {
        let path = directory.join(name);
        std::fs::write(&path, text).map_err(Failure::doing(format!("cannot write {}", path.display())))?;
    }
    Ok(())
}

/// One line for each policy and load; `_ci` is half the width of a figure's interval.
fn csv(report: &Report) -> String {
    let mut text = String::from("rate,policy,rival,seeds,requests,failed,rejected,cancelled");
    for name in ["goodput", "prefix_hit", "busiest", "utilization", "tokens_per_second"] {
        text.push_str(&format!(",{name},{name}_ci"));
    }
    for name in ["ttft_ms", "tpot_ms", "e2e_ms"] {
        for part in ["mean", "p50", "p95", "p99"] {
            text.push_str(&format!(",{name}_{part},{name}_{part}_ci"));
        }
    }
    text.push('\n');
    for row in report.rows.iter().chain(&report.refined) {
        line(&mut text, row);
    }
    text
}

fn line(text: &mut String, row: &Row) {
    let ci = &row.ci95;
    // Writing into a text cannot fail.
    let _ = write!(
        text,
        "{},{},{},{},{},{},{},{}",
        field(row.rate),
        // Knobs are numbers between colons: nothing that needs quotes.
        row.policy,
        row.rival,
        row.seeds,
        row.requests,
        row.failed,
        row.rejected,
        row.cancelled
    );
    let figures = [
        (row.goodput, ci.goodput),
        (row.prefix_hit, ci.prefix_hit),
        (row.busiest, ci.busiest),
        (row.utilization, ci.utilization),
        (row.tokens_per_second, ci.tokens_per_second),
    ];
    for (value, half) in figures {
        let _ = write!(text, ",{value},{}", field(half));
    }
    let parts = |q: &Quantiles| [q.mean, q.p50, q.p95, q.p99];
    for (value, half) in [(&row.ttft_ms, &ci.ttft_ms), (&row.tpot_ms, &ci.tpot_ms), (&row.e2e_ms, &ci.e2e_ms)]
    {
        for (value, half) in parts(value).into_iter().zip(parts(half)) {
            let _ = write!(text, ",{},{}", field(value), field(half));
        }
    }
    text.push('\n');
}

fn field(value: Option<f64>) -> String {
    value.map_or_else(String::new, |value| value.to_string())
}
