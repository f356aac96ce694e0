//! 95 % utilisation against 40 % wasted.

use forebay_gate::PolicyKind;

use super::limit::{Answer, Question, ask};
use super::rows::{Claim, Row, Verdict, change, load, mean, more, share};
use crate::contenders;
use crate::context::Context;
use crate::doc::Doc;
use crate::stats::Mean;
use crate::workloads;

pub(super) fn claim(context: &Context<'_>) -> Result<Claim, String> {
    let ours = contenders::predictive();
    let theirs = contenders::ours(PolicyKind::RoundRobin);
    let cases = [
        ("conversation", workloads::conversation(8)?, 10.0, 4.5),
        ("tenants", workloads::tenants(8)?, 55.0, 30.0),
    ];
    let mut questions = Vec::new();
    for (_, scenario, guess, guess_of_theirs) in &cases {
        questions.push(Question::capacity(scenario, &ours, *guess));
        questions.push(Question::capacity(scenario, &theirs, *guess_of_theirs));
    }
    let answers = ask(context, "claims: busy", questions)?;
    // What as much work keeps busy: half of what round robin carries.
    let mut same = Vec::new();
    for ((_, scenario, ..), answers) in cases.iter().zip(answers.chunks(2)) {
        let half = answers[1].rate().mean / 2.0;
        let grid = context.grid("claims: busy", scenario, &[half], &[ours.clone(), theirs.clone()])?;
        same.push([0, 1].map(|who| mean(&grid.outcomes[who][0], |outcome| outcome.utilization)));
    }
    let (mut rows, mut reached, mut met, mut useful) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for ((case, answers), same) in cases.iter().zip(answers.chunks(2)).zip(&same) {
        let [ours, theirs] = answers else { continue };
        let busy = [ours, theirs].map(|answer| Mean::of(answer.there(|outcome| outcome.utilization)));
        let rates = [ours, theirs].map(Answer::rates);
        let gain = more(&rates[0], &rates[1]);
        reached.push(format!(
            "{}: {} busy against {}, {} useful tokens per second",
            case.0,
            share(busy[0]),
            share(busy[1]),
            change(gain)
        ));
        met.push(busy[0].mean >= 0.95 && busy[1].mean <= 0.6);
        useful.push(gain.mean >= 0.95 / 0.6 - 1.0);
        let who = [
            ("predictive", ours, busy[0], change(gain), same[0]),
            ("round_robin", theirs, busy[1], String::new(), same[1]),
        ];
        for (name, answer, busy, gain, same) in who {
            rows.push(vec![
                case.0.to_owned(),
                name.to_owned(),
                load(answer.rate()),
                gain,
                share(busy),
                share(same),
                share(Mean::of(answer.there(|outcome| outcome.prefix_hit))),
            ]);
        }
    }
    let mut detail = Doc::new();
    detail.table(
        &[
            "workload",
            "policy",
            "capacity, requests/s",
            "against round robin",
            "GPU busy there",
            "at half of what round robin carries",
            "from caches",
        ],
        &rows,
    );
    detail.paragraph(
        "A busy GPU is one that computes a step, however small; that is also what `nvidia-smi` shows. \
         A step with one sequence counts as much as one with two hundred. Useful tokens, those of answers, grow \
         with the capacity, as all answer the same requests.",
    );
    let met = match Verdict::of(&met) {
        Verdict::NotReached if useful.iter().any(|gain| *gain) => Verdict::Partly,
        verdict => verdict,
    };
    let row = Row {
        claimed: "95 % GPU utilisation, where simple balancing wastes 40 %",
        reached: reached.join("; "),
        conditions: "8 × h100-8b, each policy at its own capacity; `predictive` against `round_robin`".to_owned(),
        verdict: met,
        because: "the busy share is the wrong measure, as engines batch: under `round_robin` they are as busy, with \
                  prompts that another endpoint has cached and with small steps. What is wasted shows in the useful \
                  tokens per second at the same goodput, by how much depends on what prompts share and on how unlike \
                  they are."
            .to_owned(),
    };
    Ok(Claim { title: "Utilisation", rows: vec![row], detail })
}
