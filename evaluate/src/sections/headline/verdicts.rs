//! What everybody carries, and against whom `predictive` wins and loses.

use super::results::{Carried, Results, Role, Verdict, verdict};
use crate::capacity::Side;
use crate::cell::{MEAN, Outcome, P99};
use crate::doc::Doc;
use crate::plot::Bars;
use crate::stats::Mean;

/// Rivals in the picture of capacities, besides the plainest two.
const BARS: usize = 6;

pub(super) fn write(doc: &mut Doc, results: &Results) {
    picture(doc, results);
    doc.heading(3, "What each policy carries");
    let mut head = vec!["requests/s at 90 % goodput".to_owned()];
    head.extend(results.judged.iter().map(|judged| judged.scenario.name.clone()));
    let row = |contender: usize, of: &dyn Fn(usize) -> String| {
        let mut row = vec![format!("`{}`", results.name(contender))];
        row.extend((0..results.judged.len()).map(of));
        row
    };
    let all = 0..results.contenders.len();
    let rows: Vec<Vec<String>> =
        all.clone().map(|at| row(at, &|workload| shown(&results.carried(workload, at)))).collect();
    doc.table(&head, &rows);

    doc.heading(3, "`predictive` against each");
    doc.paragraph(
        "How many times as much `predictive` carries at its defaults, seed by seed; **bold** where it loses, \
         *cursive* where it is a tie; «?» where one of the two lies beyond what was tried.",
    );
    "capacity of `predictive` over that of".clone_into(&mut head[0]);
    let rows: Vec<Vec<String>> = all
        .skip(1)
        .map(|at| {
            row(at, &|workload| {
                let (ratio, verdict) = results.ratio(workload, at);
                let is_bound = [0, at].iter().any(|&of| results.carried(workload, of).side != Side::At);
                let bound = if is_bound { " ?" } else { "" };
                let text = format!("{:.2} ± {:.2}{bound}", ratio.mean, ratio.half);
                emphasized(&text, verdict)
            })
        })
        .collect();
    doc.table(&head, &rows);
    losses(doc, results);
    cells(doc, results);
}

fn shown(carried: &Carried) -> String {
    let Mean { mean, half } = carried.mean;
    match carried.side {
        Side::At => format!("{mean:.1} ± {half:.1}"),
        Side::Below => format!("< {mean:.1}"),
        Side::AtLeast => format!("≥ {mean:.1}"),
    }
}

fn emphasized(text: &str, verdict: Verdict) -> String {
    match verdict {
        Verdict::Wins => text.to_owned(),
        Verdict::Ties => format!("*{text}*"),
        Verdict::Loses => format!("**{text}**"),
    }
}

fn losses(doc: &mut Doc, results: &Results) {
    doc.heading(3, "Where `predictive` loses");
    let mut lines = Vec::new();
    let (mut wins, mut ties) = (0, 0);
    for (workload, judged) in results.judged.iter().enumerate() {
        for at in 1..results.contenders.len() {
            let (ratio, verdict) = results.ratio(workload, at);
            match verdict {
                // With other prices it is still itself: those are in the table above.
                _ if results.contenders[at].0 == Role::Variant => {}
                Verdict::Wins => wins += 1,
                Verdict::Ties => ties += 1,
                Verdict::Loses => {
                    let (more, width) = (100.0 * (1.0 - ratio.mean), 100.0 * ratio.half);
                    let name = results.name(at);
                    let on = &judged.scenario.name;
                    lines.push(format!("- *{on}*: it carries {more:.1} ± {width:.1} % less than `{name}`."));
                }
            }
        }
    }
    doc.paragraph(format!(
        "By capacity, of {} comparisons with other policies it wins {wins}, ties {ties} and loses {}{}",
        wins + ties + lines.len(),
        lines.len(),
        if lines.is_empty() { "." } else { ":" }
    ));
    if !lines.is_empty() {
        doc.paragraph(lines.join("\n"));
    }
}

/// What is compared in single cells: its name, its value (more is better), and
/// how a difference is shown.
type Measure = (&'static str, fn(&Outcome) -> f64, bool);

const MEASURES: [Measure; 4] = [
    ("goodput, points", |outcome| 100.0 * outcome.goodput, false),
    ("mean TTFT", |outcome| -outcome.ttft_ms[MEAN], true),
    ("p99 TTFT", |outcome| -outcome.ttft_ms[P99], true),
    ("mean e2e", |outcome| -outcome.e2e_ms[MEAN], true),
];

fn cells(doc: &mut Doc, results: &Results) {
    doc.heading(3, "Single loads");
    doc.paragraph(
        "`predictive` less the best tuned rival of that very cell, whoever it is: goodput in points (more is \
         better), times in per cent (less is better). **Bold** where it loses, *cursive* where it is a tie. \
         The best of thirteen is the best partly by luck.",
    );
    let mut rows = Vec::new();
    for (workload, judged) in results.judged.iter().enumerate() {
        for (what, of, relative) in MEASURES {
            let mut row = vec![judged.scenario.name.clone(), what.to_owned()];
            row.extend(
                judged.rates.iter().map(|rate| {
                    cell(results, workload, *rate, of, relative).unwrap_or_else(|| "–".to_owned())
                }),
            );
            rows.push(row);
        }
    }
    let head = ["", "", "1st load", "2nd", "3rd", "4th", "5th", "6th"];
    doc.table(&head, &rows);
}

fn cell(
    results: &Results,
    workload: usize,
    rate: f64,
    of: fn(&Outcome) -> f64,
    relative: bool,
) -> Option<String> {
    let values = |contender: usize| -> Option<Vec<f64>> {
        Some(results.curves[workload][contender].at(rate)?.seeds.iter().map(of).collect())
    };
    let ours = values(0)?;
    let rivals = results.tuned(workload).into_iter().filter_map(|at| Some((at, values(at)?)));
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len().max(1) as f64;
    let (best, theirs) = rivals.max_by(|a, b| mean(&a.1).total_cmp(&mean(&b.1)))?;
    let difference = match relative {
        // Both are times with a minus sign.
        true => Mean::of(ours.iter().zip(&theirs).map(|(a, b)| 100.0 * (a - b) / b.abs().max(1e-9))),
        false => Mean::of_differences(&ours, &theirs),
    };
    let verdict = verdict(difference, 0.0);
    let shown = if relative { -difference.mean } else { difference.mean };
    let sign = if shown < 0.0 { "−" } else { "+" };
    let unit = if relative { " %" } else { "" };
    let name = results.name(best).trim_start_matches("rival-").trim_end_matches(" tuned");
    let text = format!("{sign}{:.1} ± {:.1}{unit}", shown.abs(), difference.half);
    Some(format!("{} ({name})", emphasized(&text, verdict)))
}

fn picture(doc: &mut Doc, results: &Results) {
    let mut who: Vec<usize> = vec![0];
    // Those that carry most over all workloads.
    let Some(mut tuned) = (!results.judged.is_empty()).then(|| results.tuned(0)) else { return };
    let standing = |at: usize| -> f64 {
        (0..results.judged.len()).map(|workload| 1.0 / results.ratio(workload, at).0.mean).sum()
    };
    tuned.sort_by(|a, b| standing(*b).total_cmp(&standing(*a)));
    who.extend(tuned.into_iter().take(BARS));
    who.extend(super::targets::plainest(results));
    let groups = results.judged.iter().enumerate().map(|(workload, judged)| {
        let ours = results.carried(workload, 0).mean.mean;
        let bars = who.iter().map(|&at| {
            let carried = results.carried(workload, at).mean;
            Some((100.0 * carried.mean / ours, 100.0 * carried.half / ours))
        });
        (judged.scenario.name.clone(), bars.collect())
    });
    let bars = Bars {
        title: "Load carried at 90 % goodput".to_owned(),
        x: "% of what predictive carries".to_owned(),
        names: who.iter().map(|&at| results.name(at).to_owned()).collect(),
        groups: groups.collect(),
    };
    doc.plot("capacity", "load carried at 90 % goodput by workload and policy", bars.svg());
}
