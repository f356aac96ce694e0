//! Every policy on every workload at every load, and what each fleet carries.

mod details;
mod results;
mod targets;
mod verdicts;

use crate::context::Context;
use crate::doc::Doc;

pub(crate) fn run(context: &Context<'_>) -> Result<Doc, String> {
    let results = results::collect(context)?;
    let mut doc = Doc::new();
    doc.heading(2, "Capacity");
    doc.paragraph(
        "The load, in requests per second, up to which 90 % of all requests meet their limits: by a straight \
         line between the two loads around it, for each seed by itself. Everybody is run at six loads, and \
         beyond them until the capacity lies between two; then the gap it lies in is halved until it is less \
         than 3 % of the load for `predictive`, tuned rivals and the plainest policies, and less than 10 % \
         for the others. Once less than 60 % of the requests meet their limits, higher loads are \
         left out («–»). < and ≥: it lies beyond what was tried with some seed.",
    );
    let workloads: Vec<String> = results
        .judged
        .iter()
        .map(|judged| {
            let rates: Vec<String> = judged.rates.iter().map(f64::to_string).collect();
            format!("- *{}*: {}; at {} requests/s", judged.scenario.name, judged.what, rates.join(", "))
        })
        .collect();
    doc.paragraph(workloads.join("\n"));
    targets::write(&mut doc, &results);
    verdicts::write(&mut doc, &results);
    details::write(&mut doc, &results);
    Ok(doc)
}
