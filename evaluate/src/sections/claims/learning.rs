//! Learned routing against heuristics: capacity.

use forebay_gate::PolicyKind;

use super::fleets::{halves, plain};
use super::limit::{Question, ask};
use super::rows::{Claim, Row, Verdict, change, load, more};
use crate::contenders;
use crate::context::Context;
use crate::doc::Doc;
use crate::scenario::Scenario;
use crate::workloads;

/// The last two are the heuristics.
const WHO: [PolicyKind; 4] =
    [PolicyKind::Predictive, PolicyKind::Learned, PolicyKind::LeastRequest, PolicyKind::RoundRobin];

pub(super) fn claim(context: &Context<'_>) -> Result<Claim, String> {
    let fleet = halves(4, "h100-8b", "a100-8b", 1.0)?;
    let cases = [
        ("conversation", workloads::conversation(8)?, [10.0, 10.0, 7.0, 4.5]),
        ("tenants", workloads::tenants(8)?, [55.0, 55.0, 40.0, 30.0]),
        (
            "mixed hardware",
            Scenario::new("h100-a100", fleet, plain(600.0, 300.0), 2_000),
            [110.0, 110.0, 100.0, 80.0],
        ),
    ];
    let mut questions = Vec::new();
    for (_, scenario, guesses) in &cases {
        for (kind, guess) in WHO.iter().zip(guesses) {
            questions.push(Question::capacity(scenario, &contenders::ours(*kind), *guess));
        }
    }
    let answers = ask(context, "claims: learning", questions)?;
    let mut table = Vec::new();
    let (mut over_least, mut over_turns) = ((Vec::new(), Vec::new()), (Vec::new(), Vec::new()));
    for ((name, ..), answers) in cases.iter().zip(answers.chunks(WHO.len())) {
        let rates: Vec<Vec<f64>> = answers.iter().map(|answer| answer.rates()).collect();
        let gain = |who: usize, than: usize| more(&rates[who], &rates[than]);
        for (than, (told, met)) in [(2, &mut over_least), (3, &mut over_turns)] {
            told.push(format!("{name}: {} (`learned` {})", change(gain(0, than)), change(gain(1, than))));
            met.push(gain(0, than).mean >= 0.25);
        }
        for (who, kind) in WHO.iter().enumerate() {
            table.push(vec![
                (*name).to_owned(),
                kind.as_str().to_owned(),
                load(answers[who].rate()),
                change(gain(who, 2)),
                change(gain(who, 3)),
            ]);
        }
    }
    let mut detail = Doc::new();
    detail.table(
        &["work", "policy", "capacity, requests/s", "against `least_request`", "against `round_robin`"],
        &table,
    );
    let row = |claimed, (told, met): (Vec<String>, Vec<bool>), because: &str| Row {
        claimed,
        reached: told.join("; "),
        conditions:
            "8 endpoints; capacity of `predictive`, which learns the speeds of endpoints, and of `learned`, \
                     which tunes its prices as well"
                .to_owned(),
        verdict: Verdict::of(&met),
        because: because.to_owned(),
    };
    let rows = vec![
        row(
            "learned routing has 25 % more throughput than least request",
            over_least,
            "where prompts share nothing, the fewest requests in flight already follows the speed of each endpoint: \
             what is there to gain is the difference between requests and their work.",
        ),
        row(
            "learned routing has 25 % more throughput than round robin",
            over_turns,
            "round robin is only as good where endpoints and requests are alike.",
        ),
    ];
    Ok(Claim { title: "Learned routing", rows, detail })
}
