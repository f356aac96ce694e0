//! Routing by response time against round robin: the 99th percentile.

use forebay_gate::PolicyKind;

use super::fleets::{halves, plain};
use super::limit::{Question, ask};
use super::rows::{Claim, Row, Verdict, change, figure, mean, more};
use crate::cell::{Outcome, P99};
use crate::contenders;
use crate::context::Context;
use crate::doc::Doc;
use crate::scenario::Scenario;
use crate::workloads;

/// Loads as shares of what round robin carries.
const PARTS: [f64; 2] = [0.5, 0.9];

pub(super) fn claim(context: &Context<'_>) -> Result<Claim, String> {
    let fleet = halves(4, "h100-8b", "a100-8b", 1.0)?;
    let cases = [
        ("conversation", workloads::conversation(8)?, 4.5),
        ("tenants", workloads::tenants(8)?, 30.0),
        ("mixed hardware", Scenario::new("h100-a100", fleet, plain(600.0, 300.0), 2_000), 80.0),
    ];
    let turns = contenders::ours(PolicyKind::RoundRobin);
    let who = [turns.clone(), contenders::ours(PolicyKind::LeastLatency), contenders::predictive()];
    let questions = cases.iter().map(|(_, scenario, guess)| Question::capacity(scenario, &turns, *guess));
    let capacities = ask(context, "claims: response time, capacity", questions.collect())?;
    let (mut table, mut reached, mut met) = (Vec::new(), Vec::new(), Vec::new());
    for ((name, scenario, _), capacity) in cases.iter().zip(&capacities) {
        let loads = PARTS.map(|part| capacity.rate().mean * part);
        let grid = context.grid("claims: response time", scenario, &loads, &who)?;
        for (at, part) in PARTS.iter().enumerate() {
            let p99 = |who: usize, of: fn(&Outcome) -> f64| -> Vec<f64> {
                grid.outcomes[who][at].iter().map(of).collect()
            };
            let ttft: fn(&Outcome) -> f64 = |outcome| outcome.ttft_ms[P99];
            let e2e: fn(&Outcome) -> f64 = |outcome| outcome.e2e_ms[P99];
            let cut = |who: usize, of| more(&p99(who, of), &p99(0, of));
            let (first, whole) = (cut(1, ttft), cut(1, e2e));
            reached.push(format!(
                "{name} at {:.0} %: TTFT {}, e2e {}",
                part * 100.0,
                change(first),
                change(whole)
            ));
            met.extend([first.mean <= -0.3, whole.mean <= -0.3]);
            for (who, contender) in who.iter().enumerate() {
                let seeds = &grid.outcomes[who][at];
                table.push(vec![
                    format!("{name}, {:.0} %", part * 100.0),
                    contender.name.clone(),
                    figure(mean(seeds, ttft), 0),
                    change(cut(who, ttft)),
                    figure(mean(seeds, |outcome| e2e(outcome) * 1e-3), 1),
                    change(cut(who, e2e)),
                ]);
            }
        }
    }
    let mut detail = Doc::new();
    detail.table(
        &[
            "work and load",
            "policy",
            "TTFT p99, ms",
            "against round robin",
            "e2e p99, s",
            "against round robin",
        ],
        &table,
    );
    let row = Row {
        claimed: "routing by response time has a 30 % lower P99 than round robin",
        reached: reached.join("; "),
        conditions: "`least_latency` against `round_robin` on 8 endpoints, at 50 and 90 % of what `round_robin` \
                     carries"
            .to_owned(),
        verdict: Verdict::of(&met),
        because: "with alike GPUs and little load the 99th percentile is the time of the longest prompts and answers \
                  themselves, which no choice of an endpoint shortens; it only shortens waiting."
            .to_owned(),
    };
    Ok(Claim { title: "Routing by response time", rows: vec![row], detail })
}
