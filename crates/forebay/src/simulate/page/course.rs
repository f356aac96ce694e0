//! How a run went over time: where requests were, and who computed.

use std::fmt::Write;

use forebay_sim::fleet::TimelinePoint;

use super::super::report::{Event, Report};
use super::super::table::trimmed;
use super::super::timeline::Timeline;
use super::marks::{binned, escape, groups, percent, share_legend, share_step, step, step_legend};

/// Where the two maps begin, and how wide each is.
const LEFTS: [f64; 2] = [100.0, 570.0];
const WIDTH: f64 = 400.0;
/// The strip above each map.
const STRIP: f64 = 40.0;
const TOP: f64 = STRIP + 30.0;
/// Endpoints that get a row of their own.
const ROWS: usize = 32;

pub(super) fn section(page: &mut String, report: &Report) {
    let Some(first) = report.timelines.first() else { return };
    let at = first.rate.map_or_else(String::new, |rate| format!(" at {} requests per second", trimmed(rate)));
    let many = first.points.first().is_some_and(|point| point.busy.len() > ROWS);
    let _ = write!(
        page,
        "<h2>Over time{at}</h2>\n<p>The run with the first seed, warm-up included, under the best policies, the best \
         known ones and the last. A column is a stretch of time, a row an endpoint{}. Left: the requests that were \
         there at the end of the stretch, running or waiting, against the mean of all endpoints. Right: how much of \
         the stretch it computed. Above them: the goodput of what was served in the stretch, and the requests that \
         waited in all.</p>\n",
        if many { " or the mean of neighbours" } else { "" }
    );
    share_legend(page);
    step_legend(page);
    let names: Vec<&str> = report
        .rows
        .first()
        .map(|row| row.endpoints.iter().map(|endpoint| endpoint.name.as_str()).collect())
        .unwrap_or_default();
    for timeline in &report.timelines {
        let _ = writeln!(page, "<div class=\"card\"><h3>{}</h3>", escape(&timeline.policy));
        Course { points: &timeline.points, names: &names }.figure(page, timeline, &report.fleet_events);
        page.push_str("</div>\n");
    }
}

struct Course<'a> {
    points: &'a [TimelinePoint],
    names: &'a [&'a str],
}

impl Course<'_> {
    fn figure(&self, page: &mut String, timeline: &Timeline, events: &[Event]) {
        let Some(last) = self.points.last() else { return };
        let span = last.at.max(1e-9);
        let rows = self.names.len().clamp(1, ROWS);
        let cell = (240.0 / rows as f64).clamp(7.0, 15.0);
        let bottom = TOP + cell * rows as f64;
        let _ = writeln!(
            page,
            "<svg viewBox=\"0 0 1000 {:.0}\" role=\"img\" aria-label=\"Requests and computing over time under {}\">",
            bottom + 36.0,
            escape(&timeline.policy)
        );
        self.brackets(page, cell, rows);
        for (side, left) in LEFTS.into_iter().enumerate() {
            let x = |at: f64| left + (at / span).clamp(0.0, 1.0) * WIDTH;
            let mut from = 0.0;
            for point in self.points {
                self.column(page, point, side == 0, (from, point.at), &x, cell);
                from = point.at;
            }
            self.strip(page, side == 0, left, &x);
            for event in events.iter().filter(|event| event.at_s <= last.at) {
                let at = x(event.at_s);
                let _ = writeln!(
                    page,
                    "<line class=\"event\" x1=\"{at:.1}\" x2=\"{at:.1}\" y1=\"{:.0}\" y2=\"{:.1}\"><title>{}</title></line>",
                    TOP - 4.0,
                    bottom + 3.0,
                    escape(&event.what)
                );
            }
            for (at, anchor) in [(0.0, "start"), (span / 2.0, "middle"), (span, "end")] {
                let _ = writeln!(
                    page,
                    "<text class=\"soft\" x=\"{:.1}\" y=\"{:.0}\" text-anchor=\"{anchor}\">{at:.0} s</text>",
                    x(at),
                    bottom + 16.0
                );
            }
            let what = if side == 0 { "requests there, against the mean" } else { "computing" };
            let _ = writeln!(
                page,
                "<text class=\"soft\" x=\"{:.1}\" y=\"{:.0}\" text-anchor=\"middle\">{what}</text>",
                left + WIDTH / 2.0,
                bottom + 32.0
            );
        }
        page.push_str("</svg>\n");
    }

    fn brackets(&self, page: &mut String, cell: f64, rows: usize) {
        for (stem, from, to) in groups(self.names.iter().copied()) {
            let y = |at: usize| TOP + cell * (at * rows) as f64 / self.names.len().max(1) as f64;
            let (from, to) = (y(from) + 1.0, y(to + 1) - 1.0);
            let _ = writeln!(
                page,
                "<path class=\"axis\" d=\"M{:.0} {from:.1}V{to:.1}\"/><text class=\"soft\" x=\"{:.0}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
                LEFTS[0] - 4.0,
                LEFTS[0] - 9.0,
                f64::midpoint(from, to) + 4.0,
                escape(stem)
            );
        }
    }

    /// One stretch of one of the two maps.
    fn column(
        &self,
        page: &mut String,
        point: &TimelinePoint,
        is_there: bool,
        (from, to): (f64, f64),
        x: &dyn Fn(f64) -> f64,
        cell: f64,
    ) {
        let there: Vec<f64> = point
            .running
            .iter()
            .zip(&point.waiting)
            .map(|(running, waiting)| f64::from(*running) + f64::from(*waiting))
            .collect();
        let mean = there.iter().sum::<f64>() / there.len().max(1) as f64;
        let values = if is_there { there } else { point.busy.iter().map(|busy| f64::from(*busy)).collect() };
        for (row, (first, last, value)) in binned(&values, ROWS).into_iter().enumerate() {
            let (fill, words) = if is_there {
                // With nothing anywhere all are equal.
                let relative = if mean > 0.0 { value / mean } else { 1.0 };
                (
                    format!("d{}", share_step(relative)),
                    format!("{value:.0} requests, {relative:.2} × the mean"),
                )
            } else {
                (format!("h{}", step(value)), percent(value))
            };
            let name = |at: usize| self.names.get(at).copied().unwrap_or_default();
            let whose = if first == last {
                name(first).to_owned()
            } else {
                format!("{} to {}", name(first), name(last))
            };
            let _ = write!(
                page,
                "<rect x=\"{:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{:.1}\" fill=\"var(--{fill})\"><title>{}, {from:.0} to {to:.0} s: {words}</title></rect>",
                x(from),
                TOP + cell * row as f64,
                (x(to) - x(from) - 0.7).max(0.4),
                cell - 0.7,
                escape(&whose)
            );
        }
        page.push('\n');
    }

    /// A line above a map: goodput, or what waits.
    fn strip(&self, page: &mut String, is_goodput: bool, left: f64, x: &dyn Fn(f64) -> f64) {
        let value = |point: &TimelinePoint| {
            if is_goodput {
                (point.served > 0).then(|| point.met as f64 / point.served as f64)
            } else {
                Some(point.waiting.iter().map(|waiting| f64::from(*waiting)).sum())
            }
        };
        let most = self.points.iter().filter_map(value).fold(1.0, f64::max);
        let bottom = 12.0 + STRIP;
        let y = |value: f64| bottom - value / most * STRIP;
        let mut path = String::new();
        let mut from = 0.0;
        for point in self.points {
            if let Some(value) = value(point) {
                let begin = if path.is_empty() { 'M' } else { 'L' };
                let _ = write!(path, "{begin}{:.1} {:.1}", x(f64::midpoint(from, point.at)), y(value));
            }
            from = point.at;
        }
        let top = if is_goodput { "100 %".to_owned() } else { format!("{most:.0}") };
        let what = if is_goodput { "goodput" } else { "waiting" };
        let _ = writeln!(
            page,
            "<path class=\"axis\" d=\"M{left} {bottom}h{WIDTH}M{left} 12h{WIDTH}\"/><path class=\"key\" style=\"stroke:var(--k0)\" d=\"{path}\"/>\
             <text class=\"soft\" x=\"{0:.0}\" y=\"16\" text-anchor=\"end\">{top}</text>\
             <text class=\"soft\" x=\"{0:.0}\" y=\"{1:.0}\" text-anchor=\"end\">{what}</text>\
             <text class=\"soft\" x=\"{0:.0}\" y=\"{2:.0}\" text-anchor=\"end\">0</text>",
            left - 6.0,
            f64::midpoint(12.0, bottom) + 4.0,
            bottom + 4.0
        );
    }
}
