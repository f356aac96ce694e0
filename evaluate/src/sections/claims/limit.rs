//! The highest load that still meets something, seed by seed.

use crate::cell::{Cell, Contender, Outcome};
use crate::context::Context;
use crate::scenario::Scenario;
use crate::stats::Mean;

/// The first loads are so far apart.
const STRIDE: f64 = 1.4;
/// Steps of that on either side of the guess, at most.
const STEPS: u32 = 6;
/// How often the gap is halved then: to 4 %.
const HALVINGS: u32 = 3;

/// Whose highest load is asked for.
#[derive(Clone)]
pub(super) struct Question {
    pub(super) scenario: Scenario,
    pub(super) contender: Contender,
    /// Requests per second to begin from.
    pub(super) guess: f64,
    /// What has to be at least `limit`.
    pub(super) of: fn(&Outcome) -> f64,
    pub(super) limit: f64,
}

impl Question {
    /// The capacity: 90 % goodput.
    pub(super) fn capacity(scenario: &Scenario, contender: &Contender, guess: f64) -> Question {
        let (scenario, contender) = (scenario.clone(), contender.clone());
        Question { scenario, contender, guess, of: |outcome| outcome.goodput, limit: 0.9 }
    }
}

/// The answer for one seed.
#[derive(Clone, Debug, Default)]
struct Bracket {
    /// The highest load that met it, and the lowest above that did not.
    met: Option<(f64, Outcome)>,
    missed: Option<(f64, Outcome)>,
}

impl Bracket {
    fn next(&self, guess: f64, halvings: u32) -> Option<f64> {
        match (&self.met, &self.missed) {
            (None, None) => Some(guess),
            (Some((met, _)), None) => {
                (*met < guess * STRIDE.powi(STEPS as i32) * 0.99).then_some(met * STRIDE)
            }
            (None, Some((missed, _))) => {
                (*missed > guess / STRIDE.powi(STEPS as i32) * 1.01).then_some(missed / STRIDE)
            }
            (Some((met, _)), Some((missed, _))) => {
                let least = STRIDE.powf(0.5f64.powi(halvings as i32)) * 1.001;
                (missed / met > least).then_some((met * missed).sqrt())
            }
        }
    }

    fn tell(&mut self, rate: f64, outcome: Outcome, met: bool) {
        *(if met { &mut self.met } else { &mut self.missed }) = Some((rate, outcome));
    }

    /// A straight line between the two; 0 where even little was too much.
    fn value(&self, question: &Question, of: impl Fn(f64, &Outcome) -> f64) -> f64 {
        let Some((met, below)) = &self.met else { return 0.0 };
        let low = of(*met, below);
        let Some((missed, above)) = &self.missed else { return low };
        let (from, to) = ((question.of)(below), (question.of)(above));
        let part = ((from - question.limit) / (from - to).max(1e-9)).clamp(0.0, 1.0);
        low + (of(*missed, above) - low) * part
    }
}

/// The highest loads of all seeds.
pub(super) struct Answer {
    question: Question,
    brackets: Vec<Bracket>,
}

impl Answer {
    /// Requests per second, by seed.
    pub(super) fn rates(&self) -> Vec<f64> {
        self.brackets.iter().map(|bracket| bracket.value(&self.question, |rate, _| rate)).collect()
    }

    pub(super) fn rate(&self) -> Mean {
        Mean::of(self.rates())
    }

    /// What else was at that load, by seed.
    pub(super) fn there(&self, of: impl Fn(&Outcome) -> f64) -> Vec<f64> {
        self.brackets.iter().map(|bracket| bracket.value(&self.question, |_, outcome| of(outcome))).collect()
    }
}

/// Answers in the order of the questions.
pub(super) fn ask(
    context: &Context<'_>,
    what: &str,
    questions: Vec<Question>,
) -> Result<Vec<Answer>, String> {
    let halvings = if context.quick { 0 } else { HALVINGS };
    let seeds = &context.seeds;
    let mut answers: Vec<Answer> = questions
        .into_iter()
        .map(|question| Answer { question, brackets: vec![Bracket::default(); seeds.len()] })
        .collect();
    for round in 1.. {
        let mut cells = Vec::new();
        let mut places = Vec::new();
        for (at, answer) in answers.iter().enumerate() {
            let question = &answer.question;
            for (which, bracket) in answer.brackets.iter().enumerate() {
                let Some(rate) = bracket.next(question.guess, halvings) else { continue };
                places.push((at, which, rate));
                cells.push(Cell {
                    scenario: question.scenario.clone(),
                    rate,
                    policy: question.contender.policy.clone(),
                    seed: seeds[which],
                    timed: false,
                });
            }
        }
        if cells.is_empty() {
            break;
        }
        let outcomes = context.runner.run(&format!("{what}, round {round}"), &cells)?;
        for ((at, which, rate), outcome) in places.into_iter().zip(outcomes) {
            let answer = &mut answers[at];
            let met = (answer.question.of)(&outcome) >= answer.question.limit;
            answer.brackets[which].tell(rate, outcome, met);
        }
    }
    Ok(answers)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(real: f64, guess: f64) -> (Bracket, u32) {
        let mut bracket = Bracket::default();
        let mut runs = 0;
        while let Some(rate) = bracket.next(guess, 3) {
            let outcome = Outcome { goodput: 1.0 - 0.1 * rate / real, ..Outcome::default() };
            let met = outcome.goodput >= 0.9;
            bracket.tell(rate, outcome, met);
            runs += 1;
            assert!(runs < 30);
        }
        (bracket, runs)
    }

    #[test]
    fn the_gap_closes_around_the_load() {
        for (real, guess) in [(10.0, 10.0), (10.0, 3.0), (10.0, 60.0), (17.0, 16.9)] {
            let (bracket, runs) = found(real, guess);
            let (met, missed) = (bracket.met.unwrap().0, bracket.missed.unwrap().0);
            assert!(met <= real && real < missed && missed / met < 1.045, "{met} {missed}");
            assert!(runs <= 12, "{runs}");
        }
    }

    #[test]
    fn it_gives_up_far_from_the_guess() {
        let (bracket, _) = found(1e-9, 10.0);
        assert!(bracket.met.is_none());
        let (bracket, _) = found(1e9, 10.0);
        assert!(bracket.missed.is_none());
    }
}
