//! Who is compared on what, and how it went.

use forebay_gate::{PolicyKind, Profile};
use forebay_sim::baselines::BaselineKind;

use crate::capacity::{Capacity, Side};
use crate::cell::Contender;
use crate::contenders;
use crate::context::Context;
use crate::stats::Mean;
use crate::sweep::{Curve, Plan, Sweep, sweep};
use crate::workloads::{self, Judged};

/// What a contender is to us.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Role {
    /// `predictive` as it is installed.
    Predictive,
    /// `predictive` with another profile or tuned.
    Variant,
    /// Another policy of ours.
    Own,
    Default(BaselineKind),
    Tuned(BaselineKind),
}

/// Everything that the section is about.
pub(super) struct Results {
    /// `predictive` comes first.
    pub(super) contenders: Vec<(Role, Contender)>,
    pub(super) judged: Vec<Judged>,
    /// `[workload][contender]`.
    pub(super) curves: Vec<Vec<Curve>>,
}

/// How closely a capacity is found, as a part of the load: of those that matter
/// most, and of all others.
const CLOSE: f64 = 0.03;
const COARSE: f64 = 0.1;

pub(super) fn collect(context: &Context<'_>) -> Result<Results, String> {
    let contenders = if context.quick { few(context) } else { all(context) };
    let judged = workloads::judged()?;
    let plan = |judged: &Judged, role: Role| {
        let closely = matches!(
            role,
            Role::Predictive
                | Role::Tuned(_)
                | Role::Default(BaselineKind::LeastRequest | BaselineKind::RoundRobin)
        );
        match context.quick {
            true => Plan { levels: vec![judged.rates[1], judged.rates[4]], beyond: 0, gap: 0.2 },
            false => Plan::new(&judged.rates, if closely { CLOSE } else { COARSE }),
        }
    };
    let sweeps: Vec<Sweep<'_>> = judged
        .iter()
        .map(|judged| Sweep {
            scenario: &judged.scenario,
            contenders: contenders.iter().map(|(role, contender)| (contender, plan(judged, *role))).collect(),
        })
        .collect();
    let curves = sweep(context, "capacity", &sweeps)?;
    drop(sweeps);
    Ok(Results { contenders, judged, curves })
}

fn all(context: &Context<'_>) -> Vec<(Role, Contender)> {
    let mut all = vec![
        (Role::Predictive, contenders::predictive()),
        (Role::Variant, contenders::priced("predictive tuned", context.tuned.prices)),
    ];
    let profiles = [Profile::Lean, Profile::Goodput, Profile::Batch];
    all.extend(profiles.map(|profile| (Role::Variant, contenders::profile(profile))));
    let rivals = BaselineKind::ALL.iter().copied();
    all.extend(rivals.clone().map(|kind| (Role::Tuned(kind), context.best(kind))));
    all.extend(rivals.map(|kind| (Role::Default(kind), contenders::rival(kind))));
    let own = PolicyKind::ALL.into_iter().filter(|kind| *kind != PolicyKind::Predictive);
    all.extend(own.map(|kind| (Role::Own, contenders::ours(kind))));
    all
}

fn few(context: &Context<'_>) -> Vec<(Role, Contender)> {
    let tuned = |kind| (Role::Tuned(kind), context.best(kind));
    let default = |kind| (Role::Default(kind), contenders::rival(kind));
    vec![
        (Role::Predictive, contenders::predictive()),
        (Role::Variant, contenders::priced("predictive tuned", context.tuned.prices)),
        tuned(BaselineKind::LeastRequest),
        tuned(BaselineKind::Mooncake),
        default(BaselineKind::RoundRobin),
        default(BaselineKind::LeastRequest),
        (Role::Own, contenders::ours(PolicyKind::LeastWork)),
    ]
}

/// The capacities of one contender on one workload over seeds.
#[derive(Clone, Debug)]
pub(super) struct Carried {
    pub(super) mean: Mean,
    pub(super) side: Side,
    pub(super) seeds: Vec<f64>,
}

/// How two contenders compare.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Wins,
    Ties,
    Loses,
}

impl Results {
    pub(super) fn carried(&self, workload: usize, contender: usize) -> Carried {
        let capacities = self.curves[workload][contender].capacities();
        carried(&capacities)
    }

    /// How many times as much `predictive` carries, seed by seed, and the verdict.
    pub(super) fn ratio(&self, workload: usize, contender: usize) -> (Mean, Verdict) {
        let (ours, theirs) = (self.carried(workload, 0), self.carried(workload, contender));
        let ratios = ours.seeds.iter().zip(&theirs.seeds).map(|(ours, theirs)| ours / theirs.max(1e-9));
        let ratio = Mean::of(ratios);
        (ratio, verdict(ratio, 1.0))
    }

    pub(super) fn find(&self, role: Role) -> Option<usize> {
        self.contenders.iter().position(|(other, _)| *other == role)
    }

    pub(super) fn name(&self, contender: usize) -> &str {
        &self.contenders[contender].1.name
    }

    /// Rivals as tuned, the one that carries most first.
    pub(super) fn tuned(&self, workload: usize) -> Vec<usize> {
        let is_tuned = |at: &usize| matches!(self.contenders[*at].0, Role::Tuned(_));
        let mut tuned: Vec<usize> = (0..self.contenders.len()).filter(is_tuned).collect();
        let mean = |at: usize| self.carried(workload, at).mean.mean;
        tuned.sort_by(|a, b| mean(*b).total_cmp(&mean(*a)));
        tuned
    }
}

pub(super) fn carried(capacities: &[Capacity]) -> Carried {
    let seeds: Vec<f64> = capacities.iter().map(|capacity| capacity.rate).collect();
    let any = |side| capacities.iter().any(|capacity| capacity.side == side);
    let side = match (any(Side::AtLeast), any(Side::Below)) {
        (true, _) => Side::AtLeast,
        (_, true) => Side::Below,
        _ => Side::At,
    };
    Carried { mean: Mean::of(seeds.iter().copied()), side, seeds }
}

/// Whether a value is above, at or below `even`, as far as its interval says.
pub(super) fn verdict(value: Mean, even: f64) -> Verdict {
    if value.mean - value.half > even {
        Verdict::Wins
    } else if value.mean + value.half < even {
        Verdict::Loses
    } else {
        Verdict::Ties
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_stay_bounds() {
        let at = |rate, side| Capacity { rate, side };
        assert_eq!(carried(&[at(3.0, Side::At), at(4.0, Side::At)]).side, Side::At);
        assert_eq!(carried(&[at(3.0, Side::At), at(4.0, Side::AtLeast)]).side, Side::AtLeast);
        assert_eq!(carried(&[at(3.0, Side::Below), at(4.0, Side::At)]).side, Side::Below);
    }

    #[test]
    fn verdicts_need_the_whole_interval() {
        let mean = |mean, half| Mean { mean, half };
        assert_eq!(verdict(mean(1.1, 0.05), 1.0), Verdict::Wins);
        assert_eq!(verdict(mean(1.1, 0.2), 1.0), Verdict::Ties);
        assert_eq!(verdict(mean(0.9, 0.05), 1.0), Verdict::Loses);
        assert_eq!(verdict(mean(1.0, 0.0), 1.0), Verdict::Ties);
    }
}
