//! H100 weighted 2 × A100, A100 weighted 1.7 × V100: which weights are right.

use forebay_gate::{PolicyKind, PoolConfig};
use forebay_sim::engine::Profile;
use forebay_sim::fleet::{Fleet, PolicySpec};

use super::fleets::{halves, plain};
use super::limit::{Answer, Question, ask};
use super::rows::{Claim, Row, Verdict, load};
use crate::cell::Contender;
use crate::contenders;
use crate::context::Context;
use crate::doc::Doc;
use crate::scenario::Scenario;

/// A pair of classes, what it is asked to do, and which weights are tried.
struct Pair {
    what: &'static str,
    claimed: f64,
    ratios: &'static [f64],
    scenario: Scenario,
    guess: f64,
    because: &'static str,
    /// How many times as long the slower one takes for a prompt, and for a token of an answer.
    slower: (f64, f64),
}

/// Prompt, answer, and a load to begin from: much to read, much to write.
const READ: (f64, f64, f64) = (3_000.0, 30.0, 45.0);
const WRITE: (f64, f64, f64) = (200.0, 600.0, 70.0);

pub(super) fn claim(context: &Context<'_>) -> Result<Claim, String> {
    let hopper = |name, (prompt, answer, guess), because| -> Result<Pair, String> {
        let fleet = halves(4, "h100-8b", "a100-8b", 1.0)?;
        Ok(Pair {
            what: name,
            because,
            claimed: 2.0,
            ratios: &[1.0, 1.5, 2.0, 2.5, 3.0, 4.0],
            slower: slower(&fleet, prompt, prompt + answer / 2.0),
            scenario: Scenario::new(name, fleet, plain(prompt, answer), 2_000),
            guess,
        })
    };
    let mut fleet = halves(4, "a100-8b", "a100-8b", 1.7)?;
    for endpoint in fleet.endpoints.iter_mut().skip(4) {
        endpoint.accelerator = Some("v100".to_owned());
    }
    let (prompt, answer) = (600.0, 300.0);
    let volta = Pair {
        what: "A100 and V100, even",
        because: "limits take more from a slow GPU than its speed: of the 50 ms for a token the part of a step that \
                  does not depend on the batch takes 1.7 times as much, so that fewer answers fit into the rest than \
                  1 in 1.7, and the faster half does better with more.",
        claimed: 1.7,
        ratios: &[1.0, 1.35, 1.7, 2.0, 2.5],
        slower: (1.7, 1.7),
        scenario: Scenario::new("a100-v100", fleet, plain(prompt, answer), 2_000),
        guess: 45.0,
    };
    let reading = "prompts are computing, and in that the two differ more than in reading memory for answers, for which \
                   2 : 1 fits: the right weight moves with the traffic.";
    let pairs = [
        hopper("H100 and A100, reading", READ, reading)?,
        hopper("H100 and A100, writing", WRITE, "")?,
        volta,
    ];
    let turns = contenders::ours(PolicyKind::WeightedRoundRobin);
    let config =
        PoolConfig { policy: PolicyKind::WeightedRoundRobin, dynamic_weights: true, ..PoolConfig::default() };
    let learned = Contender { name: "learned weights".to_owned(), policy: PolicySpec::Ours(config) };
    let mut questions = Vec::new();
    for pair in &pairs {
        for ratio in pair.ratios {
            questions.push(Question::capacity(&weighted(&pair.scenario, *ratio), &turns, pair.guess));
        }
        questions.push(Question::capacity(&untold(&pair.scenario), &learned, pair.guess));
        questions.push(Question::capacity(&untold(&pair.scenario), &contenders::predictive(), pair.guess));
    }
    let mut answers = ask(context, "claims: weights", questions)?.into_iter();
    let mut detail = Doc::new();
    let (mut rows, mut table) = (Vec::new(), Vec::new());
    for pair in &pairs {
        let tried: Vec<Answer> = answers.by_ref().take(pair.ratios.len()).collect();
        let Some((learned, ours)) = answers.next().zip(answers.next()) else { continue };
        rows.push(row(pair, &tried, &ours));
        let mut cells: Vec<(String, String)> = pair
            .ratios
            .iter()
            .zip(&tried)
            .map(|(ratio, answer)| (format!("{ratio} : 1"), load(answer.rate())))
            .collect();
        cells.push(("learned weights".to_owned(), load(learned.rate())));
        cells.push(("`predictive`, untold".to_owned(), load(ours.rate())));
        table.extend(cells.into_iter().map(|(what, figure)| vec![pair.what.to_owned(), what, figure]));
    }
    detail.paragraph(
        "Capacity of `weighted_round_robin` by the weights of the faster and the slower class; 1 : 1 is plain \
         round robin. *Learned weights* is the same with `dynamic_weights`, and neither it nor `predictive` is \
         told what hardware there is.",
    );
    detail.table(&["fleet and work", "weights", "capacity, requests/s"], &table);
    Ok(Claim { title: "Weights by GPU class", rows, detail })
}

fn row(pair: &Pair, tried: &[Answer], ours: &Answer) -> Row {
    let rates: Vec<_> = tried.iter().map(Answer::rate).collect();
    let best = (0..rates.len()).max_by(|a, b| rates[*a].mean.total_cmp(&rates[*b].mean)).unwrap_or(0);
    let claimed = pair.ratios.iter().position(|ratio| *ratio == pair.claimed).unwrap_or(0);
    // Right is what is as good as the best as far as one can tell.
    let right = rates[claimed].mean + rates[claimed].half >= rates[best].mean * 0.98;
    let helps = rates[claimed].mean > rates[0].mean;
    Row {
        claimed: match pair.claimed {
            2.0 => "an H100 is weighted 2 × an A100",
            _ => "an A100 is weighted 1.7 × a V100",
        },
        reached: format!(
            "{}: {} requests/s at {} : 1, {} at 1 : 1, best {} at {} : 1; {} by `predictive` without weights",
            pair.what,
            load(rates[claimed]),
            pair.claimed,
            load(rates[0]),
            load(rates[best]),
            pair.ratios[best],
            load(ours.rate()),
        ),
        conditions: format!(
            "4 + 4 endpoints, no shared prefixes; the slower class takes {:.1} times as long for a prompt and \
             {:.1} times for a token of 64 answers at once",
            pair.slower.0, pair.slower.1
        ),
        verdict: match (right, helps) {
            (true, _) => Verdict::Confirmed,
            (false, true) => Verdict::Partly,
            (false, false) => Verdict::NotReached,
        },
        because: pair.because.to_owned(),
    }
}

/// The first half of the endpoints has this weight.
fn weighted(scenario: &Scenario, ratio: f64) -> Scenario {
    scenario.with(&scenario.name, |fleet| {
        let half = fleet.endpoints.len() / 2;
        fleet.endpoints[..half].iter_mut().for_each(|endpoint| endpoint.weight = ratio);
    })
}

/// Gateways do not know what hardware it is.
fn untold(scenario: &Scenario) -> Scenario {
    scenario.with(&scenario.name, |fleet| {
        fleet.endpoints.iter_mut().for_each(|endpoint| endpoint.accelerator = None);
    })
}

/// How many times as long the last endpoint takes as the first, for such a
/// prompt and for a step of 64 answers of such a context.
fn slower(fleet: &Fleet, prompt: f64, context: f64) -> (f64, f64) {
    let prefill = |p: &Profile| p.a + p.b * prompt + p.c * prompt * prompt / 2.0;
    let step = |p: &Profile| p.a + 64.0 * (p.b + p.e + p.d * context);
    let (Some(fast), Some(slow)) = (fleet.endpoints.first(), fleet.endpoints.last()) else {
        return (1.0, 1.0);
    };
    let (fast, slow) = (&fast.profile, &slow.profile);
    (prefill(slow) / prefill(fast), step(slow) / step(fast))
}
