//! Small SVG pictures that stand alone: their own ground, fonts and colours.

use std::fmt::Write;

/// A curve with a name and its points: x, y, and half of y's interval.
#[derive(Clone, Debug)]
pub(crate) struct Series {
    pub(crate) name: String,
    pub(crate) points: Vec<(f64, f64, f64)>,
}

/// Curves over one axis.
#[derive(Clone, Debug)]
pub(crate) struct Lines {
    pub(crate) title: String,
    pub(crate) x: String,
    pub(crate) y: String,
    pub(crate) series: Vec<Series>,
    /// A dotted line at this y.
    pub(crate) limit: Option<f64>,
}

/// Horizontal bars in groups.
#[derive(Clone, Debug)]
pub(crate) struct Bars {
    pub(crate) title: String,
    pub(crate) x: String,
    /// One colour each.
    pub(crate) names: Vec<String>,
    /// A group's name, and its bar for each of the names.
    pub(crate) groups: Vec<(String, Vec<Bar>)>,
}

/// A value and half of its interval; none: no bar.
pub(crate) type Bar = Option<(f64, f64)>;

/// Told apart by people who see few colours as well, with the dashes and marks
/// below.
const COLOURS: [&str; 10] = [
    "#0b5fa5", "#d55e00", "#00835f", "#a63d8f", "#7a6a00", "#c1121f", "#3aa0d8", "#5b4b8a", "#555555",
    "#e69f00",
];
const DASHES: [&str; 4] = ["", "7 3", "2 3", "9 3 2 3"];
const INK: &str = "#222222";
const GRID: &str = "#dddddd";

const WIDTH: f64 = 800.0;
const LEGEND: f64 = 215.0;
const LEFT: f64 = 62.0;
const TOP: f64 = 40.0;
const BOTTOM: f64 = 50.0;

impl Lines {
    pub(crate) fn svg(&self) -> String {
        let height = 400.0;
        let (right, bottom) = (WIDTH - LEGEND, height - BOTTOM);
        let all = || self.series.iter().flat_map(|s| s.points.iter());
        let xs = ticks(range(all().map(|p| p.0)));
        let ys = ticks(range(all().flat_map(|p| [p.1 - p.2, p.1 + p.2]).chain(self.limit)));
        let (x0, x1, y0, y1) = (first(&xs), last(&xs), first(&ys), last(&ys));
        let x = |value: f64| LEFT + (value - x0) / (x1 - x0) * (right - LEFT);
        let y = |value: f64| bottom - (value.clamp(y0, y1) - y0) / (y1 - y0) * (bottom - TOP);
        let mut svg = begin(height, &self.title);
        for &tick in &xs {
            line(&mut svg, [x(tick), TOP, x(tick), bottom], GRID, 1.0, "");
            text(&mut svg, x(tick), bottom + 18.0, "middle", 12, &number(tick, &xs));
        }
        for &tick in &ys {
            line(&mut svg, [LEFT, y(tick), right, y(tick)], GRID, 1.0, "");
            text(&mut svg, LEFT - 8.0, y(tick) + 4.0, "end", 12, &number(tick, &ys));
        }
        line(&mut svg, [LEFT, TOP, LEFT, bottom], INK, 1.0, "");
        line(&mut svg, [LEFT, bottom, right, bottom], INK, 1.0, "");
        if let Some(limit) = self.limit {
            line(&mut svg, [LEFT, y(limit), right, y(limit)], INK, 1.0, "1 3");
        }
        text(&mut svg, (LEFT + right) / 2.0, height - 12.0, "middle", 13, &self.x);
        upright(&mut svg, 16.0, (TOP + bottom) / 2.0, &self.y);
        for (at, series) in self.series.iter().enumerate() {
            let colour = COLOURS[at % COLOURS.len()];
            let dash = DASHES[at % DASHES.len()];
            let points: Vec<String> =
                series.points.iter().map(|p| format!("{:.1},{:.1}", x(p.0), y(p.1))).collect();
            let _ = writeln!(
                svg,
                r#"<polyline points="{}" fill="none" stroke="{colour}" stroke-width="2" stroke-dasharray="{dash}"/>"#,
                points.join(" ")
            );
            for p in &series.points {
                if p.2 > 0.0 {
                    line(&mut svg, [x(p.0), y(p.1 - p.2), x(p.0), y(p.1 + p.2)], colour, 1.0, "");
                }
                mark(&mut svg, at, x(p.0), y(p.1), colour);
            }
            let down = TOP + 8.0 + 22.0 * at as f64;
            line(&mut svg, [right + 14.0, down, right + 44.0, down], colour, 2.0, dash);
            mark(&mut svg, at, right + 29.0, down, colour);
            text(&mut svg, right + 50.0, down + 4.0, "start", 12, &series.name);
        }
        svg.push_str("</svg>\n");
        svg
    }
}

impl Bars {
    pub(crate) fn svg(&self) -> String {
        let (bar, gap) = (13.0, 14.0);
        let left = 118.0;
        let tall = self.groups.iter().map(|(_, values)| values.iter().flatten().count() as f64 * bar + gap);
        let height = TOP + tall.sum::<f64>().max(22.0 * self.names.len() as f64) + BOTTOM;
        let (right, bottom) = (WIDTH - LEGEND, height - BOTTOM);
        let values = || self.groups.iter().flat_map(|(_, values)| values.iter().flatten());
        let xs = ticks(range(values().map(|(value, half)| value + half).chain([0.0])));
        let (x0, x1) = (first(&xs), last(&xs));
        let x = |value: f64| left + (value.clamp(x0, x1) - x0) / (x1 - x0) * (right - left);
        let mut svg = begin(height, &self.title);
        for &tick in &xs {
            line(&mut svg, [x(tick), TOP, x(tick), bottom], GRID, 1.0, "");
            text(&mut svg, x(tick), bottom + 18.0, "middle", 12, &number(tick, &xs));
        }
        let mut down = TOP + gap / 2.0;
        for (name, values) in &self.groups {
            let from = down;
            for (at, value) in values.iter().enumerate() {
                let Some((value, half)) = value else { continue };
                let colour = COLOURS[at % COLOURS.len()];
                let _ = writeln!(
                    svg,
                    r#"<rect x="{left:.1}" y="{:.1}" width="{:.1}" height="{:.1}" fill="{colour}"/>"#,
                    down + 1.0,
                    (x(*value) - left).max(0.0),
                    bar - 2.0
                );
                let middle = down + bar / 2.0;
                if *half > 0.0 {
                    line(&mut svg, [x(value - half), middle, x(value + half), middle], INK, 1.5, "");
                }
                down += bar;
            }
            text(&mut svg, left - 8.0, (from + down) / 2.0 + 4.0, "end", 13, name);
            down += gap;
        }
        line(&mut svg, [left, TOP, left, bottom], INK, 1.0, "");
        text(&mut svg, (left + right) / 2.0, height - 12.0, "middle", 13, &self.x);
        for (at, name) in self.names.iter().enumerate() {
            let down = TOP + 8.0 + 22.0 * at as f64;
            let colour = COLOURS[at % COLOURS.len()];
            let _ = writeln!(
                svg,
                r#"<rect x="{:.1}" y="{:.1}" width="16" height="11" fill="{colour}"/>"#,
                right + 24.0,
                down - 6.0
            );
            text(&mut svg, right + 48.0, down + 4.0, "start", 12, name);
        }
        svg.push_str("</svg>\n");
        svg
    }
}

fn begin(height: f64, title: &str) -> String {
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" width=\"{WIDTH}\" \
         height=\"{height}\" font-family=\"system-ui, 'Segoe UI', 'DejaVu Sans', sans-serif\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n"
    );
    let _ = writeln!(
        svg,
        r#"<text x="{LEFT}" y="24" font-size="15" font-weight="600" fill="{INK}">{}</text>"#,
        escaped(title)
    );
    svg
}

fn line(svg: &mut String, [x1, y1, x2, y2]: [f64; 4], colour: &str, width: f64, dash: &str) {
    let dash = if dash.is_empty() { String::new() } else { format!(r#" stroke-dasharray="{dash}""#) };
    let _ = writeln!(
        svg,
        r#"<line x1="{x1:.1}" y1="{y1:.1}" x2="{x2:.1}" y2="{y2:.1}" stroke="{colour}" stroke-width="{width}"{dash}/>"#
    );
}

fn text(svg: &mut String, x: f64, y: f64, anchor: &str, size: u32, words: &str) {
    let _ = writeln!(
        svg,
        r#"<text x="{x:.1}" y="{y:.1}" text-anchor="{anchor}" font-size="{size}" fill="{INK}">{}</text>"#,
        escaped(words)
    );
}

fn upright(svg: &mut String, x: f64, y: f64, words: &str) {
    let _ = writeln!(
        svg,
        r#"<text transform="translate({x:.1} {y:.1}) rotate(-90)" text-anchor="middle" font-size="13" fill="{INK}">{}</text>"#,
        escaped(words)
    );
}

/// A point of the series with this number.
fn mark(svg: &mut String, series: usize, x: f64, y: f64, colour: &str) {
    let _ = match series % 3 {
        0 => writeln!(svg, r#"<circle cx="{x:.1}" cy="{y:.1}" r="3.5" fill="{colour}"/>"#),
        1 => {
            let (x, y) = (x - 3.2, y - 3.2);
            writeln!(svg, r#"<rect x="{x:.1}" y="{y:.1}" width="6.4" height="6.4" fill="{colour}"/>"#)
        }
        _ => writeln!(svg, r#"<path d="M{x:.1} {:.1} l4.2 7.6 h-8.4 z" fill="{colour}"/>"#, y - 4.6),
    };
}

fn escaped(words: &str) -> String {
    words.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

fn range(values: impl Iterator<Item = f64>) -> (f64, f64) {
    values
        .filter(|value| value.is_finite())
        .fold((f64::INFINITY, f64::NEG_INFINITY), |(least, most), value| (least.min(value), most.max(value)))
}

/// Round numbers, from at most the least to at least the most.
fn ticks((least, most): (f64, f64)) -> Vec<f64> {
    if !least.is_finite() || !most.is_finite() {
        return vec![0.0, 1.0];
    }
    let span = (most - least).max(most.abs() * 1e-6).max(1e-9);
    let rough = span / 7.0;
    let power = 10f64.powf(rough.log10().floor());
    let step =
        [1.0, 2.0, 2.5, 5.0, 10.0].map(|by| by * power).into_iter().find(|step| *step >= rough * 0.999);
    let step = step.unwrap_or(power * 10.0);
    let (from, to) = ((least / step + 1e-9).floor(), (most / step - 1e-9).ceil());
    let to = to.max(from + 1.0);
    (0..=(to - from) as usize).map(|at| (from + at as f64) * step).collect()
}

fn first(ticks: &[f64]) -> f64 {
    ticks.first().copied().unwrap_or(0.0)
}

fn last(ticks: &[f64]) -> f64 {
    ticks.last().copied().unwrap_or(1.0)
}

/// With as many digits as tell these ticks apart.
fn number(tick: f64, ticks: &[f64]) -> String {
    let step = ticks.windows(2).map(|pair| pair[1] - pair[0]).fold(f64::INFINITY, f64::min);
    let digits = (0..6).find(|digits| {
        let scaled = step * 10f64.powi(*digits);
        (scaled - scaled.round()).abs() < 1e-6 * scaled.abs().max(1e-9)
    });
    format!("{tick:.*}", digits.unwrap_or(6) as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_enclose() {
        assert_eq!(ticks((0.0, 1.0)), [0.0, 0.2, 0.4, 0.6000000000000001, 0.8, 1.0]);
        assert_eq!(ticks((8.0, 24.0)), [7.5, 10.0, 12.5, 15.0, 17.5, 20.0, 22.5, 25.0]);
        assert_eq!(ticks((f64::INFINITY, f64::NEG_INFINITY)), [0.0, 1.0]);
        assert!(ticks((3.0, 3.0)).len() >= 2);
        assert_eq!(number(7.5, &[7.5, 10.0]), "7.5");
        assert_eq!(number(0.6000000000000001, &[0.4, 0.6000000000000001]), "0.6");
        assert_eq!(number(200.0, &[100.0, 200.0]), "200");
    }

    #[test]
    fn pictures_are_well_formed() {
        let series = Series { name: "a<b & c".to_owned(), points: vec![(1.0, 0.5, 0.1), (2.0, 0.7, 0.0)] };
        let lines = Lines {
            title: "t".to_owned(),
            x: "x".to_owned(),
            y: "y".to_owned(),
            series: vec![series],
            limit: Some(0.9),
        };
        let bars = Bars {
            title: "t".to_owned(),
            x: "x".to_owned(),
            names: vec!["one".to_owned(), "two".to_owned()],
            groups: vec![("g".to_owned(), vec![Some((3.0, 0.5)), None])],
        };
        for svg in [lines.svg(), bars.svg()] {
            assert!(svg.starts_with("<svg ") && svg.ends_with("</svg>\n"));
            assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
        }
        assert!(lines.svg().contains("a&lt;b &amp; c"));
    }
}
