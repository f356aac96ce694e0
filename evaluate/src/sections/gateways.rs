//! Several gateways before one fleet, each with a view of its own.

use std::ops::Range;
use std::time::Duration;

use forebay_gate::Without;
use forebay_sim::fleet::Fleet;

use crate::contenders::{predictive, without};
use crate::context::Context;
use crate::doc::Doc;
use crate::scenario::Scenario;
use crate::stats::Mean;
use crate::workloads;

use super::tables::{Comparison, Condition, FIGURES, rivals, show};

const OURS: usize = 0;
const NO_WINDOW: usize = 1;
const RIVALS: Range<usize> = 2..6;
/// How often gateways tell each other what they have in flight, in milliseconds.
const INTERVALS: [Option<u64>; 6] = [Some(10), Some(30), Some(100), Some(500), Some(2_000), None];

pub(crate) fn run(context: &Context<'_>) -> Result<Doc, String> {
    let mut doc = Doc::new();
    doc.heading(2, "Several gateways");
    doc.paragraph(format!(
        "Requests come to one of several gateways at random. Each knows what it sent itself at once, and what \
         the others have in flight as often as they tell each other. *Without window* looks at every endpoint \
         always; `predictive` itself sends prompts that nobody holds only to endpoints of its own part of the \
         fleet while what it knows of the others is old. {FIGURES}"
    ));
    let conversation = workloads::conversation(16)?;
    let mut rows = vec![Condition::new("1", conversation.clone(), 18.0)];
    for gateways in [2, 4, 8, 16] {
        rows.extend(INTERVALS.map(|every| several(&conversation, 18.0, gateways, every)));
    }
    if context.quick {
        rows = vec![rows.swap_remove(0), several(&conversation, 18.0, 8, Some(500))];
    }
    doc.heading(3, "conversation at 18/s");
    table(context, &mut doc, "gateways: conversation", rows)?;
    if context.quick {
        return Ok(doc);
    }

    let skewed = [Some(30), Some(100), Some(500), Some(2_000), None].map(|every| {
        let mut row = several(&conversation, 18.0, 8, every);
        row.name += ", two of them with a quarter each";
        row.scenario.name += ", skewed";
        row.scenario.fleet.gateway_shares = vec![3.0, 3.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0];
        row
    });
    let synthetic = workloads::synthetic(16)?;
    let mut others = vec![Condition::new("1", synthetic.clone(), 20.0)];
    others.extend(INTERVALS.map(|every| several(&synthetic, 20.0, 8, every)));
    let tenants = workloads::tenants(16)?;
    let mut approximate = Vec::new();
    for gateways in [1, 2, 4, 8, 16] {
        let mut row = several(&tenants, 100.0, gateways, Some(100));
        row.scenario.name += ", approximate index";
        row.scenario.fleet.kv_events = None;
        approximate.push(row);
    }
    doc.heading(3, "Uneven traffic, conversation at 18/s");
    table(context, &mut doc, "gateways: uneven", skewed.to_vec())?;
    doc.heading(3, "Synthetic at 20/s");
    table(context, &mut doc, "gateways: synthetic", others)?;
    doc.heading(3, "Without news of caches, tenants at 100/s");
    doc.paragraph("Each gateway believes that endpoints hold what it sent there itself.");
    table(context, &mut doc, "gateways: no news", approximate).map(|()| doc)
}

fn several(base: &Scenario, rate: f64, gateways: usize, every: Option<u64>) -> Condition {
    let told = match every {
        None => "never".to_owned(),
        Some(ms) if ms >= 1_000 => format!("every {} s", ms as f64 / 1e3),
        Some(ms) => format!("every {ms} ms"),
    };
    let name = if gateways == 1 { "1".to_owned() } else { format!("{gateways}, {told}") };
    let scenario = base.with(&format!("{}, gateways {name}", base.name), |fleet| {
        fleet.gateways = gateways;
        fleet.share_every = every.filter(|_| gateways > 1).map(Duration::from_millis);
    });
    Condition::new(name, scenario, rate)
}

fn table(context: &Context<'_>, doc: &mut Doc, what: &str, rows: Vec<Condition>) -> Result<(), String> {
    let mut contenders =
        vec![predictive(), without("… without window", Without { window: true, ..Without::default() })];
    contenders.extend(rivals(context));
    let one = rows.first().is_some_and(|row| row.scenario.fleet.gateways == 1);
    let may_matter: Vec<bool> = rows.iter().map(|row| has_window(&row.scenario.fleet)).collect();
    let it = Comparison::run(context, what, rows, contenders, |row, column| {
        column != NO_WINDOW || may_matter[row]
    })?;
    it.table(doc, "gateways, and how often they tell each other");
    let mut text = String::new();
    if one && let Some((condition, by)) = it.worst(1..it.conditions.len(), 0, OURS) {
        text += &format!(
            "Beside one gateway, several cost `predictive` at worst {} points (“{}”). ",
            show(by),
            condition.name
        );
    }
    text += &window(&it);
    text += &it.standing(OURS, RIVALS);
    doc.paragraph(text);
    Ok(())
}

/// Whether a gateway's window may be less than the fleet: not while it knows
/// what its peers did a moment ago.
fn has_window(fleet: &Fleet) -> bool {
    fleet.gateways > 1 && fleet.share_every.is_none_or(|every| every > Duration::from_millis(30))
}

/// What the window is worth.
fn window(it: &Comparison) -> String {
    let all = (0..it.conditions.len()).filter_map(|row| {
        Some((it.conditions[row].name.as_str(), it.points((row, OURS), (row, NO_WINDOW))?))
    });
    let mut all: Vec<(&str, Mean)> = all.collect();
    all.sort_by(|a, b| a.1.mean.total_cmp(&b.1.mean));
    match (all.first(), all.last()) {
        (Some((least, by)), Some((most, gain))) => format!(
            "The window is worth between {} points (“{least}”) and {} points (“{most}”). ",
            show(*by),
            show(*gain)
        ),
        _ => String::new(),
    }
}
