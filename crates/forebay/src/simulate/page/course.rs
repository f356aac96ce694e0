//! How a run went over time: where requests were sent, where they were, and who
//! computed.

use std::fmt::Write;

use forebay_sim::fleet::TimelinePoint;

use super::super::report::{Event, Report};
use super::super::table::trimmed;
use super::super::timeline::Timeline;
use super::marks::{binned, escape, groups, percent, share_legend, share_step, step, step_legend};

/// Where each map begins, and how wide it is.
const WIDTH: f64 = 258.0;
const FIRST_LEFT: f64 = 100.0;
const APART: f64 = 58.0;
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
         known ones and the last. A column is a stretch of time, a row an endpoint{}. Left, the decisions: how many of \
         the stretch's requests were sent there, against an equal share. Middle: the requests that were there at its \
         end, running or waiting, against the mean of all endpoints. Right: how much of the stretch it computed. Above \
         them: requests sent per second, the goodput of what was served in the stretch, and the requests that waited \
         in all.</p>\n",
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

/// One of the maps of endpoints over time, and the line above it.
#[derive(Clone, Copy, PartialEq)]
enum Map {
    /// Where requests were sent; above it how many per second.
    Decisions,
    /// Where they were; above it goodput.
    There,
    /// Who computed; above it what waited.
    Computing,
}

impl Map {
    const ALL: [Map; 3] = [Map::Decisions, Map::There, Map::Computing];

    fn left(self) -> f64 {
        let place = match self {
            Map::Decisions => 0.0,
            Map::There => 1.0,
            Map::Computing => 2.0,
        };
        FIRST_LEFT + place * (WIDTH + APART)
    }

    fn title(self) -> &'static str {
        match self {
            Map::Decisions => "decisions, against an equal share",
            Map::There => "requests there, against the mean",
            Map::Computing => "computing",
        }
    }

    /// One value for each endpoint.
    fn values(self, point: &TimelinePoint) -> Vec<f64> {
        let there = || point.running.iter().zip(&point.waiting);
        match self {
            Map::Decisions => point.sent.iter().map(|sent| f64::from(*sent)).collect(),
            Map::There => there().map(|(runs, waits)| f64::from(*runs) + f64::from(*waits)).collect(),
            Map::Computing => point.busy.iter().map(|busy| f64::from(*busy)).collect(),
        }
    }

    /// The colour and the words for one value of which all have that mean.
    fn show(self, value: f64, mean: f64) -> (String, String) {
        // With nothing anywhere all are equal.
        let relative = if mean > 0.0 { value / mean } else { 1.0 };
        match self {
            Map::Decisions => (
                format!("d{}", share_step(relative)),
                format!("{} sent there, {relative:.2} × an equal share", trimmed(value)),
            ),
            Map::There => (
                format!("d{}", share_step(relative)),
                format!("{} requests, {relative:.2} × the mean", trimmed(value)),
            ),
            Map::Computing => (format!("h{}", step(value)), percent(value)),
        }
    }

    /// The name of the line above, and its value for a stretch of so many seconds.
    fn line(self, point: &TimelinePoint, seconds: f64) -> (&'static str, Option<f64>) {
        let sum = |values: &[u32]| values.iter().map(|value| f64::from(*value)).sum::<f64>();
        match self {
            Map::Decisions => ("sent/s", Some(sum(&point.sent) / seconds.max(1e-9))),
            Map::There => ("goodput", (point.served > 0).then(|| point.met as f64 / point.served as f64)),
            Map::Computing => ("waiting", Some(sum(&point.waiting))),
        }
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
            "<svg viewBox=\"0 0 1000 {:.0}\" role=\"img\" aria-label=\"Decisions, requests and computing over time under {}\">",
            bottom + 36.0,
            escape(&timeline.policy)
        );
        self.brackets(page, cell, rows);
        for map in Map::ALL {
            let left = map.left();
            let x = |at: f64| left + (at / span).clamp(0.0, 1.0) * WIDTH;
            let mut from = 0.0;
            for point in self.points {
                self.column(page, point, map, (from, point.at), &x, cell);
                from = point.at;
            }
            self.strip(page, map, &x);
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
            let _ = writeln!(
                page,
                "<text class=\"soft\" x=\"{:.1}\" y=\"{:.0}\" text-anchor=\"middle\">{}</text>",
                left + WIDTH / 2.0,
                bottom + 32.0,
                map.title()
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
                FIRST_LEFT - 4.0,
                FIRST_LEFT - 9.0,
                f64::midpoint(from, to) + 4.0,
                escape(stem)
            );
        }
    }

    /// One stretch of one of the maps.
    fn column(
        &self,
        page: &mut String,
        point: &TimelinePoint,
        map: Map,
        (from, to): (f64, f64),
        x: &dyn Fn(f64) -> f64,
        cell: f64,
    ) {
        let values = map.values(point);
        let mean = values.iter().sum::<f64>() / values.len().max(1) as f64;
        for (row, (first, last, value)) in binned(&values, ROWS).into_iter().enumerate() {
            let (fill, words) = map.show(value, mean);
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

    /// The line above a map.
    fn strip(&self, page: &mut String, map: Map, x: &dyn Fn(f64) -> f64) {
        let mut name = "";
        let mut marks = Vec::new();
        let mut from = 0.0;
        for point in self.points {
            let (what, value) = map.line(point, point.at - from);
            name = what;
            marks.extend(value.map(|value| (f64::midpoint(from, point.at), value)));
            from = point.at;
        }
        let most = marks.iter().map(|(_, value)| *value).fold(1.0, f64::max);
        let bottom = 12.0 + STRIP;
        let mut path = String::new();
        for (at, value) in marks {
            let begin = if path.is_empty() { 'M' } else { 'L' };
            let _ = write!(path, "{begin}{:.1} {:.1}", x(at), bottom - value / most * STRIP);
        }
        let top = if map == Map::There { "100 %".to_owned() } else { format!("{most:.0}") };
        let left = map.left();
        let _ = writeln!(
            page,
            "<path class=\"axis\" d=\"M{left} {bottom}h{WIDTH}M{left} 12h{WIDTH}\"/><path class=\"key\" style=\"stroke:var(--k0)\" d=\"{path}\"/>\
             <text class=\"soft\" x=\"{0:.0}\" y=\"16\" text-anchor=\"end\">{top}</text>\
             <text class=\"soft\" x=\"{0:.0}\" y=\"{1:.0}\" text-anchor=\"end\">{name}</text>\
             <text class=\"soft\" x=\"{0:.0}\" y=\"{2:.0}\" text-anchor=\"end\">0</text>",
            left - 6.0,
            f64::midpoint(12.0, bottom) + 4.0,
            bottom + 4.0
        );
    }
}
