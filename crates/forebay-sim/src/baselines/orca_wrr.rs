//! Weighted round robin by what endpoints report of themselves, as gRPC (A58)
//! and Envoy's `client_side_weighted_round_robin` do it.
//!
//! weight = qps / (utilization + eps/qps · penalty); endpoints without one get
//! the mean of the others; with fewer than two of them, plain round robin.

use rand_pcg::Pcg64Mcg;

use super::{Knob, Knobs, Rival, View};

pub(super) const KNOBS: &[Knob] = &[
    Knob {
        name: "blackout_period",
        default: 10.0,
        tries: &[0.0, 2.0, 10.0],
        what: "seconds of reports before a weight is used",
    },
    Knob {
        name: "weight_expiration_period",
        default: 180.0,
        tries: &[10.0, 60.0, 180.0],
        what: "seconds without a report after which a weight is unknown",
    },
    Knob {
        name: "weight_update_period",
        default: 1.0,
        tries: &[0.1, 0.5, 1.0],
        what: "seconds between two computations of all weights; at least 0.1",
    },
    Knob {
        name: "error_utilization_penalty",
        default: 1.0,
        tries: &[0.0, 1.0],
        what: "what errors per request count for",
    },
];

pub(super) fn make(knobs: &Knobs) -> OrcaWrr {
    let nanos = |at: usize| (knobs.get(KNOBS, at).clamp(0.0, 1e6) * 1e9) as u64;
    OrcaWrr {
        blackout: nanos(0),
        expiration: nanos(1),
        period: nanos(2).max(100_000_000),
        penalty: knobs.get(KNOBS, 3),
        since: Vec::new(),
        weights: Vec::new(),
        deadlines: Vec::new(),
        updated: None,
        clock: 0.0,
    }
}

pub(super) struct OrcaWrr {
    blackout: u64,
    expiration: u64,
    period: u64,
    penalty: f64,
    /// When an endpoint's reports began to come without a gap.
    since: Vec<Option<u64>>,
    weights: Vec<f64>,
    /// The earliest-deadline-first scheduler.
    deadlines: Vec<f64>,
    updated: Option<u64>,
    clock: f64,
}

impl OrcaWrr {
    fn weight(&mut self, view: &View<'_>, endpoint: usize) -> f64 {
        let Some((at, load)) = view.known[endpoint].orca else {
            self.since[endpoint] = None;
            return 0.0;
        };
        if view.now.saturating_sub(at) >= self.expiration {
            self.since[endpoint] = None;
            return 0.0;
        }
        let since = *self.since[endpoint].get_or_insert(at);
        if view.now.saturating_sub(since) < self.blackout {
            return 0.0;
        }
        let qps = f64::from(load.qps.unwrap_or(0.0));
        let utilization = f64::from(load.utilization.unwrap_or(0.0));
        if qps <= 0.0 || utilization <= 0.0 {
            return 0.0;
        }
        qps / (utilization + f64::from(load.eps.unwrap_or(0.0)) / qps * self.penalty)
    }

    fn update(&mut self, view: &View<'_>) {
        self.since.resize(view.known.len(), None);
        self.weights.resize(view.known.len(), 1.0);
        if self.deadlines.len() < view.known.len() {
            // Spread from the start, or everybody's first turn comes at once.
            let count = view.known.len();
            self.deadlines = (0..count).map(|i| i as f64 / count as f64).collect();
        }
        if self.updated.is_some_and(|at| view.now.saturating_sub(at) < self.period) {
            return;
        }
        self.updated = Some(view.now);
        let weights: Vec<f64> =
            view.candidates.iter().map(|&endpoint| self.weight(view, endpoint as usize)).collect();
        let known = weights.iter().filter(|weight| **weight > 0.0).count();
        let mean = weights.iter().sum::<f64>() / known.max(1) as f64;
        for (&endpoint, &weight) in view.candidates.iter().zip(&weights) {
            self.weights[endpoint as usize] = match known {
                0 | 1 => 1.0,
                _ if weight > 0.0 => weight / mean,
                _ => 1.0,
            };
        }
    }
}

impl Rival for OrcaWrr {
    fn pick(&mut self, view: &View<'_>, _: &mut Pcg64Mcg) -> Option<u32> {
        self.update(view);
        let deadline = |e: &&u32| self.deadlines[**e as usize];
        let first = view.candidates.iter().min_by(|a, b| deadline(a).total_cmp(&deadline(b))).copied()?;
        let at = first as usize;
        self.clock = self.clock.max(self.deadlines[at]);
        // One that was away does not catch up.
        self.deadlines[at] = self.deadlines[at].max(self.clock - 1.0) + 1.0 / self.weights[at].max(1e-6);
        Some(first)
    }
}
