//! Each part of the price taken away.

use forebay_gate::{Profile, Weights, Without};

use crate::cell::{Contender, Outcome};
use crate::contenders::{predictive, priced, without};
use crate::context::Context;
use crate::doc::Doc;
use crate::stats::Mean;
use crate::workloads;

use super::tables::{self, Comparison, Condition, e2e, percent, points, show, some, ttft};

pub(crate) fn run(context: &Context<'_>) -> Result<Doc, String> {
    let mut doc = Doc::new();
    doc.heading(2, "What each part of the price does");
    doc.paragraph(
        "`predictive` without one part at a time, beside the whole of it on the same traffic. The first row is \
         the whole; every other row is a difference to it, seed by seed: goodput in points ± half the 95 % \
         confidence interval, mean TTFT and mean e2e in per cent. What is surely different is bold: goodput by \
         the interval and a tenth of a point, times by the interval and one per cent.",
    );
    let places = places(context)?;
    let variants = variants(context);
    let it = Comparison::run(context, "ablation", places, variants, |_, _| true)?;
    let mut head = vec!["`predictive`".to_owned()];
    head.extend(it.conditions.iter().map(|place| place.name.clone()));
    let mut rows = Vec::new();
    for (column, variant) in it.contenders.iter().enumerate() {
        let mut row = vec![variant.name.clone()];
        for place in 0..it.conditions.len() {
            row.push(match (column, it.of(place, column), it.of(place, 0)) {
                (0, Some(whole), _) => tables::figures(whole),
                (_, Some(part), Some(whole)) => difference(part, whole),
                _ => String::new(),
            });
        }
        rows.push(row);
    }
    doc.table(&head, &rows);
    doc.paragraph(
        "Goodput. ".to_owned() + &findings(&it, &|part, whole| points(part, whole), 0.1, "points", false),
    );
    doc.paragraph(
        "Mean TTFT. ".to_owned() + &findings(&it, &|part, whole| percent(part, whole, ttft), 1.0, "%", true),
    );
    doc.paragraph(
        "Mean e2e. ".to_owned() + &findings(&it, &|part, whole| percent(part, whole, e2e), 1.0, "%", true),
    );
    Ok(doc)
}

fn places(context: &Context<'_>) -> Result<Vec<Condition>, String> {
    let conversation = workloads::conversation(16)?;
    let tenants = workloads::tenants(16)?;
    let all = vec![
        Condition::new("conversation, 16/s", conversation.clone(), 16.0),
        Condition::new("conversation, 22/s", conversation, 22.0),
        Condition::new("synthetic, 25/s", workloads::synthetic(16)?, 25.0),
        Condition::new("tenants, 100/s", tenants.clone(), 100.0),
        Condition::new("tenants, 130/s", tenants, 130.0),
        Condition::new("agents, 24/s", workloads::agents(16)?, 24.0),
        Condition::new("mixed, 15/s", workloads::mixed(16)?, 15.0),
        Condition::new("code, 10/s", workloads::code(4)?, 10.0),
    ];
    Ok(some(context, 1, all))
}

fn variants(context: &Context<'_>) -> Vec<Contender> {
    let whole = Profile::Balanced.weights();
    let all = vec![
        Contender { name: "whole".to_owned(), ..predictive() },
        priced("no misses of limits", Weights { miss: 0.0, ..whole }),
        priced("no harm to others", Weights { harm: 0.0, ..whole }),
        priced("no own decoding", Weights { decode: 0.0, ..whole }),
        priced("neither of both", Weights { harm: 0.0, decode: 0.0, ..whole }),
        priced("no price of capacity", Weights { max_price: 0.0, ..whole }),
        priced("a third of the first token's weight", Weights { ttft: 1.0, ..whole }),
        priced("sharper misses (width .05)", Weights { width: 0.05, ..whole }),
        priced("softer misses (width .3)", Weights { width: 0.3, ..whole }),
        without("no KV memory", Without { memory: true, ..Without::default() }),
        without("no decode tax on prefill", Without { tax: true, ..Without::default() }),
        without("shared blocks counted each time", Without { distinct: true, ..Without::default() }),
        without("no crowding", Without { crowding: true, ..Without::default() }),
        without("speeds not learned", Without { speeds: true, ..Without::default() }),
        without("TPOT not corrected", Without { correction: true, ..Without::default() }),
        without("neither learned", Without { speeds: true, correction: true, ..Without::default() }),
    ];
    some(context, 4, all)
}

fn difference(part: &[Outcome], whole: &[Outcome]) -> String {
    let goodput = points(part, whole);
    let (first, last) = (percent(part, whole, ttft), percent(part, whole, e2e));
    let times = |by: Mean| mark(format!("{} %", show(Mean { half: 0.0, ..by })), by, 1.0);
    format!("{} / {} / {}", mark(show(goodput), goodput, 0.1), times(first), times(last))
}

fn mark(text: String, by: Mean, least: f64) -> String {
    if is_sure(by, least) { format!("**{text}**") } else { text }
}

/// More than chance, and more than nobody would care for.
fn is_sure(by: Mean, least: f64) -> bool {
    by.mean.abs() >= by.half.max(least)
}

/// What a figure of one is beside the same of the whole.
type Difference = dyn Fn(&[Outcome], &[Outcome]) -> Mean;

/// Which parts surely help, which surely do harm, and which do neither.
fn findings(it: &Comparison, of: &Difference, least: f64, unit: &str, less_is_better: bool) -> String {
    let (mut help, mut harm, mut neither) = (Vec::new(), Vec::new(), Vec::new());
    for (column, variant) in it.contenders.iter().enumerate().skip(1) {
        let mut all: Vec<(Mean, &str)> = (0..it.conditions.len())
            .filter_map(|place| {
                Some((of(it.of(place, column)?, it.of(place, 0)?), it.conditions[place].name.as_str()))
            })
            .collect();
        let worse = |by: f64| if less_is_better { by } else { -by };
        all.sort_by(|a, b| worse(b.0.mean).total_cmp(&worse(a.0.mean)));
        let told = |(by, place): &(Mean, &str)| format!("{} ({} {unit}, {place})", variant.name, show(*by));
        let sure: Vec<_> = all.into_iter().filter(|(by, _)| is_sure(*by, least)).collect();
        let first = sure.first().filter(|(by, _)| worse(by.mean) > 0.0);
        let last = sure.last().filter(|(by, _)| worse(by.mean) < 0.0);
        help.extend(first.map(told));
        harm.extend(last.map(told));
        if first.is_none() && last.is_none() {
            neither.push(variant.name.clone());
        }
    }
    let list = |what: &str, all: Vec<String>| match all.is_empty() {
        true => format!("{what}: none."),
        false => format!("{what}: {}.", all.join("; ")),
    };
    [
        list("Surely worse somewhere, each where it is worst", help),
        list("Surely better somewhere, each where it is best", harm),
        list("No sure difference anywhere", neither),
    ]
    .join(" ")
}
