//! Weighted round robin against plain on mixed hardware.

use forebay_gate::PolicyKind;

use super::fleets::{halves, plain};
use super::limit::{Question, ask};
use super::rows::{Claim, Row, Verdict, change, load, more, share};
use crate::contenders;
use crate::context::Context;
use crate::doc::Doc;
use crate::scenario::Scenario;
use crate::stats::Mean;

pub(super) fn claim(context: &Context<'_>) -> Result<Claim, String> {
    let fleet = halves(4, "h100-8b", "a100-8b", 1.0)?;
    let even = Scenario::new("h100-a100", fleet, plain(600.0, 300.0), 2_000);
    let weighted = even.with("h100-a100", |fleet| {
        fleet.endpoints.iter_mut().take(4).for_each(|endpoint| endpoint.weight = 2.0);
    });
    let who = [
        ("`round_robin`", &even, PolicyKind::RoundRobin),
        ("`weighted_round_robin`, 2 : 1", &weighted, PolicyKind::WeightedRoundRobin),
        ("`orca_weighted_round_robin`", &even, PolicyKind::OrcaWeightedRoundRobin),
        ("`least_request`", &even, PolicyKind::LeastRequest),
        ("`predictive`", &even, PolicyKind::Predictive),
    ];
    let questions =
        who.iter().map(|(_, scenario, kind)| Question::capacity(scenario, &contenders::ours(*kind), 80.0));
    let answers = ask(context, "claims: turns", questions.collect())?;
    let busy: Vec<Vec<f64>> =
        answers.iter().map(|answer| answer.there(|outcome| outcome.utilization)).collect();
    let rates: Vec<Vec<f64>> = answers.iter().map(|answer| answer.rates()).collect();
    let table: Vec<Vec<String>> = who
        .iter()
        .enumerate()
        .map(|(at, (name, ..))| {
            let by_class = |half: usize| {
                Mean::of(answers[at].there(|outcome| {
                    outcome.endpoints.iter().skip(4 * half).take(4).map(|(_, busy)| busy / 4.0).sum()
                }))
            };
            vec![
                (*name).to_owned(),
                load(answers[at].rate()),
                change(more(&rates[at], &rates[0])),
                share(Mean::of(busy[at].iter().copied())),
                share(by_class(0)),
                share(by_class(1)),
            ]
        })
        .collect();
    let mut detail = Doc::new();
    detail.table(
        &["policy", "capacity, requests/s", "against plain", "busy", "of them H100", "of them A100"],
        &table,
    );
    let (busier, gain) = (more(&busy[1], &busy[0]), more(&rates[1], &rates[0]));
    let row = Row {
        claimed: "weighted round robin uses mixed hardware 15 % better than plain",
        reached: format!("{} busy, {} capacity", change(busier), change(gain)),
        conditions: "4 × h100-8b and 4 × a100-8b, weights 2 : 1, prompts of 600 and answers of 300 tokens on \
                     average, each at its own capacity"
            .to_owned(),
        verdict: match (busier.mean >= 0.15, gain.mean >= 0.15) {
            (true, true) => Verdict::Confirmed,
            (false, false) => Verdict::NotReached,
            _ => Verdict::Partly,
        },
        because: "plain round robin stops at what the slower half carries, so weights gain much in capacity; the \
                  busy share moves less than that, as faster GPUs that get little still compute small steps most of \
                  the time."
            .to_owned(),
    };
    Ok(Claim { title: "Weighted round robin", rows: vec![row], detail })
}
