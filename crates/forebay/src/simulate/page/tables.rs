//! The numbers beside the figures.

use std::fmt::Write;

use super::super::report::Report;
use super::super::rows::Row;
use super::super::table::{millis, trimmed};
use super::marks::{escape, grouped, percent};

/// Everything about one load.
pub(super) fn figures(page: &mut String, rows: &[&Row]) {
    page.push_str(
        "<table><thead><tr><th>policy</th><th>goodput</th><th>TTFT<br>mean</th><th>p50</th><th>p95</th><th>p99</th>\
         <th>TPOT<br>mean</th><th>e2e<br>mean</th><th>tokens/s</th><th>hit</th><th>busiest</th>\
         <th>computing</th><th>rejected,<br>failed, left</th></tr></thead><tbody>\n",
    );
    for row in rows {
        let _ = write!(page, "<tr{}><td>{}{}</td>", first(&row.policy), row.mark(), escape(&row.policy));
        let ci = &row.ci95;
        let share = |value: f64, half: Option<f64>| {
            let half = half.map(|half| format!("{:.1}", half * 100.0));
            (percent(value), half)
        };
        let time = |value: Option<f64>, half: Option<f64>| (millis(value), half.map(|ms| millis(Some(ms))));
        let cells = [
            share(row.goodput, ci.goodput),
            time(row.ttft_ms.mean, ci.ttft_ms.mean),
            time(row.ttft_ms.p50, ci.ttft_ms.p50),
            time(row.ttft_ms.p95, ci.ttft_ms.p95),
            time(row.ttft_ms.p99, ci.ttft_ms.p99),
            time(row.tpot_ms.mean, ci.tpot_ms.mean),
            time(row.e2e_ms.mean, ci.e2e_ms.mean),
            (
                grouped(row.tokens_per_second.round() as u64),
                ci.tokens_per_second.map(|half| grouped(half.round() as u64)),
            ),
            share(row.prefix_hit, ci.prefix_hit),
            (format!("{:.2}", row.busiest), ci.busiest.map(|half| format!("{half:.2}"))),
            share(row.utilization, ci.utilization),
        ];
        for (value, half) in cells {
            let half =
                half.map_or_else(String::new, |half| format!("<br><span class=\"ci\">± {half}</span>"));
            let _ = write!(page, "<td>{value}{half}</td>");
        }
        let counts = [row.rejected, row.failed, row.cancelled].map(grouped);
        let _ = writeln!(page, "<td>{}</td></tr>", counts.join(", "));
    }
    page.push_str("</tbody></table>\n");
}

/// Goodput and times to the first token of each priority; nothing where all have the same.
pub(super) fn by_priority(page: &mut String, rows: &[&Row]) {
    let Some(some) = rows.iter().find(|row| !row.priorities.is_empty()) else { return };
    page.push_str(
        "<div class=\"card scroll\"><h3>By priority</h3>\n<table><thead><tr><th rowspan=\"2\">policy</th>",
    );
    for class in &some.priorities {
        let _ = write!(page, "<th colspan=\"4\">{}</th>", escape(&class.priority));
    }
    page.push_str("</tr><tr>");
    for _ in &some.priorities {
        page.push_str("<th>goodput</th><th>TTFT p50</th><th>p95</th><th>e2e mean</th>");
    }
    page.push_str("</tr></thead><tbody>\n");
    for row in rows {
        let _ = write!(page, "<tr{}><td>{}</td>", first(&row.policy), escape(&row.policy));
        for class in &row.priorities {
            let half = class
                .ci95
                .goodput
                .map_or_else(String::new, |half| format!(" <span class=\"ci\">± {:.1}</span>", half * 100.0));
            let [p50, p95, e2e] = [class.ttft_ms.p50, class.ttft_ms.p95, class.e2e_ms.mean].map(millis);
            let goodput = percent(class.goodput);
            let _ = write!(page, "<td>{goodput}{half}</td><td>{p50}</td><td>{p95}</td><td>{e2e}</td>");
        }
        page.push_str("</tr>\n");
    }
    page.push_str("</tbody></table>\n</div>\n");
}

/// One figure at every load, and the load that each policy carries.
pub(super) fn against_load(page: &mut String, report: &Report) {
    page.push_str("<table><thead><tr><th>policy</th>");
    for load in &report.loads {
        let rate = load.rate.map_or_else(|| "closed loop".to_owned(), trimmed);
        let _ = write!(page, "<th>{rate} req/s</th>");
    }
    let _ = writeln!(
        page,
        "<th>carries at {:.0} %</th><th>between</th><th>per endpoint</th></tr></thead><tbody>",
        super::super::capacity::GOAL * 100.0
    );
    for capacity in &report.capacity {
        let _ = write!(page, "<tr{}><td>{}</td>", first(&capacity.policy), escape(&capacity.policy));
        for row in report.rows.iter().filter(|row| row.policy == capacity.policy) {
            let half = row
                .ci95
                .goodput
                .map_or_else(String::new, |half| format!(" <span class=\"ci\">± {:.1}</span>", half * 100.0));
            let _ = write!(page, "<td>{}{half}</td>", percent(row.goodput));
        }
        let each = capacity.rate / report.endpoints.max(1) as f64;
        let each = if capacity.below { String::new() } else { format!("{each:.3}") };
        let (rate, between) = (escape(&capacity.show()), capacity.show_between());
        let _ = writeln!(page, "<td>{rate} req/s</td><td>{between}</td><td>{each}</td></tr>");
    }
    page.push_str("</tbody></table>\n");
    if !report.refined.is_empty() {
        let _ = writeln!(page, "<p class=\"note\">{}</p>", escape(super::super::table::REFINED));
    }
}

fn first(policy: &str) -> &'static str {
    if policy == "predictive" { " class=\"first\"" } else { "" }
}
