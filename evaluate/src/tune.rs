//! Everybody gets the same number of tries on the same traffic.

use forebay_gate::{Profile, Weights};
use forebay_sim::baselines::{BaselineKind, Knobs};
use forebay_sim::fleet::PolicySpec;
use rand::RngExt;
use rand_core::SeedableRng;
use rand_pcg::Pcg64Mcg;

use crate::cell::{Cell, MEAN, Outcome};
use crate::contenders;
use crate::context::Tuned;
use crate::doc::Doc;
use crate::runner::Runner;
use crate::workloads;

/// Tries besides the defaults.
const TRIES: usize = 23;

/// What tuning found, and the section about it.
pub(crate) struct Tuning {
    pub(crate) tuned: Tuned,
    pub(crate) doc: Doc,
}

/// Prices of `predictive` and what a tuner tries of each; what first tokens
/// count for sets the scale and stays.
const PRICES: [(&str, &[f64]); 6] = [
    ("decode", &[0.0, 0.5, 1.0, 1.5]),
    ("harm", &[0.0, 0.3, 0.6, 1.0]),
    ("miss", &[1.0, 2.5, 5.0, 10.0]),
    ("width", &[0.1, 0.15, 0.25]),
    ("overtime", &[0.0, 1.0, 3.0]),
    ("max_price", &[1.0, 5.0, 20.0]),
];

/// Who is tuned: its name, its knobs' names, and the values of each try, the
/// defaults first.
struct Candidate {
    kind: Option<BaselineKind>,
    name: String,
    knobs: Vec<&'static str>,
    tries: Vec<Vec<f64>>,
}

impl Candidate {
    fn new(kind: Option<BaselineKind>, tries: usize) -> Candidate {
        let (name, knobs, default, grid) = match kind {
            None => {
                let (names, grid): (Vec<_>, Vec<_>) = PRICES.iter().copied().unzip();
                ("predictive".to_owned(), names, values_of(&Profile::Balanced.weights()), grid)
            }
            Some(kind) => {
                let knobs = kind.knobs();
                let names = knobs.iter().map(|knob| knob.name).collect();
                let default = knobs.iter().map(|knob| knob.default).collect();
                (kind.as_str().to_owned(), names, default, knobs.iter().map(|knob| knob.tries).collect())
            }
        };
        let seed = xxhash_rust::xxh3::xxh3_64(name.as_bytes());
        let mut all = vec![default.clone()];
        all.extend(points(&grid, &default, tries, seed));
        Candidate { kind, name, knobs, tries: all }
    }

    fn policy(&self, values: &[f64]) -> PolicySpec {
        match self.kind {
            // Defaults written as such, so that they are the same cells.
            Some(kind) if values == self.tries[0] => contenders::rival(kind).policy,
            Some(kind) => PolicySpec::Baseline(kind, Knobs(values.to_vec())),
            None if values == self.tries[0] => contenders::predictive().policy,
            None => contenders::priced("predictive", weights_of(values)).policy,
        }
    }
}

fn values_of(weights: &Weights) -> Vec<f64> {
    let Weights { decode, harm, miss, width, overtime, max_price, .. } = *weights;
    // By way of their digits: 0.6 is to stay 0.6.
    [decode, harm, miss, width, overtime, max_price]
        .iter()
        .map(|value| (f64::from(*value) * 1e6).round() / 1e6)
        .collect()
}

fn weights_of(values: &[f64]) -> Weights {
    let at = |index: usize| values[index] as f32;
    Weights {
        decode: at(0),
        harm: at(1),
        miss: at(2),
        width: at(3),
        overtime: at(4),
        max_price: at(5),
        ..Profile::Balanced.weights()
    }
}

/// So many points of the grid, none twice and none the default; all where
/// there are no more.
fn points(grid: &[&[f64]], default: &[f64], tries: usize, seed: u64) -> Vec<Vec<f64>> {
    let count: usize = grid.iter().map(|values| values.len()).product();
    let point = |mut number: usize| -> Vec<f64> {
        let mut values = Vec::new();
        for knob in grid {
            values.push(knob[number % knob.len()]);
            number /= knob.len();
        }
        values
    };
    let mut open: Vec<Vec<f64>> = (0..count).map(point).filter(|values| values != default).collect();
    if open.len() > tries {
        let mut rng = Pcg64Mcg::seed_from_u64(seed);
        for at in 0..tries {
            let other = rng.random_range(at..open.len());
            open.swap(at, other);
        }
        open.truncate(tries);
    }
    open
}

/// What tuning makes as large as possible.
fn objective(outcome: &Outcome) -> f64 {
    let times = |ms: f64, unit: f64| 0.1 * (ms.max(1.0) / unit).log10();
    outcome.goodput - times(outcome.ttft_ms[MEAN], 500.0) - times(outcome.e2e_ms[MEAN], 10_000.0)
}

/// Tunes every rival and `predictive`.
pub(crate) fn tune(runner: &Runner, quick: bool) -> Result<Tuning, String> {
    let mut training = workloads::training()?;
    let (tries, seeds) = if quick { (1, vec![1]) } else { (TRIES, vec![1, 2]) };
    if quick {
        training.truncate(1);
    }
    let kinds = std::iter::once(None).chain(BaselineKind::ALL.iter().copied().map(Some));
    let candidates: Vec<Candidate> = kinds.map(|kind| Candidate::new(kind, tries)).collect();
    let mut cells = Vec::new();
    for candidate in &candidates {
        for values in &candidate.tries {
            for (scenario, rate) in &training {
                cells.extend(seeds.iter().map(|&seed| Cell {
                    scenario: scenario.clone(),
                    rate: *rate,
                    policy: candidate.policy(values),
                    seed,
                    timed: false,
                }));
            }
        }
    }
    let outcomes = runner.run("tuning", &cells)?;
    let mut scores = outcomes.chunks(training.len() * seeds.len()).map(|outcomes| {
        let all: f64 = outcomes.iter().map(objective).sum();
        all / outcomes.len() as f64
    });
    let mut tuning = Tuning { tuned: Tuned::default(), doc: Doc::new() };
    let mut rows = Vec::new();
    for candidate in &candidates {
        let scores: Vec<f64> = scores.by_ref().take(candidate.tries.len()).collect();
        // The first of equals, so that defaults stay where nothing is better.
        let best = (1..scores.len()).fold(0, |best, at| if scores[at] > scores[best] { at } else { best });
        let values = &candidate.tries[best];
        match candidate.kind {
            None => tuning.tuned.prices = weights_of(values),
            Some(kind) => {
                let knobs = if best == 0 { Knobs::default() } else { Knobs(values.clone()) };
                tuning.tuned.rivals.insert(kind, knobs);
            }
        }
        let changed = candidate.knobs.iter().zip(values).zip(&candidate.tries[0]);
        let changed: Vec<String> = changed
            .filter(|((_, value), default)| value != default)
            .map(|((knob, value), default)| format!("{knob} {value} (default {default})"))
            .collect();
        rows.push(vec![
            candidate.name.clone(),
            candidate.tries.len().to_string(),
            format!("{:.4}", scores[0]),
            format!("{:.4}", scores[best]),
            if changed.is_empty() { "its defaults".to_owned() } else { changed.join(", ") },
        ]);
    }
    describe(&mut tuning.doc, &training, &seeds, &rows);
    Ok(tuning)
}

fn describe(
    doc: &mut Doc,
    training: &[(crate::scenario::Scenario, f64)],
    seeds: &[u64],
    rows: &[Vec<String>],
) {
    doc.heading(2, "Tuning");
    let cells: Vec<String> =
        training.iter().map(|(scenario, rate)| format!("{} at {rate}/s", scenario.name)).collect();
    doc.paragraph(format!(
        "Everybody is run with its defaults and with up to {TRIES} points drawn at random from the grid of \
         its own knobs (all of them, where it has fewer), on traffic that nobody is judged on: {}, with the \
         seeds {}. The best by goodput − 0.1·log₁₀(mean TTFT / 500 ms) − 0.1·log₁₀(mean e2e / 10 s), the mean \
         over these runs, is «tuned» in everything that follows. *training-conversation* is the first half \
         of Mooncake's conversation trace on 16 × h100-8b; *training-tenants* is 150 tenants with prefixes of \
         6,000 tokens and answers of 1,000 on 8 × h100-32b-tp2.",
        cells.join(", "),
        seeds.iter().map(u64::to_string).collect::<Vec<_>>().join(" and "),
    ));
    doc.table(&["", "tries", "at its defaults", "tuned", "what tuning changed"], rows);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tries_are_distinct_and_repeatable() {
        for kind in std::iter::once(None).chain(BaselineKind::ALL.iter().copied().map(Some)) {
            let candidate = Candidate::new(kind, TRIES);
            assert!(candidate.tries.len() <= TRIES + 1);
            for (at, values) in candidate.tries.iter().enumerate() {
                assert_eq!(values.len(), candidate.knobs.len());
                assert!(!candidate.tries[..at].contains(values), "{} tries {values:?} twice", candidate.name);
            }
            assert_eq!(candidate.tries, Candidate::new(kind, TRIES).tries);
        }
        let none = Candidate::new(Some(BaselineKind::RoundRobin), TRIES);
        assert_eq!(none.tries, [Vec::<f64>::new()]);
    }

    #[test]
    fn prices_go_there_and_back() {
        let balanced = Profile::Balanced.weights();
        assert_eq!(weights_of(&values_of(&balanced)), balanced);
        assert_eq!(values_of(&balanced), [1.0, 0.6, 2.5, 0.15, 0.0, 20.0]);
    }
}
