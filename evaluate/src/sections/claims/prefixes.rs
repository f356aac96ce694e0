//! Prefix reuse saves 40 to 60 % of the KV work.

use std::collections::BTreeSet;

use forebay_gate::PolicyKind;

use super::rows::{Claim, Row, Verdict, mean, share};
use crate::contenders;
use crate::context::Context;
use crate::doc::Doc;
use crate::scenario::Scenario;
use crate::stats::Mean;
use crate::workloads;

const WHO: [PolicyKind; 3] = [PolicyKind::Predictive, PolicyKind::LeastRequest, PolicyKind::RoundRobin];

pub(super) fn claim(context: &Context<'_>) -> Result<Claim, String> {
    let cases = [
        ("conversation", workloads::conversation(8)?, 6.0),
        ("tenants", workloads::tenants(8)?, 30.0),
        ("chat", workloads::chat(4)?, 15.0),
        ("agents", workloads::agents(8)?, 8.0),
    ];
    let who = WHO.map(contenders::ours);
    let (mut table, mut reached, mut met) = (Vec::new(), Vec::new(), Vec::new());
    for (name, scenario, rate) in &cases {
        let grid = context.grid("claims: prefixes", scenario, &[*rate], &who)?;
        let saved = |who: usize| mean(&grid.outcomes[who][0], |outcome| outcome.prefix_hit);
        reached.push(format!("{name} {} (`round_robin` {})", share(saved(0)), share(saved(2))));
        met.push(saved(0).mean >= 0.4);
        let mut row = vec![format!("{name}, {rate}/s")];
        row.extend((0..WHO.len()).map(|who| share(saved(who))));
        table.push(row);
    }
    let (_, conversation, rate) = &cases[0];
    let most = context.seeds.iter().map(|seed| to_reuse(conversation, *rate, *seed));
    let most = Mean::of(most.collect::<Result<Vec<f64>, String>>()?);
    let mut detail = Doc::new();
    detail.paragraph("Prompt tokens that came from the engines' caches.");
    detail.table(&["work and load", "predictive", "least_request", "round_robin"], &table);
    let row = Row {
        claimed: "prefix reuse saves 40 to 60 % of the KV work",
        reached: reached.join("; "),
        conditions:
            "prompt tokens that were not computed, at about half load on 4 or 8 × h100-8b whose caches hold \
                     three million tokens each"
                .to_owned(),
        verdict: Verdict::of(&met),
        because: format!(
            "traffic has as much to reuse as its prompts share; of the conversation trace it is {}, with caches that \
             forget nothing and one endpoint for all.",
            share(most)
        ),
    };
    Ok(Claim { title: "Prefix reuse", rows: vec![row], detail })
}

/// Share of the prompt tokens that count and were in some prompt before.
fn to_reuse(scenario: &Scenario, rate: f64, seed: u64) -> Result<f64, String> {
    let mut traffic = scenario.traffic.play(rate, scenario.warmup + scenario.counted, seed)?;
    let block = u64::from(traffic.block_tokens());
    let mut seen = BTreeSet::new();
    let (mut known, mut all, mut number) = (0, 0, 0);
    while let Some(request) = traffic.next_request() {
        let old = request.chain.iter().take_while(|hash| seen.contains(*hash)).count() as u64;
        seen.extend(request.chain.iter().copied());
        if number >= scenario.warmup {
            known += old * block;
            all += u64::from(request.prompt_tokens);
        }
        number += 1;
    }
    Ok(known as f64 / all.max(1) as f64)
}
