//! Preble's E2 (ICLR'25): exploit what is cached, or explore.
//!
//! When more of the prompt is cached than not, the least loaded of those that
//! hold it longest; else the least cost over a window: what was prefilled and
//! what is being decoded there. While the busiest has more than a factor of the
//! least busy one's cost, holders give way to the least loaded.

use std::collections::VecDeque;

use rand_pcg::Pcg64Mcg;

use super::{Ended, Knob, Knobs, Rival, View, argmin};

pub(super) const KNOBS: &[Knob] = &[
    Knob {
        name: "window_seconds",
        default: 180.0,
        tries: &[10.0, 30.0, 60.0, 180.0, 300.0],
        what: "how far back costs are summed",
    },
    Knob {
        name: "rebalance_factor",
        default: 1.5,
        tries: &[1.1, 1.3, 1.5, 2.0],
        what: "most over least cost above which holders give way",
    },
];

pub(super) fn make(knobs: &Knobs) -> Preble {
    Preble {
        window: (knobs.get(KNOBS, 0).clamp(0.1, 1e6) * 1e9) as u64,
        factor: knobs.get(KNOBS, 1).max(1.0),
        recent: VecDeque::new(),
        sums: Vec::new(),
        output: VecDeque::new(),
        median: 200.0,
        since: 0,
    }
}

/// Answers whose median length is kept.
const OUTPUTS: usize = 256;
/// The median is taken anew after so many.
const EVERY: u32 = 16;

pub(super) struct Preble {
    window: u64,
    factor: f64,
    /// When, where and how many milliseconds of prefill.
    recent: VecDeque<(u64, u32, f64)>,
    sums: Vec<f64>,
    output: VecDeque<u32>,
    median: f64,
    since: u32,
}

impl Preble {
    fn forget(&mut self, now: u64) {
        while let Some(&(at, endpoint, ms)) = self.recent.front()
            && now.saturating_sub(at) > self.window
        {
            self.recent.pop_front();
            let sum = &mut self.sums[endpoint as usize];
            *sum = (*sum - ms).max(0.0);
        }
    }

    fn cost(&self, view: &View<'_>, endpoint: u32) -> f64 {
        let load = view.load(endpoint);
        let step = view.known[endpoint as usize].step_ms(load);
        // What runs together decodes together: a step is everybody's token.
        self.sums[endpoint as usize] + f64::from(load.in_flight) * self.median * step
    }
}

impl Rival for Preble {
    fn pick(&mut self, view: &View<'_>, rng: &mut Pcg64Mcg) -> Option<u32> {
        self.sums.resize(view.known.len(), 0.0);
        self.forget(view.now);
        let longest = view.candidates.iter().map(|&e| view.held(e)).max().unwrap_or(0);
        let costs = view.candidates.iter().map(|&e| self.cost(view, e));
        let (most, least) = costs.fold((0.0f64, f64::INFINITY), |(m, l), c| (m.max(c), l.min(c)));
        let is_balanced = most <= self.factor * least.max(1.0);
        if longest > view.prompt - longest && is_balanced {
            let holders = view.candidates.iter().copied().filter(|&e| view.held(e) == longest);
            return argmin(holders, rng, |e| self.cost(view, e));
        }
        argmin(view.candidates.iter().copied(), rng, |e| {
            let own = view.known[e as usize].prefill_ms(view.uncached(e), view.held(e));
            self.cost(view, e) + own
        })
    }

    fn sent(&mut self, view: &View<'_>, endpoint: u32) {
        let ms = view.known[endpoint as usize].prefill_ms(view.uncached(endpoint), view.held(endpoint));
        self.recent.push_back((view.now, endpoint, ms));
        self.sums[endpoint as usize] += ms;
    }

    fn ended(&mut self, _: u32, ended: &Ended<'_>) {
        if ended.output == 0 {
            return;
        }
        self.output.push_back(ended.output);
        if self.output.len() > OUTPUTS {
            self.output.pop_front();
        }
        self.since += 1;
        if self.since >= EVERY {
            self.since = 0;
            let mut sorted: Vec<u32> = self.output.iter().copied().collect();
            sorted.sort_unstable();
            self.median = f64::from(sorted[sorted.len() / 2]);
        }
    }
}
