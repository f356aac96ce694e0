//! Prequal (Wydrowski et al., NSDI'24): probes sent ahead, the hot and the cold.
//!
//! Each request sends a few probes to endpoints drawn at random; a pool keeps
//! the newest answers. An answer is hot when it has more requests in flight
//! than the given quantile of those seen of late. Of the cold ones the lowest
//! latency is picked; when all are hot, the fewest requests in flight. Latency
//! is the time to the first token: a whole answer's depends on its length.

use std::collections::VecDeque;

use rand_pcg::Pcg64Mcg;

use super::power_of_two::draw;
use super::{Knob, Knobs, Rival, View};

pub(super) const KNOBS: &[Knob] = &[
    Knob { name: "r_probe", default: 3.0, tries: &[2.0, 3.0, 5.0], what: "probes for each request" },
    Knob {
        name: "q_rif",
        default: 0.84,
        tries: &[0.6, 0.75, 0.84, 0.9],
        what: "quantile of requests in flight above which an answer is hot",
    },
    Knob { name: "pool", default: 16.0, tries: &[16.0], what: "answers kept" },
    Knob { name: "probe_age", default: 1.0, tries: &[1.0], what: "seconds that an answer is good for" },
    Knob { name: "delta", default: 1.0, tries: &[1.0], what: "rate at which the pool fills up" },
];

/// Answers removed for each request.
const REMOVE: f64 = 1.0;
/// Latencies remembered for each endpoint.
const LATENCIES: usize = 64;
/// The median is over so many latencies nearest to the load of now.
const NEAREST: usize = 9;
/// Probes whose loads make the quantile.
const SEEN: usize = 128;

pub(super) fn make(knobs: &Knobs) -> Prequal {
    Prequal {
        probes: knobs.get(KNOBS, 0).clamp(0.1, 64.0),
        quantile: knobs.get(KNOBS, 1).clamp(0.0, 1.0),
        most: knobs.get(KNOBS, 2).clamp(1.0, 1024.0) as usize,
        age: (knobs.get(KNOBS, 3).clamp(0.0, 1e6) * 1e9) as u64,
        delta: knobs.get(KNOBS, 4),
        due: 0.0,
        remove_due: 0.0,
        oldest_next: false,
        pool: VecDeque::new(),
        seen: VecDeque::new(),
        latencies: Vec::new(),
    }
}

struct Probe {
    endpoint: u32,
    at: u64,
    in_flight: u32,
    latency_ms: f64,
    uses: f64,
}

pub(super) struct Prequal {
    probes: f64,
    quantile: f64,
    most: usize,
    age: u64,
    delta: f64,
    /// Fractions of probes and removals that are due.
    due: f64,
    remove_due: f64,
    oldest_next: bool,
    pool: VecDeque<Probe>,
    seen: VecDeque<u32>,
    /// By endpoint: requests in flight and milliseconds to the first token.
    latencies: Vec<VecDeque<(u32, f64)>>,
}

impl Prequal {
    /// The median of the latencies seen at about so many requests in flight.
    fn latency(&self, endpoint: u32, in_flight: u32) -> f64 {
        let Some(seen) = self.latencies.get(endpoint as usize).filter(|seen| !seen.is_empty()) else {
            return 0.0;
        };
        let mut by_distance: Vec<(u32, f64)> =
            seen.iter().map(|(rif, ms)| (rif.abs_diff(in_flight), *ms)).collect();
        by_distance.sort_by(|a, b| a.0.cmp(&b.0).then(a.1.total_cmp(&b.1)));
        by_distance.truncate(NEAREST);
        let mut near: Vec<f64> = by_distance.into_iter().map(|(_, ms)| ms).collect();
        near.sort_by(f64::total_cmp);
        near[near.len() / 2]
    }

    fn probe(&mut self, view: &View<'_>, rng: &mut Pcg64Mcg) {
        self.due += self.probes;
        let count = self.due as usize;
        self.due -= count as f64;
        let fill = 1.0 - self.most as f64 / view.candidates.len().max(1) as f64;
        let reuse = (1.0 + self.delta) / (fill * self.probes - REMOVE);
        let uses = if reuse.is_finite() && reuse > 0.0 { reuse.max(1.0) } else { 1.0 };
        for endpoint in draw(view, count, rng) {
            let in_flight = view.really[endpoint as usize];
            let latency_ms = self.latency(endpoint, in_flight);
            self.pool.push_back(Probe { endpoint, at: view.now, in_flight, latency_ms, uses });
            self.seen.push_back(in_flight);
        }
        while self.pool.len() > self.most {
            self.pool.pop_front();
        }
        while self.seen.len() > SEEN {
            self.seen.pop_front();
        }
    }

    fn hot_above(&self) -> u32 {
        let mut seen: Vec<u32> = self.seen.iter().copied().collect();
        seen.sort_unstable();
        let at = (seen.len() as f64 * self.quantile) as usize;
        seen.get(at.min(seen.len().saturating_sub(1))).copied().unwrap_or(0)
    }

    /// The worst answer: the most requests in flight of the hot ones, else the
    /// highest latency.
    fn worst(&self, hot_above: u32) -> Option<usize> {
        let key = |probe: &Probe| match probe.in_flight > hot_above {
            true => (1, f64::from(probe.in_flight)),
            false => (0, probe.latency_ms),
        };
        let order = |a: &Probe, b: &Probe| {
            let (a, b) = (key(a), key(b));
            a.0.cmp(&b.0).then(a.1.total_cmp(&b.1))
        };
        self.pool.iter().enumerate().max_by(|a, b| order(a.1, b.1)).map(|(at, _)| at)
    }
}

impl Rival for Prequal {
    fn pick(&mut self, view: &View<'_>, rng: &mut Pcg64Mcg) -> Option<u32> {
        let (age, now) = (self.age, view.now);
        let may = |probe: &Probe| {
            now.saturating_sub(probe.at) <= age && view.candidates.binary_search(&probe.endpoint).is_ok()
        };
        self.pool.retain(may);
        let hot_above = self.hot_above();
        let is_hot = |probe: &Probe| probe.in_flight > hot_above;
        let best = self.pool.iter().enumerate().min_by(|(_, a), (_, b)| {
            let cold = |p: &Probe| u8::from(is_hot(p));
            cold(a).cmp(&cold(b)).then(match is_hot(a) && is_hot(b) {
                true => a.in_flight.cmp(&b.in_flight),
                false => a.latency_ms.total_cmp(&b.latency_ms),
            })
        });
        let picked = match best.map(|(at, _)| at) {
            Some(at) => {
                let probe = &mut self.pool[at];
                let endpoint = probe.endpoint;
                // What is sent there makes the answer old at once.
                probe.in_flight += 1;
                probe.uses -= 1.0;
                if probe.uses < 1.0 {
                    self.pool.remove(at);
                }
                Some(endpoint)
            }
            None => draw(view, 1, rng).first().copied(),
        };
        self.remove_due += REMOVE;
        while self.remove_due >= 1.0 {
            self.remove_due -= 1.0;
            self.oldest_next = !self.oldest_next;
            if self.pool.len() < self.most {
                continue;
            }
            let at = if self.oldest_next { Some(0) } else { self.worst(hot_above) };
            at.and_then(|at| self.pool.remove(at));
        }
        self.probe(view, rng);
        picked
    }

    fn first_token(&mut self, endpoint: u32, ms: f64, really: u32) {
        let at = endpoint as usize;
        if self.latencies.len() <= at {
            self.latencies.resize_with(at + 1, VecDeque::new);
        }
        self.latencies[at].push_back((really, ms));
        if self.latencies[at].len() > LATENCIES {
            self.latencies[at].pop_front();
        }
    }
}
