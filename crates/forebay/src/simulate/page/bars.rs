//! Goodput of every policy with its interval.

use std::fmt::Write;

use super::super::rows::Row;
use super::marks::{escape, percent};

const LEFT: f64 = 210.0;
const RIGHT: f64 = 880.0;
const ROW: f64 = 22.0;

pub(super) fn figure(page: &mut String, rows: &[&Row]) {
    let height = ROW * rows.len() as f64 + 26.0;
    let x = |share: f64| LEFT + (RIGHT - LEFT) * share.clamp(0.0, 1.0);
    let _ = writeln!(
        page,
        "<svg viewBox=\"0 0 1000 {height:.0}\" role=\"img\" aria-label=\"Goodput by policy; the numbers are in the table below\">"
    );
    let bottom = ROW * rows.len() as f64;
    for tenth in (0..=10).step_by(2) {
        let at = x(f64::from(tenth) / 10.0);
        let _ = writeln!(
            page,
            "<line class=\"grid\" x1=\"{at:.1}\" x2=\"{at:.1}\" y1=\"0\" y2=\"{bottom:.0}\"/>\
             <text class=\"soft\" x=\"{at:.1}\" y=\"{:.0}\" text-anchor=\"middle\">{} %</text>",
            bottom + 17.0,
            tenth * 10
        );
    }
    for (at, row) in rows.iter().enumerate() {
        let y = ROW * at as f64;
        let first = if row.policy == "predictive" { " first" } else { "" };
        let side = if row.rival { "rival" } else { "ours" };
        let _ = write!(
            page,
            "<text class=\"name{first}\" x=\"{:.0}\" y=\"{:.1}\" text-anchor=\"end\">{}{}</text>\
             <rect class=\"{side}{first}\" x=\"{LEFT:.0}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{:.1}\" rx=\"2\"/>",
            LEFT - 8.0,
            y + ROW / 2.0 + 4.0,
            row.mark(),
            escape(&row.policy),
            y + 3.0,
            x(row.goodput) - LEFT,
            ROW - 6.0
        );
        let mut label = percent(row.goodput);
        if let Some(half) = row.ci95.goodput {
            let (from, to, middle) = (x(row.goodput - half), x(row.goodput + half), y + ROW / 2.0);
            let _ = write!(
                page,
                "<path class=\"whisker\" d=\"M{from:.1} {middle:.1}H{to:.1}M{from:.1} {:.1}v6M{to:.1} {:.1}v6\"/>",
                middle - 3.0,
                middle - 3.0
            );
            let _ = write!(label, " ± {:.1}", half * 100.0);
        }
        let _ = writeln!(
            page,
            "<text class=\"value{first}\" x=\"{:.0}\" y=\"{:.1}\">{label}</text>",
            RIGHT + 12.0,
            y + ROW / 2.0 + 4.0
        );
    }
    page.push_str("</svg>\n");
}
