//! Goodput against load: which loads are run for whom.
//!
//! First the six loads, the least first, until one is hopeless; then loads
//! beyond, until the capacity of every seed lies between two; then, for each
//! seed by itself, loads that halve the gap it lies in. What is run depends on
//! outcomes alone, so a second sweep runs the same.

use crate::capacity::{Capacity, LIMIT, capacity, falling};
use crate::cell::{Cell, Contender, Outcome};
use crate::context::Context;
use crate::scenario::Scenario;

/// Below this goodput a contender is not asked to carry more.
const HOPELESS: f64 = 0.6;
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
    /// Halve the gap that a capacity lies in until it is at most this part of the load.
    pub(crate) gap: f64,
}

impl Plan {
    pub(crate) fn new(levels: &[f64], gap: f64) -> Plan {
        Plan { levels: levels.to_vec(), beyond: BEYOND, gap }
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
    /// With all seeds, the least load first.
    pub(crate) points: Vec<Point>,
    /// By seed: loads that it alone was run at to find its capacity, and goodput.
    closer: Vec<Vec<(f64, f64)>>,
    /// Loads that were run below the levels and above them.
    lower: usize,
    higher: usize,
}

/// What to run next.
#[derive(Clone, Debug, PartialEq)]
enum Next {
    /// A load, with all seeds.
    All(f64, Where),
    /// Loads, each with the seed of this number.
    Each(Vec<(usize, f64)>),
    Nothing,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Where {
    Level,
    Lower,
    Higher,
}

impl Curve {
    /// At this very load, if it was run.
    pub(crate) fn at(&self, rate: f64) -> Option<&Point> {
        self.points.iter().find(|point| point.rate == rate)
    }

    /// Of each seed: its load and how it is meant.
    pub(crate) fn capacities(&self) -> Vec<Capacity> {
        (0..self.seeds()).map(|seed| capacity(&self.of_seed(seed))).collect()
    }

    fn seeds(&self) -> usize {
        self.points.first().map_or(0, |point| point.seeds.len())
    }

    /// Loads and goodput of one seed, the least load first.
    fn of_seed(&self, seed: usize) -> Vec<(f64, f64)> {
        let mut all: Vec<(f64, f64)> = self.points.iter().map(|p| (p.rate, p.seeds[seed].goodput)).collect();
        all.extend(self.closer.get(seed).into_iter().flatten());
        all.sort_by(|a, b| a.0.total_cmp(&b.0));
        all
    }

    fn insert(&mut self, point: Point, at: Where) {
        match at {
            Where::Level => {}
            Where::Lower => self.lower += 1,
            Where::Higher => self.higher += 1,
        }
        let at = self.points.partition_point(|other| other.rate < point.rate);
        self.points.insert(at, point);
    }

    fn insert_closer(&mut self, seed: usize, rate: f64, goodput: f64) {
        self.closer.resize(self.seeds(), Vec::new());
        if let Some(closer) = self.closer.get_mut(seed) {
            closer.push((rate, goodput));
        }
    }

    fn next(&self, plan: &Plan) -> Next {
        let level = plan.levels.iter().find(|rate| self.at(**rate).is_none());
        let (first, last) = (self.points.first(), self.points.last());
        let is_hopeless = |point: &Point| point.goodput() < HOPELESS && point.all_missed();
        if let Some(level) = level
            && !last.is_some_and(is_hopeless)
        {
            return Next::All(*level, Where::Level);
        }
        let (Some(first), Some(last)) = (first, last) else { return Next::Nothing };
        if !first.all_met() && self.lower < plan.beyond {
            return Next::All(rounded(first.rate * LOWER), Where::Lower);
        }
        if !last.all_missed() && self.higher < plan.beyond {
            return Next::All(rounded(last.rate * HIGHER), Where::Higher);
        }
        let seeds = 0..self.seeds();
        let each: Vec<_> = seeds.filter_map(|seed| Some((seed, self.middle(seed, plan.gap)?))).collect();
        if each.is_empty() { Next::Nothing } else { Next::Each(each) }
    }

    /// The middle of the gap that a seed's capacity lies in, while it is too wide.
    fn middle(&self, seed: usize, widest: f64) -> Option<f64> {
        let all = self.of_seed(seed);
        let goodput = falling(&all.iter().map(|(_, goodput)| *goodput).collect::<Vec<_>>());
        let gap = goodput.windows(2).position(|pair| pair[0] >= LIMIT && pair[1] < LIMIT)?;
        let (from, to) = (all[gap].0, all[gap + 1].0);
        let middle = rounded((from + to) / 2.0);
        (to - from > widest * to && middle > from && middle < to).then_some(middle)
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
                let cell = |rate: f64, seed: u64| Cell {
                    scenario: sweep.scenario.clone(),
                    rate,
                    policy: contender.policy.clone(),
                    seed,
                    timed: false,
                };
                let next = curves[at][who].next(plan);
                match &next {
                    Next::All(rate, _) => cells.extend(context.seeds.iter().map(|seed| cell(*rate, *seed))),
                    Next::Each(each) => {
                        cells.extend(each.iter().map(|(seed, rate)| cell(*rate, context.seeds[*seed])));
                    }
                    Next::Nothing => continue,
                }
                wanted.push((at, who, next));
            }
        }
        if wanted.is_empty() {
            break;
        }
        let mut outcomes = context.runner.run(&format!("{what}, round {round}"), &cells)?.into_iter();
        for (at, who, next) in wanted {
            let curve = &mut curves[at][who];
            match next {
                Next::All(rate, at) => {
                    let seeds = outcomes.by_ref().take(context.seeds.len()).collect();
                    curve.insert(Point { rate, seeds }, at);
                }
                Next::Each(each) => {
                    for ((seed, rate), outcome) in each.into_iter().zip(outcomes.by_ref()) {
                        curve.insert_closer(seed, rate, outcome.goodput);
                    }
                }
                Next::Nothing => {}
            }
        }
    }
    Ok(curves)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn goodput(rate: f64, real: f64) -> f64 {
        (1.0 - 0.1 * (rate / real).powi(4)).max(0.0)
    }

    /// The loads run for a fleet that carries `real` with 90 % goodput.
    fn loads(real: f64, gap: f64) -> Vec<f64> {
        let plan = Plan::new(&[8.0, 12.0, 16.0, 20.0], gap);
        let mut curve = Curve::default();
        let mut run = Vec::new();
        loop {
            match curve.next(&plan) {
                Next::All(rate, at) => {
                    let outcome = Outcome { goodput: goodput(rate, real), ..Outcome::default() };
                    curve.insert(Point { rate, seeds: vec![outcome] }, at);
                    run.push(rate);
                }
                Next::Each(each) => {
                    assert_eq!((each.len(), each[0].0), (1, 0));
                    curve.insert_closer(0, each[0].1, goodput(each[0].1, real));
                    run.push(each[0].1);
                }
                Next::Nothing => return run,
            }
            assert!(run.len() < 20, "{run:?}");
        }
    }

    #[test]
    fn hopeless_loads_are_left_out_and_the_gap_is_halved() {
        assert_eq!(loads(9.0, 0.1), [8.0, 12.0, 16.0, 10.0, 9.0]);
        assert_eq!(loads(17.0, 1.0), [8.0, 12.0, 16.0, 20.0]);
        assert_eq!(loads(17.0, 0.06), [8.0, 12.0, 16.0, 20.0, 18.0, 17.0]);
    }

    #[test]
    fn loads_beyond_are_tried() {
        assert_eq!(loads(4.0, 1.0), [8.0, 4.8, 2.88]);
        assert_eq!(loads(4.0, 0.12), [8.0, 4.8, 2.88, 3.84, 4.32]);
        assert_eq!(loads(25.0, 1.0), [8.0, 12.0, 16.0, 20.0, 26.0]);
        assert_eq!(loads(1e9, 0.01), [8.0, 12.0, 16.0, 20.0, 26.0, 33.8, 43.94]);
        assert_eq!(loads(1e-9, 0.01), [8.0, 4.8, 2.88, 1.73]);
    }

    #[test]
    fn each_seed_has_its_own_capacity() {
        let mut curve = Curve::default();
        for rate in [10.0, 20.0] {
            let outcome = |real| Outcome { goodput: goodput(rate, real), ..Outcome::default() };
            curve.insert(Point { rate, seeds: vec![outcome(12.0), outcome(18.0)] }, Where::Level);
        }
        let plan = Plan { levels: vec![10.0, 20.0], beyond: 0, gap: 0.01 };
        while let Next::Each(each) = curve.next(&plan) {
            for (seed, rate) in each {
                curve.insert_closer(seed, rate, goodput(rate, [12.0, 18.0][seed]));
            }
        }
        let found: Vec<f64> = curve.capacities().iter().map(|capacity| capacity.rate).collect();
        assert!((found[0] - 12.0).abs() < 0.01 && (found[1] - 18.0).abs() < 0.01, "{found:?}");
    }
}
