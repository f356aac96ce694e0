//! Tables of conditions by contenders, and what they say in words.

#[cfg(test)]
mod tests;

use std::ops::Range;

use forebay_sim::baselines::BaselineKind;

use crate::cell::{Cell, Contender, MEAN, Outcome};
use crate::contenders;
use crate::context::Context;
use crate::doc::Doc;
use crate::scenario::Scenario;
use crate::stats::Mean;

/// What a row is about.
#[derive(Clone, Debug)]
pub(crate) struct Condition {
    pub(crate) name: String,
    pub(crate) scenario: Scenario,
    /// Requests per second.
    pub(crate) rate: f64,
}

impl Condition {
    pub(crate) fn new(name: impl Into<String>, scenario: Scenario, rate: f64) -> Condition {
        Condition { name: name.into(), scenario, rate }
    }

    /// One run of it; of `predictive`, until somebody else is put in.
    pub(crate) fn cell(&self, seed: u64) -> Cell {
        let policy = contenders::predictive().policy;
        Cell { scenario: self.scenario.clone(), rate: self.rate, policy, seed, timed: false }
    }
}

/// Contenders under several conditions.
pub(crate) struct Comparison {
    pub(crate) conditions: Vec<Condition>,
    pub(crate) contenders: Vec<Contender>,
    /// `[condition][contender][seed]`; none where nobody asked.
    outcomes: Vec<Vec<Option<Vec<Outcome>>>>,
}

impl Comparison {
    /// Runs every contender under every condition for which `asked` (condition,
    /// contender) holds, with every seed.
    pub(crate) fn run(
        context: &Context<'_>,
        what: &str,
        conditions: Vec<Condition>,
        contenders: Vec<Contender>,
        asked: impl Fn(usize, usize) -> bool,
    ) -> Result<Comparison, String> {
        Comparison::of_cells(context, what, conditions, contenders, |condition, row, column| {
            let seeds = context.seeds.iter().filter(|_| asked(row, column));
            Ok(seeds.map(|&seed| condition.cell(seed)).collect())
        })
    }

    /// The same where `cells` (condition, its number, contender) says what is
    /// run. Who decides in a cell is put in here.
    pub(crate) fn of_cells(
        context: &Context<'_>,
        what: &str,
        conditions: Vec<Condition>,
        contenders: Vec<Contender>,
        of: impl Fn(&Condition, usize, usize) -> Result<Vec<Cell>, String>,
    ) -> Result<Comparison, String> {
        let mut cells = Vec::new();
        let mut places = Vec::new();
        for (row, condition) in conditions.iter().enumerate() {
            for (column, contender) in contenders.iter().enumerate() {
                for cell in of(condition, row, column)? {
                    cells.push(Cell { policy: contender.policy.clone(), ..cell });
                    places.push((row, column));
                }
            }
        }
        let mut outcomes = vec![vec![None; contenders.len()]; conditions.len()];
        // Those that are timed run alone: the others must not wait for them.
        for timed in [false, true] {
            let (at, some): (Vec<_>, Vec<_>) = places
                .iter()
                .copied()
                .zip(cells.iter().cloned())
                .filter(|(_, cell)| cell.timed == timed)
                .unzip();
            if some.is_empty() {
                continue;
            }
            for ((row, column), outcome) in at.into_iter().zip(context.runner.run(what, &some)?) {
                outcomes[row][column].get_or_insert_with(Vec::new).push(outcome);
            }
        }
        Ok(Comparison { conditions, contenders, outcomes })
    }

    /// Of one contender under one condition, by seed.
    pub(crate) fn of(&self, row: usize, column: usize) -> Option<&[Outcome]> {
        self.outcomes.get(row)?.get(column)?.as_deref()
    }

    /// Goodput of one less that of another, in points.
    pub(crate) fn points(&self, one: (usize, usize), other: (usize, usize)) -> Option<Mean> {
        Some(points(self.of(one.0, one.1)?, self.of(other.0, other.1)?))
    }

    /// Of these rows the one where a contender has the least goodput, and how
    /// much more than under the condition `base` that is, in points.
    pub(crate) fn worst(&self, rows: Range<usize>, base: usize, column: usize) -> Option<(&Condition, Mean)> {
        let all = rows
            .filter_map(|row| Some((self.conditions.get(row)?, self.points((row, column), (base, column))?)));
        all.min_by(|a, b| a.1.mean.total_cmp(&b.1.mean))
    }

    /// Writes every figure down.
    pub(crate) fn table(&self, doc: &mut Doc, of_rows: &str) {
        let mut head = vec![of_rows.to_owned()];
        head.extend(self.contenders.iter().map(|contender| contender.name.clone()));
        let rows: Vec<Vec<String>> = self
            .conditions
            .iter()
            .zip(&self.outcomes)
            .map(|(condition, columns)| {
                let figures = columns.iter().map(|seeds| seeds.as_deref().map_or("".to_owned(), figures));
                std::iter::once(condition.name.clone()).chain(figures).collect()
            })
            .collect();
        doc.table(&head, &rows);
    }

    /// In how many rows one contender is the best of these, and each row in
    /// which it is not.
    pub(crate) fn standing(&self, ours: usize, rivals: Range<usize>) -> String {
        let name = &self.contenders[ours].name;
        let (mut rows, mut ahead) = (0, 0);
        let (mut lost, mut level) = (Vec::new(), Vec::new());
        for (row, condition) in self.conditions.iter().enumerate() {
            let Some(best) = self.best(row, rivals.clone(), |outcome| -outcome.goodput) else { continue };
            let Some(lead) = self.points((row, ours), (row, best)) else { continue };
            rows += 1;
            let told =
                |by: Mean| format!("“{}” to {}: {}", condition.name, self.contenders[best].name, show(by));
            match lead {
                _ if lead.mean > lead.half || lead.mean == 0.0 => ahead += 1,
                _ if lead.mean < -lead.half.max(0.05) => lost.push(told(lead)),
                _ => level.push(lead.mean),
            }
        }
        let mut text = format!(
            "Of {rows} rows with rivals, `{name}` is ahead of the best of them or equal in {ahead}, level within \
             the confidence interval in {}",
            level.len()
        );
        match lost.is_empty() {
            true => text.push_str(", and loses none."),
            false => text += &format!(", and **loses {}** ({}).", lost.len(), lost.join("; ")),
        }
        for (what, of) in [("TTFT", ttft as fn(&Outcome) -> f64), ("e2e", e2e)] {
            text += &self.slower(ours, rivals.clone(), what, of);
        }
        text
    }

    /// Where some rival is faster.
    fn slower(&self, ours: usize, rivals: Range<usize>, what: &str, of: fn(&Outcome) -> f64) -> String {
        let mut rows = 0;
        let mut worst: Option<(f64, String)> = None;
        for (row, condition) in self.conditions.iter().enumerate() {
            let Some(best) = self.best(row, rivals.clone(), of) else { continue };
            let (Some(mine), Some(theirs)) = (self.of(row, ours), self.of(row, best)) else { continue };
            let longer = percent(mine, theirs, of);
            if longer.mean > longer.half.max(0.5) {
                rows += 1;
                if worst.as_ref().is_none_or(|(most, _)| longer.mean > *most) {
                    let told = format!(
                        "{:.0} % in “{}” ({})",
                        longer.mean, condition.name, self.contenders[best].name
                    );
                    worst = Some((longer.mean, told));
                }
            }
        }
        match worst {
            None => format!(" No rival has a shorter mean {what}."),
            Some((_, told)) => {
                format!(" Some rival has a shorter mean {what} in {rows} of them, at most by {told}.")
            }
        }
    }

    /// The one of these with the least of something on average.
    pub(crate) fn best(
        &self,
        row: usize,
        among: Range<usize>,
        of: impl Fn(&Outcome) -> f64,
    ) -> Option<usize> {
        let mean = |column: usize| self.of(row, column).map(|seeds| Mean::of(seeds.iter().map(&of)).mean);
        let all = among.filter_map(|column| Some((column, mean(column)?)));
        all.min_by(|a, b| a.1.total_cmp(&b.1)).map(|(column, _)| column)
    }
}

pub(crate) fn ttft(outcome: &Outcome) -> f64 {
    outcome.ttft_ms[MEAN]
}

pub(crate) fn e2e(outcome: &Outcome) -> f64 {
    outcome.e2e_ms[MEAN]
}

/// What the figures of a table are.
pub(crate) const FIGURES: &str = "Figures are goodput ± half its 95 % confidence interval over seeds / mean \
                                  TTFT in ms / mean e2e in s.";

/// Goodput, mean TTFT in ms and mean e2e in s.
pub(crate) fn figures(seeds: &[Outcome]) -> String {
    let goodput = Mean::of(seeds.iter().map(|outcome| outcome.goodput));
    let mean = |of: fn(&Outcome) -> f64| Mean::of(seeds.iter().map(of)).mean;
    let width = if goodput.half > 0.0 { format!(" ± {:.3}", goodput.half) } else { String::new() };
    format!("{:.3}{width} / {:.0} / {:.2}", goodput.mean, mean(ttft), mean(e2e) * 1e-3)
}

/// How much more goodput one has, seed by seed, in points.
pub(crate) fn points(one: &[Outcome], other: &[Outcome]) -> Mean {
    let of = |seeds: &[Outcome]| seeds.iter().map(|outcome| 100.0 * outcome.goodput).collect::<Vec<_>>();
    Mean::of_differences(&of(one), &of(other))
}

/// How much longer something takes one, seed by seed, in per cent.
pub(crate) fn percent(one: &[Outcome], other: &[Outcome], of: fn(&Outcome) -> f64) -> Mean {
    Mean::of(one.iter().zip(other).map(|(one, other)| 100.0 * (of(one) / of(other).max(1e-9) - 1.0)))
}

/// A difference with its sign, and how sure it is.
pub(crate) fn show(difference: Mean) -> String {
    let sign = if difference.mean < 0.0 { "−" } else { "+" };
    let width = if difference.half > 0.0 { format!(" ± {:.1}", difference.half) } else { String::new() };
    format!("{sign}{:.1}{width}", difference.mean.abs())
}

/// The rivals that came closest, as tuned.
pub(crate) fn rivals(context: &Context<'_>) -> Vec<Contender> {
    const CLOSEST: [BaselineKind; 4] = [
        BaselineKind::Mooncake,
        BaselineKind::Dynamo,
        BaselineKind::LlmdAffinity,
        BaselineKind::LeastRequest,
    ];
    CLOSEST.into_iter().map(|kind| context.best(kind)).collect()
}

/// All of them, or the first few where not much is asked for.
pub(crate) fn some<T>(context: &Context<'_>, few: usize, mut all: Vec<T>) -> Vec<T> {
    if context.quick {
        all.truncate(few);
    }
    all
}
