//! The report for a terminal.

use std::fmt;

use super::capacity::GOAL;
use super::report::{Load, Report};
use super::rows::Row;

/// A report as a table for each rate.
pub(super) struct Table<'a>(pub(super) &'a Report);

impl fmt::Display for Table<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let report = self.0;
        writeln!(f, "{} on {}", report.workload, report.fleet)?;
        let seeds = report.seeds.len();
        writeln!(
            f,
            "{}; a run with each of {seeds} seed{}",
            report.fleet_facts.join(", "),
            if seeds == 1 { "" } else { "s" }
        )?;
        writeln!(
            f,
            "goodput: first token within {}, then a token within {} on average; ± is a 95 % confidence interval",
            rounded(report.slo.ttft_ms.map(f64::from)),
            rounded(report.slo.tpot_ms.map(f64::from))
        )?;
        if report.rows.iter().any(|row| row.level_with_best) {
            writeln!(
                f,
                "= is not told apart from the best (their intervals meet); of those the least TTFT comes first"
            )?;
        }
        if seeds > 1 {
            writeln!(f, "rejected, failed and left are sums over seeds, everything else means")?;
        }
        for load in &report.loads {
            let rate =
                load.rate.map_or_else(String::new, |rate| format!("{} requests per second, ", trimmed(rate)));
            writeln!(
                f,
                "\n{rate}{} requests in a run, the first {} not counted",
                load.requests, load.warmup
            )?;
            let rows = report.ranked(load.rate);
            table(f, &rows)?;
            by_priority(f, &rows)?;
            if let Some(busy) = busy(report, load) {
                writeln!(f, "{busy}")?;
            }
        }
        if let Some(first) = report.capacity.first() {
            writeln!(f, "\nrequests per second with {:.0} % goodput", GOAL * 100.0)?;
            let width = report.capacity.iter().map(|c| c.policy.chars().count()).max().unwrap_or(0).max(6);
            writeln!(
                f,
                "{:width$}  {:>10}  {:>13}  {:>12}  {:>11}",
                "policy", "requests/s", "between", "per endpoint", "of the best"
            )?;
            let endpoints = report.endpoints.max(1) as f64;
            for capacity in &report.capacity {
                write!(f, "{:width$}  {:>10}", capacity.policy, capacity.show())?;
                if capacity.below {
                    writeln!(f)?;
                    continue;
                }
                let share = capacity.rate / first.rate * 100.0;
                let (between, each) = (capacity.show_between(), capacity.rate / endpoints);
                writeln!(f, "  {between:>13}  {each:>12.3}  {share:>9.0} %")?;
            }
            if !report.refined.is_empty() {
                writeln!(f, "{REFINED}")?;
            }
        }
        Ok(())
    }
}

/// Under the loads that policies carry.
pub(super) const REFINED: &str = "By a straight line between two rates; those of the first few were halved by two more runs. ~ is rough: \
    compare fewer --policies at a time, or give more --rates, for a closer look.";

fn table(f: &mut fmt::Formatter<'_>, rows: &[&Row]) -> fmt::Result {
    let width = rows.iter().map(|row| row.policy.chars().count()).max().unwrap_or(0).max(6);
    let cancelled = rows.iter().any(|row| row.cancelled > 0);
    // As wide as the marks.
    let none = if rows.iter().any(|row| row.level_with_best) { "  " } else { "" };
    write!(
        f,
        "{none}{:width$}  {:>15}  {:>8} {:>8} {:>8} {:>8}  {:>8} {:>8}  {:>7} {:>7} {:>8} {:>6}",
        "policy",
        "goodput",
        "TTFT",
        "p50",
        "p95",
        "p99",
        "TPOT",
        "e2e",
        "hit",
        "busiest",
        "rejected",
        "failed"
    )?;
    writeln!(f, "{}", if cancelled { "  left" } else { "" })?;
    for row in rows {
        let goodput = goodput(row.goodput, row.ci95.goodput);
        let t = row.ttft_ms;
        let [mean, p50, p95, p99] = [t.mean, t.p50, t.p95, t.p99].map(millis);
        let [tpot, e2e] = [row.tpot_ms.mean, row.e2e_ms.mean].map(millis);
        write!(
            f,
            "{}{:width$}  {goodput:>15}  {mean:>8} {p50:>8} {p95:>8} {p99:>8}  {tpot:>8} {e2e:>8}  {:>5.1} % {:>7.2} {:>8} {:>6}",
            if row.level_with_best { row.mark() } else { none },
            row.policy,
            row.prefix_hit * 100.0,
            row.busiest,
            row.rejected,
            row.failed
        )?;
        if cancelled {
            write!(f, " {:>5}", row.cancelled)?;
        }
        writeln!(f)?;
    }
    Ok(())
}

/// How loaded the fleet was under the best policy, and what shows more when
/// that was little.
pub(super) fn busy(report: &Report, load: &Load) -> Option<String> {
    let best = *report.ranked(load.rate).first()?;
    let mut text = format!(
        "Under {} an endpoint had {:.1} requests in flight on average. It computed, that is had at least one, \
         {:.0} % of the time, which does not make it full: there is room until goodput falls.",
        best.policy,
        best.in_flight,
        best.utilization * 100.0
    );
    if report.loads.len() == 1 && (best.goodput > SPARE || best.goodput > 0.9 && best.utilization < IDLE) {
        let more = if report.closed_loop { "--scale raises" } else { "--rate and --scale raise" };
        text.push_str(&format!(" {more} the load, and show where policies part."));
    }
    Some(text)
}

/// With more goodput than that the best policy could take more; and whatever
/// the goodput (long prompts miss limits alone on a fleet), with less computing.
const SPARE: f64 = 0.95;
const IDLE: f64 = 0.7;

/// Goodput and time to the first token of each priority, where there are several.
fn by_priority(f: &mut fmt::Formatter<'_>, rows: &[&Row]) -> fmt::Result {
    let Some(first) = rows.iter().find(|row| !row.priorities.is_empty()) else { return Ok(()) };
    let width = rows.iter().map(|row| row.policy.chars().count()).max().unwrap_or(0).max(11);
    write!(f, "\n{:width$}", "by priority")?;
    for class in &first.priorities {
        write!(f, "  {:>15} {:>8} {:>8}", class.priority, "TTFT p50", "p95")?;
    }
    writeln!(f)?;
    for row in rows {
        write!(f, "{:width$}", row.policy)?;
        for class in &row.priorities {
            let [p50, p95] = [class.ttft_ms.p50, class.ttft_ms.p95].map(millis);
            write!(f, "  {:>15} {p50:>8} {p95:>8}", goodput(class.goodput, class.ci95.goodput))?;
        }
        writeln!(f)?;
    }
    Ok(())
}

fn goodput(mean: f64, half: Option<f64>) -> String {
    match half {
        Some(half) => format!("{:.1} % ± {:>4.1}", mean * 100.0, half * 100.0),
        None => format!("{:.1} %", mean * 100.0),
    }
}

/// Three digits and a unit that fits.
pub(super) fn millis(ms: Option<f64>) -> String {
    match ms {
        None => "-".into(),
        Some(ms) if ms < 9.995 => format!("{ms:.2} ms"),
        Some(ms) if ms < 99.95 => format!("{ms:.1} ms"),
        Some(ms) if ms < 999.5 => format!("{ms:.0} ms"),
        Some(ms) if ms < 9_995.0 => format!("{:.2} s", ms / 1e3),
        Some(ms) if ms < 99_950.0 => format!("{:.1} s", ms / 1e3),
        Some(ms) => format!("{:.0} s", ms / 1e3),
    }
}

/// As [`millis`], without zeros at the end.
pub(super) fn rounded(ms: Option<f64>) -> String {
    millis(ms).replace(".00 ", " ").replace(".0 ", " ")
}

/// Without zeros at the end.
pub(super) fn trimmed(number: f64) -> String {
    let text = format!("{number:.2}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}
