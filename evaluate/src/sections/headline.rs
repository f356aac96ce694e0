//! Every policy on every workload at every load.

use forebay_gate::PolicyKind;
use forebay_sim::baselines::BaselineKind;

use crate::contenders;
use crate::context::Context;
use crate::doc::Doc;
use crate::stats::Mean;
use crate::workloads;

pub(crate) fn run(context: &Context<'_>) -> Result<Doc, String> {
    let mut doc = Doc::new();
    doc.heading(2, "Capacity");
    let mut all: Vec<_> = PolicyKind::ALL.into_iter().map(contenders::ours).collect();
    all.extend(BaselineKind::ALL.iter().map(|kind| context.best(*kind)));
    for judged in workloads::judged()? {
        let grid = context.grid(&judged.scenario.name, &judged.scenario, &judged.rates, &all)?;
        let mut head = vec!["goodput".to_owned()];
        head.extend(judged.rates.iter().map(|rate| format!("{rate}/s")));
        let rows: Vec<Vec<String>> = all
            .iter()
            .zip(&grid.outcomes)
            .map(|(contender, by_rate)| {
                let mut row = vec![contender.name.clone()];
                row.extend(by_rate.iter().map(|seeds| {
                    let goodput = Mean::of(seeds.iter().map(|outcome| outcome.goodput));
                    format!("{:.3} ± {:.3}", goodput.mean, goodput.half)
                }));
                row
            })
            .collect();
        doc.heading(3, &judged.scenario.name);
        doc.paragraph(judged.what);
        doc.table(&head, &rows);
    }
    Ok(doc)
}
