//! Prequal's rule: the least latency among those that are not hot.

use std::collections::VecDeque;
use std::time::Duration;

use forebay_core::Time;
use rand::RngExt;
use rand::seq::SliceRandom;
use rand_pcg::Pcg64Mcg;
use serde::{Deserialize, Serialize};
use smallvec::SmallVec;

use super::by_slot::BySlot;
use super::{Observed, Pick, Policy, View};
use crate::policy_kind::PolicyKind;

/// A candidate is hot above this quantile of recent requests in flight: 2^−¼.
const HOT_QUANTILE: f64 = 0.840_896_415_253_714_6;
/// Candidates asked for one request.
const ASKED: usize = 5;
/// Probes that are remembered.
const PROBES: usize = 16;
/// A probe is old news after this.
const PROBE_AGE: Duration = Duration::from_secs(1);
/// First tokens remembered of each endpoint.
const LATENCIES: usize = 16;
/// … of which so many, those with the most similar load, make the estimate.
const SIMILAR: usize = 5;
/// A first token is no news any more after this: an endpoint that was slow once
/// gets no requests that could show otherwise.
const LATENCY_AGE: Duration = Duration::from_secs(10);
/// What one more request counts for in the share of failures.
const ERROR_SHARE: f64 = 0.2;
/// How fast the share of failures is forgiven, in seconds.
const ERROR_DECAY_S: f64 = 10.0;
/// From this share of failures on an endpoint is hot whatever its load.
const TOO_MANY_ERRORS: f64 = 0.5;

/// What is known of one endpoint.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
struct Known {
    latencies: VecDeque<Latency>,
    /// Share of the latest requests that failed, 0 to 1, as of `errors_at`.
    errors: f64,
    errors_at: Time,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
struct Latency {
    at: Time,
    in_flight: u32,
    ms: f32,
}

impl Known {
    fn errors(&self, now: Time) -> f64 {
        self.errors * (-now.since(self.errors_at).as_secs_f64() / ERROR_DECAY_S).exp()
    }

    fn ended(&mut self, failed: bool, now: Time) {
        let errors = self.errors(now);
        self.errors = errors + ERROR_SHARE * (f64::from(u8::from(failed)) - errors);
        self.errors_at = self.errors_at.max(now);
    }

    fn first_token(&mut self, latency: Latency) {
        if self.latencies.len() == LATENCIES {
            self.latencies.pop_front();
        }
        self.latencies.push_back(latency);
    }

    /// Median of the latest first tokens that were asked for at a similar load.
    fn latency_ms(&self, in_flight: u32, now: Time) -> Option<f64> {
        let fresh = self.latencies.iter().filter(|l| now.since(l.at) <= LATENCY_AGE);
        let mut near: SmallVec<[(u32, Duration, f32); LATENCIES]> =
            fresh.map(|l| (l.in_flight.abs_diff(in_flight), now.since(l.at), l.ms)).collect();
        near.sort_unstable_by(|a, b| (a.0, a.1).cmp(&(b.0, b.1)).then(a.2.total_cmp(&b.2)));
        near.truncate(SIMILAR);
        near.sort_unstable_by(|a, b| a.2.total_cmp(&b.2));
        near.get(near.len() / 2).map(|near| f64::from(near.2))
    }
}

/// The hot-cold rule of Prequal (Wydrowski et al., NSDI 2024) with its
/// published defaults, in its synchronous mode.
///
/// A probe needs no message here: requests in flight are this Gate's own count
/// and what others were reported to have there, always fresh; the latency is
/// the median of the last times to a first token that were seen there at a
/// similar count. For each request 5 candidates drawn at random are "probed".
/// Their counts join the 16 latest, none older than a second; a candidate is
/// hot when its count is above the 2^−¼ quantile of these. The cold one with
/// the least latency goes; when all are hot, the one with the fewest requests.
/// One of which no latency is known is taken for as good as the best known.
///
/// An endpoint that fails fast must not look fast: its latency is divided by
/// its share of successes, and it is hot while it fails more than half. One
/// that ramps up counts as loaded as its share says.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Prequal {
    slots: BySlot<Known>,
    probes: VecDeque<(Time, f32)>,
}

/// One candidate, asked.
struct Probe {
    slot: u32,
    in_flight: f32,
    latency_ms: Option<f64>,
    fails: bool,
}

impl Prequal {
    fn probe(&mut self, view: &View<'_>, slot: u32) -> Probe {
        let row = view.endpoints.row(slot);
        let in_flight = ((view.requests(slot) + 1.0) / view.ramp(slot) - 1.0) as f32;
        let known = self.slots.at(slot, view.endpoints);
        let errors = known.errors(view.now);
        let latency_ms = known.latency_ms(row.requests, view.now).map(|ms| ms / (1.0 - errors).max(0.05));
        if self.probes.len() == PROBES {
            self.probes.pop_front();
        }
        self.probes.push_back((view.now, in_flight));
        Probe { slot, in_flight, latency_ms, fails: errors > TOO_MANY_ERRORS }
    }

    /// The count above which a candidate is hot.
    fn threshold(&self) -> f32 {
        let mut counts: SmallVec<[f32; PROBES]> = self.probes.iter().map(|(_, count)| *count).collect();
        counts.sort_unstable_by(f32::total_cmp);
        // The lower of the two neighbours, or of five nobody could ever be hot.
        let rank = (HOT_QUANTILE * counts.len().saturating_sub(1) as f64) as usize;
        counts.get(rank).copied().unwrap_or(f32::INFINITY)
    }
}

/// Up to [`ASKED`] different candidates (Floyd's algorithm), in random order.
fn draw(candidates: &[u32], rng: &mut Pcg64Mcg) -> SmallVec<[u32; ASKED]> {
    let n = candidates.len();
    let mut places: SmallVec<[usize; ASKED]> = SmallVec::new();
    for last in n.saturating_sub(ASKED)..n {
        let place = rng.random_range(0..=last);
        places.push(if places.contains(&place) { last } else { place });
    }
    places.shuffle(rng);
    places.into_iter().map(|place| candidates[place]).collect()
}

impl Policy for Prequal {
    fn kind(&self) -> PolicyKind {
        PolicyKind::Prequal
    }

    fn pick(&mut self, view: &View<'_>, rng: &mut Pcg64Mcg) -> Option<Pick> {
        while self.probes.front().is_some_and(|(at, _)| view.now.since(*at) > PROBE_AGE) {
            self.probes.pop_front();
        }
        let asked = draw(view.candidates, rng);
        let probes: SmallVec<[Probe; ASKED]> = asked.into_iter().map(|slot| self.probe(view, slot)).collect();
        let hot_above = self.threshold();
        let best_known = probes.iter().filter_map(|probe| probe.latency_ms).fold(f64::INFINITY, f64::min);
        let unknown = if best_known.is_finite() { best_known } else { 0.0 };
        // Hot ones after the cold ones; among equals fewer requests, then whom
        // the draw put first, which is as good as at random.
        let rank = |probe: &Probe| {
            let hot = probe.fails || probe.in_flight > hot_above;
            let latency = if hot { 0.0 } else { probe.latency_ms.unwrap_or(unknown) };
            (hot, hot && probe.fails, latency, probe.in_flight)
        };
        let before = |a: &Probe, b: &Probe| {
            let (a, b) = (rank(a), rank(b));
            (a.0, a.1).cmp(&(b.0, b.1)).then(a.2.total_cmp(&b.2)).then(a.3.total_cmp(&b.3))
        };
        let best =
            probes.iter().reduce(|best, other| if before(other, best).is_lt() { other } else { best })?;
        Some(Pick { slot: best.slot, score: best.latency_ms.unwrap_or(unknown) })
    }

    fn sent(&mut self, view: &View<'_>, slot: u32) {
        self.slots.at(slot, view.endpoints);
    }

    fn observed(&mut self, slot: u32, now: Time, observed: &Observed) {
        let Some(known) = self.slots.last(slot) else { return };
        if observed.failed {
            known.ended(true, now);
        } else if let Some(ttft) = observed.ttft {
            known.ended(false, now);
            let ms = ttft.as_secs_f32() * 1e3;
            known.first_token(Latency { at: now, in_flight: observed.in_flight, ms });
        }
    }
}

#[cfg(test)]
#[path = "prequal_tests.rs"]
mod tests;
