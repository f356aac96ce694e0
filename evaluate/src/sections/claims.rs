//! What guides to load balancing claim, as scenarios.

mod busy;
mod edge;
mod failure;
mod fleets;
mod interactive;
mod learning;
mod limit;
mod millions;
mod prefixes;
mod response_time;
mod rows;
mod turns;
mod weights;

use rows::Claim;

use crate::context::Context;
use crate::doc::Doc;

type Check = fn(&Context<'_>) -> Result<Claim, String>;

/// In the order of the table.
const CLAIMS: &[Check] = &[
    busy::claim,
    weights::claim,
    turns::claim,
    response_time::claim,
    learning::claim,
    interactive::claim,
    edge::claim,
    prefixes::claim,
    failure::claim,
    millions::claim,
];

pub(crate) fn run(context: &Context<'_>) -> Result<Doc, String> {
    let claims = CLAIMS.iter().map(|claim| claim(context)).collect::<Result<Vec<Claim>, String>>()?;
    let mut doc = Doc::new();
    doc.heading(2, "Claims that guides make");
    doc.paragraph(
        "Guides to load balancing for inference promise figures. Each is a scenario here, with what was \
         reached and under which conditions. A fleet's *capacity* is the highest load that it carries with \
         90 % goodput, found for each policy and seed by halving the gap it lies in; ± is half of the 95 % \
         confidence interval over seeds. *Confirmed* is what reaches the claimed figure in every case tried, \
         *partly* what does in some or in part; what it does not reach has its reason below the table.",
    );
    let rows: Vec<Vec<String>> =
        claims.iter().flat_map(|claim| claim.rows.iter().map(rows::Row::cells)).collect();
    doc.table(&["claimed", "reached", "conditions", "verdict"], &rows);
    for claim in claims {
        doc.heading(3, claim.title);
        for row in &claim.rows {
            if let Some(why) = row.why() {
                doc.paragraph(format!("*{}*: {why}", row.claimed));
            }
        }
        doc.append(claim.detail);
    }
    Ok(doc)
}
