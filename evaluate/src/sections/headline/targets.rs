//! What was promised, and whether it was reached.

use forebay_sim::baselines::BaselineKind;

use super::results::{Results, Role, Verdict};
use crate::doc::Doc;

/// The workload that the ratios are promised for.
const PROMISED: &str = "conversation";

/// What `predictive` carries over what another does, at least.
const RATIOS: [(Role, f64); 3] = [
    (Role::Default(BaselineKind::LeastRequest), 1.4),
    (Role::Tuned(BaselineKind::LeastRequest), 1.15),
    (Role::Default(BaselineKind::RoundRobin), 2.0),
];

pub(super) fn write(doc: &mut Doc, results: &Results) {
    doc.heading(3, "Targets");
    let mut rows = Vec::new();
    for (workload, judged) in results.judged.iter().enumerate() {
        let name = &judged.scenario.name;
        let tuned = results.tuned(workload);
        let Some(best) = tuned.first() else { continue };
        let lost: Vec<String> = tuned
            .iter()
            .map(|at| (at, results.ratio(workload, *at)))
            .filter(|(_, (_, verdict))| *verdict == Verdict::Loses)
            .map(|(at, (ratio, _))| {
                format!("{} (× {:.3} ± {:.3})", results.name(*at), ratio.mean, ratio.half)
            })
            .collect();
        let (ratio, _) = results.ratio(workload, *best);
        let reached = match lost.is_empty() {
            true => "reached".to_owned(),
            false => format!("**not reached**: {}", lost.join(", ")),
        };
        rows.push(vec![
            format!("{name}: `predictive` carries as much as every tuned rival, within the interval"),
            format!("× {:.3} ± {:.3} of the best, {}", ratio.mean, ratio.half, results.name(*best)),
            reached,
        ]);
    }
    let promised = results.judged.iter().position(|judged| judged.scenario.name == PROMISED);
    for (role, least) in RATIOS {
        let Some((workload, contender)) = promised.zip(results.find(role)) else { continue };
        let (ratio, _) = results.ratio(workload, contender);
        let reached = match (ratio.mean >= least, ratio.mean + ratio.half >= least) {
            (true, _) => "reached",
            (_, true) => "**not reached**, though within the interval",
            _ => "**not reached**",
        };
        rows.push(vec![
            format!("{PROMISED}: at least {least} × {}", results.name(contender)),
            format!("× {:.3} ± {:.3}", ratio.mean, ratio.half),
            reached.to_owned(),
        ]);
    }
    doc.table(&["target", "capacity of `predictive`", ""], &rows);
}

/// Least request and round robin as they come.
pub(super) fn plainest(results: &Results) -> Vec<usize> {
    let kinds = [BaselineKind::LeastRequest, BaselineKind::RoundRobin];
    kinds.into_iter().filter_map(|kind| results.find(Role::Default(kind))).collect()
}
