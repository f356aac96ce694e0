//! Curves against load.

use std::fmt::Write;

use super::super::capacity::{self, GOAL};
use super::super::report::Report;
use super::super::rows::Row;
use super::super::table::{millis, rounded, trimmed};
use super::marks::escape;
use super::tables;

/// Policies with a colour of their own.
const KEYS: usize = 6;

pub(super) fn section(page: &mut String, report: &Report) {
    let keys = keys(report);
    page.push_str("<p class=\"legend\">");
    for (at, key) in keys.iter().enumerate() {
        let _ = write!(
            page,
            "<span><span class=\"swatch\" style=\"background:var(--k{at})\"></span>{}</span> ",
            escape(key)
        );
    }
    page.push_str("<span><span class=\"swatch\" style=\"background:var(--grey)\"></span>all others (point at a line for its name)</span></p>\n");
    let plots = [
        Plot { title: "Goodput", logarithmic: false, of: |row| Some((row.goodput, row.ci95.goodput)) },
        Plot {
            title: "TTFT, mean",
            logarithmic: true,
            of: |row| Some((row.ttft_ms.mean?, row.ci95.ttft_ms.mean)),
        },
        Plot {
            title: "TTFT, 95th percentile",
            logarithmic: true,
            of: |row| Some((row.ttft_ms.p95?, row.ci95.ttft_ms.p95)),
        },
        Plot {
            title: "Time to the last token, mean",
            logarithmic: true,
            of: |row| Some((row.e2e_ms.mean?, row.ci95.e2e_ms.mean)),
        },
    ];
    let mut plots = plots.iter();
    if let Some(goodput) = plots.next() {
        page.push_str("<div class=\"card\">");
        goodput.figure(page, report, &keys, (1000.0, 380.0));
        page.push_str("</div>\n");
    }
    page.push_str("<div class=\"pair\">\n");
    for plot in plots {
        page.push_str("<div class=\"card\">");
        plot.figure(page, report, &keys, (330.0, 270.0));
        page.push_str("</div>\n");
    }
    page.push_str("</div>\n<div class=\"card scroll\"><h3>Goodput at each load</h3>\n");
    tables::against_load(page, report);
    page.push_str("</div>\n");
}

/// The default, the best of each side, and what everybody knows.
fn keys(report: &Report) -> Vec<&str> {
    let best =
        |rival: bool| report.capacity.iter().filter(move |c| c.rival == rival).map(|c| c.policy.as_str());
    let is_run = |name: &&str| report.capacity.iter().any(|capacity| capacity.policy == *name);
    let known = ["predictive"].into_iter().filter(is_run);
    let usual = ["least_request", "round_robin"].into_iter().filter(is_run);
    let mut keys: Vec<&str> = Vec::new();
    for name in known.chain(best(true).take(2)).chain(best(false).take(2)).chain(usual) {
        if keys.len() < KEYS && !keys.contains(&name) {
            keys.push(name);
        }
    }
    keys
}

/// A value, and half the width of its interval.
type Figure = (f64, Option<f64>);

struct Plot {
    title: &'static str,
    logarithmic: bool,
    of: fn(&Row) -> Option<Figure>,
}

impl Plot {
    fn figure(&self, page: &mut String, report: &Report, keys: &[&str], (width, height): (f64, f64)) {
        let values = || {
            report.rows.iter().chain(&report.refined).filter_map(|row| (self.of)(row)).map(|(value, _)| value)
        };
        let scale = if self.logarithmic {
            let positive = || values().filter(|value| *value > 0.0);
            Scale::logarithmic(positive().fold(f64::INFINITY, f64::min), positive().fold(0.0, f64::max))
        } else {
            Scale { from: 0.0, to: 1.0, logarithmic: false }
        };
        let rates: Vec<f64> = report.loads.iter().filter_map(|load| load.rate).collect();
        let (Some(&least), Some(&most)) = (rates.first(), rates.last()) else { return };
        let (left, right, top, bottom) = (64.0, width - 16.0, 34.0, height - 42.0);
        let x = |rate: f64| left + (rate - least) / (most - least).max(1e-12) * (right - left);
        let y = |value: f64| bottom - scale.place(value) * (bottom - top);
        let _ = writeln!(
            page,
            "<h3>{}</h3><svg viewBox=\"0 20 {width:.0} {:.0}\" role=\"img\" aria-label=\"{} against load\">",
            self.title,
            height - 20.0,
            self.title
        );
        for tick in scale.ticks() {
            let at = y(tick);
            let label = if self.logarithmic { rounded(Some(tick)) } else { format!("{:.0} %", tick * 100.0) };
            let _ = writeln!(
                page,
                "<line class=\"grid\" x1=\"{left}\" x2=\"{right}\" y1=\"{at:.1}\" y2=\"{at:.1}\"/>\
                 <text class=\"soft\" x=\"{:.0}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
                left - 7.0,
                at + 4.0,
                label
            );
        }
        if !self.logarithmic {
            let at = y(GOAL);
            let _ = writeln!(
                page,
                "<line class=\"goal\" x1=\"{left}\" x2=\"{right}\" y1=\"{at:.1}\" y2=\"{at:.1}\"/>\
                 <text class=\"soft\" x=\"{:.0}\" y=\"{:.1}\" text-anchor=\"end\">{:.0} %</text>",
                left - 7.0,
                at + 4.0,
                GOAL * 100.0
            );
        }
        for rate in &rates {
            let _ = writeln!(
                page,
                "<line class=\"axis\" x1=\"{0:.1}\" x2=\"{0:.1}\" y1=\"{bottom}\" y2=\"{1:.1}\"/>\
                 <text class=\"soft\" x=\"{0:.1}\" y=\"{2:.1}\" text-anchor=\"middle\">{3}</text>",
                x(*rate),
                bottom + 4.0,
                bottom + 18.0,
                trimmed(*rate)
            );
        }
        let _ = writeln!(
            page,
            "<path class=\"axis\" d=\"M{left} {bottom}H{right}\"/>\
             <text class=\"soft\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">requests per second</text>",
            (left + right) / 2.0,
            bottom + 35.0
        );
        // Others below, the default on top.
        let policies: Vec<&str> = report.capacity.iter().map(|capacity| capacity.policy.as_str()).collect();
        for policy in policies.iter().filter(|policy| !keys.contains(policy)) {
            self.line(page, report, policy, None, &x, &y);
        }
        for (at, policy) in keys.iter().enumerate().rev() {
            self.line(page, report, policy, Some(at), &x, &y);
        }
        page.push_str("</svg>\n");
    }

    /// One policy's line, and for one with a colour of its own points and intervals.
    fn line(
        &self,
        page: &mut String,
        report: &Report,
        policy: &str,
        key: Option<usize>,
        x: &dyn Fn(f64) -> f64,
        y: &dyn Fn(f64) -> f64,
    ) {
        let rows = capacity::curve(policy, &report.rows, &report.refined);
        let points: Vec<(f64, f64, Option<f64>)> = rows
            .into_iter()
            .filter_map(|row| {
                let (value, half) = (self.of)(row)?;
                Some((row.rate?, value, half))
            })
            .collect();
        let mut path = String::new();
        for (at, (rate, value, _)) in points.iter().enumerate() {
            let _ = write!(path, "{}{:.1} {:.1}", if at == 0 { "M" } else { "L" }, x(*rate), y(*value));
        }
        let name = escape(policy);
        let Some(key) = key else {
            let _ = writeln!(page, "<path class=\"other\" d=\"{path}\"><title>{name}</title></path>");
            return;
        };
        let first = if key == 0 { " first" } else { "" };
        let _ = writeln!(
            page,
            "<path class=\"key{first}\" style=\"stroke:var(--k{key})\" d=\"{path}\"><title>{name}</title></path>"
        );
        for (rate, value, half) in points {
            let at = x(rate);
            if let Some(half) = half {
                let _ = write!(
                    page,
                    "<line style=\"stroke:var(--k{key});opacity:.55\" x1=\"{at:.1}\" x2=\"{at:.1}\" y1=\"{:.1}\" y2=\"{:.1}\"/>",
                    y(value - half),
                    y(value + half)
                );
            }
            let shown = if self.logarithmic { millis(Some(value)) } else { super::percent(value) };
            let _ = writeln!(
                page,
                "<circle style=\"fill:var(--k{key})\" cx=\"{at:.1}\" cy=\"{:.1}\" r=\"3.2\"><title>{name} at {} requests per second: {shown}</title></circle>",
                y(value),
                trimmed(rate)
            );
        }
    }
}

/// What the height of a plot means.
struct Scale {
    from: f64,
    to: f64,
    logarithmic: bool,
}

impl Scale {
    /// From a nice number below `least` to one above `most`.
    fn logarithmic(least: f64, most: f64) -> Scale {
        let least = if least.is_finite() && least > 0.0 { least } else { 1.0 };
        let most = most.max(least * 1.01);
        let from = NICE.iter().rev().copied().find(|nice| *nice <= least).unwrap_or(1e-3);
        let to = NICE.iter().copied().find(|nice| *nice >= most).unwrap_or(1e8);
        Scale { from, to, logarithmic: true }
    }

    /// 0 at the bottom, 1 at the top.
    fn place(&self, value: f64) -> f64 {
        let place = if self.logarithmic {
            (value.max(1e-9) / self.from).ln() / (self.to / self.from).ln()
        } else {
            (value - self.from) / (self.to - self.from)
        };
        place.clamp(0.0, 1.0)
    }

    fn ticks(&self) -> Vec<f64> {
        if !self.logarithmic {
            return vec![0.0, 0.25, 0.5, 0.75, 1.0];
        }
        let all: Vec<f64> =
            NICE.iter().copied().filter(|nice| (self.from..=self.to).contains(nice)).collect();
        // A plot has room for about eight.
        let every = all.len().div_ceil(8).max(1);
        all.into_iter().step_by(every).collect()
    }
}

/// Milliseconds that read well.
const NICE: [f64; 33] = [
    1e-3, 2e-3, 5e-3, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0,
    1e3, 2e3, 5e3, 1e4, 2e4, 5e4, 1e5, 2e5, 5e5, 1e6, 2e6, 5e6, 1e7, 2e7, 5e7,
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scales_begin_and_end_at_numbers_that_read_well() {
        let scale = Scale::logarithmic(130.0, 9_000.0);
        assert_eq!((scale.from, scale.to), (100.0, 10_000.0));
        assert_eq!(scale.ticks(), [100.0, 200.0, 500.0, 1e3, 2e3, 5e3, 1e4]);
        assert!((scale.place(1_000.0) - 0.5).abs() < 1e-9);
        assert_eq!((scale.place(0.0), scale.place(1e9)), (0.0, 1.0));
        let empty = Scale::logarithmic(f64::INFINITY, 0.0);
        assert!(empty.place(3.0).is_finite());
        let wide = Scale::logarithmic(0.001, 1e8);
        assert!(wide.ticks().len() <= 8);
    }
}
