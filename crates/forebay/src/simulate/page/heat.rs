//! What each endpoint did, by policy: how much of the time it computed, and its
//! share of the tokens.

use std::fmt::Write;

use super::super::rows::{Endpoint, Row};
use super::marks::{binned, escape, groups, percent, share_legend, share_step, step, step_legend};

/// Where the maps begin, and how wide each is.
const LEFTS: [f64; 2] = [200.0, 640.0];
const WIDTH: f64 = 290.0;
const TOP: f64 = 20.0;
const ROW: f64 = 20.0;
/// Endpoints that get a column of their own.
const COLUMNS: usize = 64;

pub(super) fn figure(page: &mut String, rows: &[&Row]) {
    let Some(first) = rows.first() else { return };
    step_legend(page);
    share_legend(page);
    if first.endpoints.len() > COLUMNS {
        let _ = writeln!(
            page,
            "<p class=\"note\">{} endpoints in {COLUMNS} columns: each column is the mean of its neighbours.</p>",
            first.endpoints.len()
        );
    }
    let bottom = TOP + ROW * rows.len() as f64;
    let _ = writeln!(
        page,
        "<svg viewBox=\"0 0 1000 {:.0}\" role=\"img\" aria-label=\"What each endpoint did, by policy\">\
         <text class=\"soft\" x=\"{:.0}\" y=\"12\">computing: mean, least to most</text>\
         <text class=\"soft\" x=\"{:.0}\" y=\"12\">tokens against an equal share</text>\
         <text class=\"soft\" x=\"{:.0}\" y=\"12\">most</text>",
        bottom + 24.0,
        LEFTS[0],
        LEFTS[1],
        LEFTS[1] + WIDTH + 10.0
    );
    for (at, row) in rows.iter().enumerate() {
        line(page, row, TOP + ROW * at as f64);
    }
    for left in LEFTS {
        brackets(page, &first.endpoints, left, bottom);
    }
    page.push_str("</svg>\n");
}

/// One policy in both maps.
fn line(page: &mut String, row: &Row, y: f64) {
    let bold = if row.policy == "predictive" { " class=\"first\"" } else { "" };
    let text = y + 14.0;
    let _ = write!(
        page,
        "<text{bold} x=\"{:.0}\" y=\"{text:.0}\" text-anchor=\"end\">{}</text>",
        LEFTS[0] - 8.0,
        escape(&row.policy)
    );
    let count = row.endpoints.len() as f64;
    let computing: Vec<f64> = row.endpoints.iter().map(|endpoint| endpoint.utilization).collect();
    let shares: Vec<f64> = row.endpoints.iter().map(|endpoint| endpoint.token_share * count).collect();
    cells(page, row, &computing, LEFTS[0], y, &|mean| (format!("h{}", step(mean)), percent(mean)));
    cells(page, row, &shares, LEFTS[1], y, &|mean| {
        (format!("d{}", share_step(mean)), format!("{mean:.2} × an equal share of the tokens"))
    });
    let most = |values: &[f64]| values.iter().copied().fold(0.0, f64::max);
    let least = computing.iter().copied().fold(1.0, f64::min);
    let _ = writeln!(
        page,
        "<text{bold} x=\"{:.0}\" y=\"{text:.0}\">{:.0} % <tspan class=\"soft\">({:.0} to {:.0})</tspan></text>\
         <text{bold} x=\"{:.0}\" y=\"{text:.0}\">× {:.2}</text>",
        LEFTS[0] + WIDTH + 10.0,
        row.utilization * 100.0,
        least * 100.0,
        most(&computing) * 100.0,
        LEFTS[1] + WIDTH + 10.0,
        most(&shares)
    );
}

/// One policy in one map; `show` gives a value's colour and words.
fn cells(
    page: &mut String,
    row: &Row,
    values: &[f64],
    left: f64,
    y: f64,
    show: &dyn Fn(f64) -> (String, String),
) {
    let bins = binned(values, COLUMNS);
    let cell = WIDTH / bins.len().max(1) as f64;
    for (column, (from, to, mean)) in bins.into_iter().enumerate() {
        let (from, to) = (&row.endpoints[from].name, &row.endpoints[to].name);
        let whose = if from == to { from.clone() } else { format!("{from} to {to}") };
        let (fill, words) = show(mean);
        let _ = write!(
            page,
            "<rect x=\"{:.1}\" y=\"{y:.0}\" width=\"{:.1}\" height=\"{:.0}\" fill=\"var(--{fill})\"><title>{}, {}: {words}</title></rect>",
            left + cell * column as f64,
            (cell - 1.0).max(0.5),
            ROW - 1.0,
            escape(&row.policy),
            escape(&whose),
        );
    }
}

/// Names the groups of endpoints below a map.
fn brackets(page: &mut String, endpoints: &[Endpoint], left: f64, bottom: f64) {
    let count = endpoints.len().max(1) as f64;
    for (stem, from, to) in groups(endpoints.iter().map(|endpoint| endpoint.name.as_str())) {
        let from = left + WIDTH * from as f64 / count + 1.0;
        let to = left + WIDTH * (to + 1) as f64 / count - 2.0;
        let _ = writeln!(
            page,
            "<path class=\"axis\" d=\"M{from:.1} {:.0}H{to:.1}\"/><text class=\"soft\" x=\"{:.1}\" y=\"{:.0}\" text-anchor=\"middle\">{}</text>",
            bottom + 4.0,
            f64::midpoint(from, to),
            bottom + 18.0,
            escape(stem)
        );
    }
}
