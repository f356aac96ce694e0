//! The same load for each endpoint on small and on large fleets.

use std::ops::Range;

use crate::cell::Cell;
use crate::contenders::predictive;
use crate::context::Context;
use crate::doc::Doc;
use crate::workloads;

use super::tables::{Comparison, Condition, FIGURES, rivals, show};

const OURS: usize = 0;
const RIVALS: Range<usize> = 1..5;
/// Requests per second and endpoint.
const LOAD: f64 = 1.25;
/// Requests for each endpoint that fill the caches; three million tokens of
/// them are most of what a cache holds.
const WARMUP: u64 = 300;

pub(crate) fn run(context: &Context<'_>) -> Result<Doc, String> {
    let mut doc = Doc::new();
    doc.heading(2, "From 16 to 1,024 GPUs");
    doc.paragraph(format!(
        "The conversation trace at {LOAD} requests per second for each endpoint, {WARMUP} requests for each to fill \
         the caches, one gateway. Two seeds from 1,024 endpoints on. {FIGURES}"
    ));
    let sizes: &[usize] = if context.quick { &[16, 64] } else { &[16, 64, 256, 1_024] };
    let mut conditions = Vec::new();
    for &endpoints in sizes {
        let mut scenario = workloads::conversation(endpoints)?;
        scenario.warmup = WARMUP * endpoints as u64;
        conditions.push(Condition::new(endpoints.to_string(), scenario, LOAD * endpoints as f64));
    }
    let mut contenders = vec![predictive()];
    contenders.extend(rivals(context));
    let it = Comparison::of_cells(context, "scale", conditions, contenders, |condition, row, _| {
        let seeds = if sizes[row] >= 1_024 { 2 } else { context.seeds.len() };
        // What a decision takes is measured once for each.
        let cells = context.seeds.iter().take(seeds).enumerate();
        Ok(cells.map(|(number, &seed)| Cell { timed: number == 0, ..condition.cell(seed) }).collect())
    })?;
    it.table(&mut doc, "endpoints");
    doc.paragraph(
        "Microseconds of one core for one decision: the prompt looked up in the prefix index, and the pick.",
    );
    let mut head = vec!["endpoints".to_owned()];
    head.extend(it.contenders.iter().map(|contender| contender.name.clone()));
    let took = |row: usize, column: usize| it.of(row, column)?.iter().find_map(|outcome| outcome.decision_us);
    let rows: Vec<Vec<String>> = (0..sizes.len())
        .map(|row| {
            let all = (0..it.contenders.len()).map(|column| took(row, column));
            let told = all.map(|us| us.map_or(String::new(), |us| format!("{us:.1}")));
            std::iter::once(sizes[row].to_string()).chain(told).collect()
        })
        .collect();
    doc.table(&head, &rows);
    let last = sizes.len() - 1;
    let mut text = String::new();
    if let Some((condition, by)) = it.worst(1..sizes.len(), 0, OURS) {
        text += &format!(
            "Beside 16 endpoints `predictive` has at worst {} points ({} endpoints). ",
            show(by),
            condition.name
        );
    }
    if let (Some(small), Some(large)) = (took(0, OURS), took(last, OURS)) {
        text += &format!(
            "A decision among {} endpoints takes it {:.1} times as long as one among {} ({large:.1} against {small:.1} µs). ",
            sizes[last],
            large / small.max(1e-9),
            sizes[0]
        );
    }
    text += &it.standing(OURS, RIVALS);
    doc.paragraph(text);
    Ok(doc)
}
