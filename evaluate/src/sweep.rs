//! Goodput against load: which loads are run for whom.
//!
//! First the six loads, the least first, until one is hopeless; then loads
//! beyond, until the capacity of every seed lies between two; then loads that
//! halve the gap it lies in. What is run depends on outcomes alone, so a second
//! sweep runs the same.

use crate::capacity::{LIMIT, capacity, falling};
use crate::cell::{Cell, Contender, Outcome};
use crate::context::Context;
use crate::scenario::Scenario;

/// Below this goodput a contender is not asked to carry more.
const HOPELESS: f64 = 0.5;
/// Loads tried below the lowest, and above the highest.
const BEYOND: usize = 3;
const LOWER: f64 = 0.6;
const HIGHER: f64 = 1.3;

/// What to run for a contender.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    /// Requests per second, the least first.
    pub(crate) levels: Vec<f64>,
    /// Loads to try beyond the levels on either side, at most.
    pub(crate) beyond: usize,
    /// How often to halve the gap that the capacity lies in.
    pub(crate) refine: usize,
}

impl Plan {
    pub(crate) fn new(levels: &[f64], refine: usize) -> Plan {
        Plan { levels: levels.to_vec(), beyond: BEYOND, refine }
    }
}

/// Outcomes of one contender on one workload at one load.
#[derive(Clone, Debug)]
pub(crate) struct Point {
    pub(crate) rate: f64,
    pub(crate) seeds: Vec<Outcome>,
}

impl Point {
    fn goodput(&self) -> f64 {
        self.seeds.iter().map(|outcome| outcome.goodput).sum::<f64>() / self.seeds.len().max(1) as f64
    }

    fn all_missed(&self) -> bool {
        self.seeds.iter().all(|outcome| outcome.goodput < LIMIT)
    }

    fn all_met(&self) -> bool {
        self.seeds.iter().all(|outcome| outcome.goodput >= LIMIT)
    }
}

/// Outcomes of one contender on one workload, by load.
#[derive(Clone, Debug, Default)]
pub(crate) struct Curve {
    pub(crate) points: Vec<Point>,
    /// Loads that were run below the levels, above them, and to halve a gap.
    lower: usize,
    higher: usize,
    halved: usize,
}

/// Why a load is run.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Why {
    Level,
    Lower,
    Higher,
    Halve,
}

impl Curve {
    /// At this very load, if it was run.
    pub(crate) fn at(&self, rate: f64) -> Option<&Point> {
        self.points.iter().find(|point| point.rate == rate)
    }

    /// Of each seed: its load and how it is meant.
    pub(crate) fn capacities(&self) -> Vec<crate::capacity::Capacity> {
        let seeds = self.points.first().map_or(0, |point| point.seeds.len());
        let of_seed = |seed: usize| {
            capacity(&self.points.iter().map(|p| (p.rate, p.seeds[seed].goodput)).collect::<Vec<_>>())
        };
        (0..seeds).map(of_seed).collect()
    }

    fn insert(&mut self, point: Point, why: Why) {
        match why {
            Why::Level => {}
            Why::Lower => self.lower += 1,
            Why::Higher => self.higher += 1,
            Why::Halve => self.halved += 1,
        }
        let at = self.points.partition_point(|other| other.rate < point.rate);
        self.points.insert(at, point);
    }

    /// The next load to run, or none when all is known.
    fn next(&self, plan: &Plan) -> Option<(f64, Why)> {
        let level = plan.levels.iter().find(|rate| self.at(**rate).is_none()).map(|rate| (*rate, Why::Level));
        let (Some(first), Some(last)) = (self.points.first(), self.points.last()) else { return level };
        let is_hopeless = last.goodput() < HOPELESS && last.all_missed();
        if level.is_some() && !is_hopeless {
            return level;
        }
        if !first.all_met() && self.lower < plan.beyond {
            return Some((rounded(first.rate * LOWER), Why::Lower));
        }
        if !last.all_missed() && self.higher < plan.beyond {
            return Some((rounded(last.rate * HIGHER), Why::Higher));
        }
        if self.halved >= plan.refine {
            return None;
        }
        let means = falling(&self.points.iter().map(Point::goodput).collect::<Vec<_>>());
        let gap = means.windows(2).position(|pair| pair[0] >= LIMIT && pair[1] < LIMIT)?;
        let middle = rounded((self.points[gap].rate + self.points[gap + 1].rate) / 2.0);
        self.at(middle).is_none().then_some((middle, Why::Halve))
    }
}

/// To the hundredth: loads are printed.
fn rounded(rate: f64) -> f64 {
    (rate * 100.0).round() / 100.0
}

/// A workload with everyone who plays it.
pub(crate) struct Sweep<'a> {
    pub(crate) scenario: &'a Scenario,
    pub(crate) contenders: Vec<(&'a Contender, Plan)>,
}

/// The curves, `[sweep][contender]`.
pub(crate) fn sweep(
    context: &Context<'_>,
    what: &str,
    sweeps: &[Sweep<'_>],
) -> Result<Vec<Vec<Curve>>, String> {
    let mut curves: Vec<Vec<Curve>> =
        sweeps.iter().map(|sweep| vec![Curve::default(); sweep.contenders.len()]).collect();
    for round in 1.. {
        let mut wanted = Vec::new();
        let mut cells = Vec::new();
        for (at, sweep) in sweeps.iter().enumerate() {
            for (who, (contender, plan)) in sweep.contenders.iter().enumerate() {
                let Some((rate, why)) = curves[at][who].next(plan) else { continue };
                wanted.push((at, who, rate, why));
                cells.extend(context.seeds.iter().map(|&seed| Cell {
                    scenario: sweep.scenario.clone(),
                    rate,
                    policy: contender.policy.clone(),
                    seed,
                    timed: false,
                }));
            }
        }
        if wanted.is_empty() {
            break;
        }
        let mut outcomes = context.runner.run(&format!("{what}, round {round}"), &cells)?.into_iter();
        for (at, who, rate, why) in wanted {
            let seeds = outcomes.by_ref().take(context.seeds.len()).collect();
            curves[at][who].insert(Point { rate, seeds }, why);
        }
    }
    Ok(curves)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The loads run for a fleet that carries `real` with 90 % goodput.
    fn loads(real: f64, refine: usize) -> Vec<f64> {
        let plan = Plan::new(&[8.0, 12.0, 16.0, 20.0], refine);
        let mut curve = Curve::default();
        let mut run = Vec::new();
        while let Some((rate, why)) = curve.next(&plan) {
            let goodput = (1.0 - 0.1 * (rate / real).powi(4)).max(0.0);
            let outcome = Outcome { goodput, ..Outcome::default() };
            curve.insert(Point { rate, seeds: vec![outcome] }, why);
            run.push(rate);
            assert!(run.len() < 20, "{run:?}");
        }
        run
    }

    #[test]
    fn hopeless_loads_are_left_out_and_the_gap_is_halved() {
        assert_eq!(loads(9.0, 2), [8.0, 12.0, 16.0, 10.0, 9.0]);
        assert_eq!(loads(17.0, 0), [8.0, 12.0, 16.0, 20.0]);
        assert_eq!(loads(17.0, 2), [8.0, 12.0, 16.0, 20.0, 18.0, 17.0]);
    }

    #[test]
    fn loads_beyond_are_tried() {
        assert_eq!(loads(4.0, 0), [8.0, 4.8, 2.88]);
        assert_eq!(loads(4.0, 2), [8.0, 4.8, 2.88, 3.84, 4.32]);
        assert_eq!(loads(25.0, 0), [8.0, 12.0, 16.0, 20.0, 26.0]);
        assert_eq!(loads(1e9, 2), [8.0, 12.0, 16.0, 20.0, 26.0, 33.8, 43.94]);
        assert_eq!(loads(1e-9, 2), [8.0, 4.8, 2.88, 1.73]);
    }
}
