//! Figures and curves of each workload.

use super::results::{Results, Role};
use super::targets::plainest;
use crate::cell::{MEAN, Outcome, P99};
use crate::doc::Doc;
use crate::plot::{Lines, Series};
use crate::stats::Mean;

/// Tuned rivals that are shown for a workload: those that carry most.
const SHOWN: usize = 5;

/// What of an outcome, as text with its mean over seeds.
type Figure = (&'static str, fn(&Outcome) -> f64, fn(Mean) -> String);

const FIGURES: [Figure; 4] = [
    ("goodput", |outcome| outcome.goodput, |mean| format!("{:.3} ± {:.3}", mean.mean, mean.half)),
    ("mean TTFT, ms", |outcome| outcome.ttft_ms[MEAN], |mean| format!("{:.0} ± {:.0}", mean.mean, mean.half)),
    (
        "p99 TTFT, s",
        |outcome| outcome.ttft_ms[P99] * 1e-3,
        |mean| format!("{:.1} ± {:.1}", mean.mean, mean.half),
    ),
    (
        "mean e2e, s",
        |outcome| outcome.e2e_ms[MEAN] * 1e-3,
        |mean| format!("{:.2} ± {:.2}", mean.mean, mean.half),
    ),
];

pub(super) fn write(doc: &mut Doc, results: &Results) {
    doc.heading(3, "Workload by workload");
    for (workload, judged) in results.judged.iter().enumerate() {
        let name = &judged.scenario.name;
        doc.heading(4, name);
        doc.paragraph(format!("{}.", capitalized(judged.what)));
        let mut lines: Vec<usize> = vec![0];
        lines.extend(results.tuned(workload).into_iter().take(SHOWN));
        lines.extend(plainest(results));
        let series = lines
            .iter()
            .map(|&at| Series { name: results.name(at).to_owned(), points: points(results, workload, at) });
        let plot = Lines {
            title: format!("Goodput: {name}"),
            x: "requests per second".to_owned(),
            y: "goodput".to_owned(),
            series: series.collect(),
            limit: Some(crate::capacity::LIMIT),
        };
        let alt = format!("goodput against load on the workload {name}");
        doc.plot(&format!("goodput-{name}"), &alt, plot.svg());

        let variants = (0..results.contenders.len()).filter(|at| results.contenders[*at].0 == Role::Variant);
        let who: Vec<usize> = [0].into_iter().chain(variants).chain(lines.into_iter().skip(1)).collect();
        for (what, of, text) in FIGURES {
            let mut head = vec![what.to_owned()];
            head.extend(judged.rates.iter().map(|rate| format!("{rate}/s")));
            let rows: Vec<Vec<String>> = who
                .iter()
                .map(|&at| {
                    let mut row = vec![format!("`{}`", results.name(at))];
                    row.extend(judged.rates.iter().map(|rate| {
                        let point = results.curves[workload][at].at(*rate);
                        point.map_or_else(|| "–".to_owned(), |p| text(Mean::of(p.seeds.iter().map(of))))
                    }));
                    row
                })
                .collect();
            doc.table(&head, &rows);
        }
    }
}

/// Of the loads that are plotted: everything up to the highest of the six.
fn points(results: &Results, workload: usize, contender: usize) -> Vec<(f64, f64, f64)> {
    let most = results.judged[workload].rates.last().copied().unwrap_or(f64::INFINITY);
    let curve = &results.curves[workload][contender];
    let shown = curve.points.iter().filter(|point| point.rate <= most);
    shown
        .map(|point| {
            let goodput = Mean::of(point.seeds.iter().map(|outcome| outcome.goodput));
            (point.rate, goodput.mean, goodput.half)
        })
        .collect()
}

fn capitalized(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}
