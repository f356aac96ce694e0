//! In turn, in proportion to requests per utilisation as the endpoints report it.

use std::time::Duration;

use forebay_core::{OrcaLoad, Time};
use rand::RngExt;
use rand_pcg::Pcg64Mcg;
use serde::{Deserialize, Serialize};

use super::by_slot::BySlot;
use super::round_robin::RoundRobin;
use super::{Pick, Policy, View};
use crate::endpoints::Endpoints;
use crate::policy_kind::PolicyKind;
use crate::pool::OrcaConfig;

/// A shorter update period is raised to this.
const LEAST_UPDATE: Duration = Duration::from_millis(100);

/// The weight of one endpoint and since when it is known (`EndpointWeight` of
/// gRPC proposal A58).
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
struct EndpointWeight {
    weight: f64,
    /// None: infinitely far in the future.
    non_empty_since: Option<Time>,
    last_updated: Time,
    /// The last report that was read.
    read: Option<Time>,
    /// When the endpoint last became ready, as far as known.
    ready_since: Option<Time>,
}

impl EndpointWeight {
    /// Takes in a report: `qps / (utilization + eps/qps · penalty)`. One
    /// without utilisation leaves everything as it was, and so does one without
    /// requests per second where `seen` has none either: those of this gateway
    /// that finished and that failed there.
    fn update(&mut self, at: Time, load: &OrcaLoad, seen: (f64, f64), penalty: f64) {
        let positive = |x: Option<f32>| x.filter(|x| x.is_finite() && *x > 0.0).map_or(0.0, f64::from);
        let utilization = positive(load.utilization);
        let (qps, eps) = match positive(load.qps) {
            0.0 => seen,
            told => (told, positive(load.eps)),
        };
        if qps == 0.0 || utilization == 0.0 {
            return;
        }
        let penalty = if penalty.is_finite() { penalty.max(0.0) } else { 0.0 };
        let weight = qps / (utilization + eps / qps * penalty);
        if weight.is_finite() && weight > 0.0 {
            self.non_empty_since.get_or_insert(at);
            self.last_updated = at;
            self.weight = weight;
        }
    }

    /// The weight to use; 0 when it is not known, too new or too old.
    fn get(&mut self, now: Time, config: &OrcaConfig) -> f64 {
        if self.non_empty_since.is_none() {
            return 0.0;
        }
        if now.since(self.last_updated) >= config.weight_expiration_period {
            self.non_empty_since = None;
            return 0.0;
        }
        let young = |since: Time| now.since(since) < config.blackout_period;
        if !config.blackout_period.is_zero() && self.non_empty_since.is_none_or(young) {
            return 0.0;
        }
        self.weight
    }
}

/// The turn of one endpoint.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
struct Turn {
    /// 1 over its weight; 0 before it has one.
    period: f64,
    deadline: f64,
    /// That weight, whole while it ramps up.
    weight: f64,
}

/// gRPC's `weighted_round_robin` (proposal A58), which is Envoy's
/// `client_side_weighted_round_robin`, over the reports that came with answers.
///
/// Weights are read and turns dealt anew every update period. An endpoint
/// whose weight is unknown has the mean of the others' weights; with fewer
/// than two known, each goes in turn. Turns are earliest deadline first: the
/// first deadline is drawn from one period, each turn puts the next one a
/// period later. On top, as in Envoy, the weight of an endpoint that ramps up
/// is less. The pool's own weights do not count: what is reported is better.
///
/// Where a report has no requests per second, as those of vLLM and Triton, the
/// rates at which this gateway's own requests finished and failed there stand
/// for them: the proposal would know no weight. With several gateways each sees
/// its part, which is the same part of every endpoint.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct OrcaWeightedRoundRobin {
    weights: BySlot<EndpointWeight>,
    turns: BySlot<Turn>,
    /// When weights were last read.
    updated: Option<Time>,
    /// The latest deadline that has passed.
    passed: f64,
    /// The weight of endpoints without one; 0: fewer than two have one.
    mean: f64,
    in_turn: RoundRobin,
}

impl OrcaWeightedRoundRobin {
    /// Reads every report and deals the turns anew; O(eligible). Over the whole
    /// pool, as the turns are of all, whoever may have the request that happens
    /// to come when it is time.
    fn update(&mut self, view: &View<'_>, rng: &mut Pcg64Mcg) {
        self.updated = Some(view.now);
        let config = &view.config.orca;
        let (mut sum, mut known) = (0.0, 0u32);
        for &slot in view.eligible {
            let weight = self.read(view, slot).get(view.now, config);
            sum += weight;
            known += u32::from(weight > 0.0);
        }
        self.mean = if known < 2 { 0.0 } else { sum / f64::from(known) };
        self.passed = 0.0;
        self.turns = BySlot::default();
        if self.mean > 0.0 {
            for &slot in view.eligible {
                self.deal(view, slot, rng);
            }
        }
    }

    fn read(&mut self, view: &View<'_>, slot: u32) -> &mut EndpointWeight {
        let state = self.weights.at(slot, view.endpoints);
        // It went away and came back: its blackout begins anew.
        let ready_since = view.endpoints.ready_since(slot);
        if ready_since.is_some() && ready_since != state.ready_since {
            state.ready_since = ready_since;
            state.non_empty_since = None;
        }
        if let Some(report) = view.endpoints.orca(slot)
            && state.read.is_none_or(|read| report.at > read)
            && ready_since.is_none_or(|since| report.at >= since)
        {
            state.read = Some(report.at);
            let seen = view.endpoints.end_rates(slot, view.now);
            state.update(report.at, &report.load, seen, view.config.orca.error_utilization_penalty);
        }
        state
    }

    /// Gives an endpoint its first turn of this round of weights.
    fn deal(&mut self, view: &View<'_>, slot: u32, rng: &mut Pcg64Mcg) {
        let weight = match self.weights.at(slot, view.endpoints).get(view.now, &view.config.orca) {
            known if known > 0.0 => known,
            _ => self.mean,
        };
        let period = (weight * view.ramp(slot)).max(1e-12).recip();
        let deadline = self.passed + rng.random::<f64>() * period;
        *self.turns.at(slot, view.endpoints) = Turn { period, deadline, weight };
    }
}

impl Policy for OrcaWeightedRoundRobin {
    fn kind(&self) -> PolicyKind {
        PolicyKind::OrcaWeightedRoundRobin
    }

    fn pick(&mut self, view: &View<'_>, rng: &mut Pcg64Mcg) -> Option<Pick> {
        let period = view.config.orca.weight_update_period.max(LEAST_UPDATE);
        if self.updated.is_none_or(|at| view.now.since(at) >= period) {
            self.update(view, rng);
        }
        if self.mean == 0.0 {
            return self.in_turn.pick(view, rng);
        }
        let mut best: Option<(f64, u32)> = None;
        for &slot in view.candidates {
            if self.turns.at(slot, view.endpoints).period == 0.0 {
                self.deal(view, slot, rng);
            }
            let deadline = self.turns.at(slot, view.endpoints).deadline;
            if best.is_none_or(|(least, _)| deadline < least) {
                best = Some((deadline, slot));
            }
        }
        let (deadline, slot) = best?;
        self.passed = self.passed.max(deadline);
        let turn = self.turns.at(slot, view.endpoints);
        // One that could not be picked for a while does not make up for it.
        turn.deadline = self.passed + turn.period;
        Some(Pick { slot, score: deadline })
    }

    fn reported_weight(&self, slot: u32, endpoints: &Endpoints) -> Option<f64> {
        let turn = self.turns.get(slot, endpoints)?;
        (self.mean > 0.0 && turn.period > 0.0).then_some(turn.weight)
    }
}

#[cfg(test)]
#[path = "orca_weighted_round_robin_tests.rs"]
mod tests;
