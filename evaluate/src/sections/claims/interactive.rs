//! P95 under 100 ms for interactive work, under 20 ms for real-time work with
//! batches beside it.

use forebay_core::Priority;
use forebay_gate::PolicyKind;
use forebay_sim::fleet::Fleet;

use super::fleets::{ENCODER, encoder_ms, tasks};
use super::limit::{Answer, Question, ask};
use super::rows::{Claim, Row, Verdict, load, share};
use crate::cell::{Outcome, P95};
use crate::contenders;
use crate::context::Context;
use crate::doc::Doc;
use crate::scenario::{Scenario, Traffic};
use crate::stats::Mean;
use crate::workloads;

const ENDPOINTS: usize = 32;
const WHO: [PolicyKind; 3] = [PolicyKind::Predictive, PolicyKind::LeastRequest, PolicyKind::RoundRobin];
/// P95 within the limit is a goodput of 95 % when the limit is the only one.
const P95_MET: f64 = 0.95;
/// Tokens of a real-time task, and of a batch's.
const REAL_TIME: (u32, u32) = (10, 30);
const BATCH: u32 = 512;
/// A fleet is of use for this claim when it can be so busy.
const BUSY: f64 = 0.5;

/// Work, a load to begin from, and what has to reach [`P95_MET`].
type Case = (&'static str, Scenario, f64, fn(&Outcome) -> f64);

pub(super) fn claim(context: &Context<'_>) -> Result<Claim, String> {
    let fleet = || Fleet::uniform(ENDPOINTS, &ENCODER);
    let interactive =
        |to| Scenario::new("interactive", fleet(), tasks(10, to, 100.0, Priority::STANDARD), 500);
    let real_time = || tasks(REAL_TIME.0, REAL_TIME.1, 20.0, Priority::CRITICAL);
    let batch = || tasks(BATCH, BATCH, 60_000.0, Priority::SHEDDABLE);
    // Of each the same work.
    let work = [encoder_ms((REAL_TIME.0 + REAL_TIME.1) / 2), encoder_ms(BATCH)];
    let part = work[1] / (work[0] + work[1]);
    let beside = Scenario::new(
        "beside",
        fleet(),
        Traffic::Mix(vec![(part, real_time()), (1.0 - part, batch())]),
        2_000,
    );
    let alone = Scenario::new("alone", Fleet::uniform(ENDPOINTS / 2, &ENCODER), real_time(), 500);
    let chat = workloads::chat(4)?;
    // What one endpoint can do in a second, times how many there are.
    let full = |ms: f64, endpoints: usize| endpoints as f64 * 1e3 / ms;
    let all: fn(&Outcome) -> f64 = |outcome| outcome.goodput;
    let critical: fn(&Outcome) -> f64 = |outcome| {
        let class = outcome.classes.iter().find(|class| class.priority > 0);
        class.map_or(0.0, |class| class.goodput)
    };
    // As if it were a goodput: 0.95 where P95 is at the limit.
    let first_token: fn(&Outcome) -> f64 = |outcome| P95_MET * 100.0 / outcome.ttft_ms[P95].max(1e-3);
    let cases: [Case; 5] = [
        ("tasks of 10 to 128 tokens", interactive(128), 0.6 * full(encoder_ms(69), ENDPOINTS), all),
        ("tasks of 10 to 512 tokens", interactive(512), 0.3 * full(encoder_ms(261), ENDPOINTS), all),
        ("chat on 4 × h100-8b, first token", chat, 60.0, first_token),
        ("real-time beside batch", beside, 0.4 * full(work[0], ENDPOINTS) / (2.0 * part), critical),
        ("real-time on half of the fleet", alone, 0.6 * full(work[0], ENDPOINTS / 2), all),
    ];
    let mut questions = Vec::new();
    for (_, scenario, guess, of) in &cases {
        for kind in WHO {
            questions.push(Question {
                scenario: scenario.clone(),
                contender: contenders::ours(kind),
                guess: *guess,
                of: *of,
                limit: P95_MET,
            });
        }
    }
    let answers = ask(context, "claims: interactive", questions)?;
    let busy = |answer: &Answer| Mean::of(answer.there(|outcome| outcome.utilization));
    let mut table = Vec::new();
    for ((name, ..), answers) in cases.iter().zip(answers.chunks(WHO.len())) {
        for (kind, answer) in WHO.iter().zip(answers) {
            table.push(vec![
                (*name).to_owned(),
                kind.as_str().to_owned(),
                load(answer.rate()),
                share(busy(answer)),
            ]);
        }
    }
    let mut detail = Doc::new();
    detail.paragraph(
        "The highest load at which the 95th percentile is within the limit, and how busy the fleet is then; 0 is \
         where no load met it. Tasks run on a model that takes 5 ms for 10 tokens and 250 ms for 512, one at a time.",
    );
    detail.table(&["work", "policy", "requests/s", "busy"], &table);
    let of = |case: usize, who: usize| &answers[case * WHO.len() + who];
    let told = |case: usize| {
        format!(
            "{}: up to {} busy (`least_request` {}, `round_robin` {})",
            cases[case].0,
            share(busy(of(case, 0))),
            share(busy(of(case, 1))),
            share(busy(of(case, 2)))
        )
    };
    let met = |case: usize| busy(of(case, 0)).mean >= BUSY;
    let rows = vec![
        Row {
            claimed: "P95 under 100 ms for interactive requests",
            reached: format!(
                "{}; {}; {}: up to {} requests/s (`least_request` {}, `round_robin` {})",
                told(0),
                told(1),
                cases[2].0,
                load(of(2, 0).rate()),
                load(of(2, 1).rate()),
                load(of(2, 2).rate())
            ),
            conditions: format!(
                "{ENDPOINTS} endpoints that take 5 ms for 10 tokens and 250 ms for 512, or 4 × h100-8b; counts as \
                 reached where the fleet can be half busy"
            ),
            verdict: Verdict::of(&[met(0), met(1), met(2)]),
            because: format!(
                "a task of 512 tokens takes {:.0} ms alone, and of tasks of 10 to 512 tokens only {:.0} % are shorter \
                 than 100 ms on an idle endpoint; balancing removes waiting and not work.",
                encoder_ms(512),
                100.0 * ((100.0 - ENCODER.a) / ENCODER.b - 9.0) / 503.0,
            ),
        },
        Row {
            claimed: "P95 under 20 ms for real-time requests with batch work beside them",
            reached: format!("{}; {}", told(3), told(4)),
            conditions: format!(
                "{ENDPOINTS} endpoints; real-time tasks of {} to {} tokens (critical) and batch tasks of {BATCH} \
                 (sheddable), of each the same work; or real-time tasks alone on {} endpoints",
                REAL_TIME.0,
                REAL_TIME.1,
                ENDPOINTS / 2
            ),
            verdict: Verdict::of(&[met(3), met(4)]),
            because: format!(
                "an engine does not break a task of {:.0} ms off for one of {:.0} ms, so real-time work has to find \
                 an endpoint without a batch task; on endpoints of its own it reaches the limit at far more load.",
                encoder_ms(BATCH),
                work[0]
            ),
        },
    ];
    Ok(Claim { title: "Interactive and real-time work", rows, detail })
}
