//! What `GET /metrics` shows besides the model's own totals. Times are engine
//! time.

use std::collections::BTreeMap;

use forebay_core::Time;

use crate::answer::FinishReason;
use crate::histogram::{Histogram, bounds};

/// What the model's own totals do not hold.
pub(crate) struct Metrics {
    pub(crate) first_token: Histogram,
    pub(crate) inter_token: Histogram,
    pub(crate) per_token: Histogram,
    pub(crate) e2e: Histogram,
    pub(crate) queue: Histogram,
    pub(crate) inference: Histogram,
    pub(crate) prefill: Histogram,
    pub(crate) decode: Histogram,
    pub(crate) prompt_len: Histogram,
    pub(crate) output_len: Histogram,
    pub(crate) finished: BTreeMap<FinishReason, u64>,
    pub(crate) rejected: u64,
}

/// The life of one sequence so far, in engine time.
#[derive(Clone, Copy)]
pub(crate) struct Lifetime {
    pub(crate) arrival: Time,
    pub(crate) started: Time,
    pub(crate) first: Time,
    pub(crate) last: Time,
    pub(crate) prompt_tokens: u32,
    pub(crate) tokens: u32,
}

fn seconds(from: Time, to: Time) -> f64 {
    to.since(from).as_secs_f64()
}

impl Metrics {
    pub(crate) fn new() -> Metrics {
        let request = || Histogram::new(bounds::REQUEST);
        Metrics {
            first_token: Histogram::new(bounds::FIRST_TOKEN),
            inter_token: Histogram::new(bounds::PER_TOKEN),
            per_token: Histogram::new(bounds::PER_TOKEN),
            e2e: request(),
            queue: request(),
            inference: request(),
            prefill: request(),
            decode: request(),
            prompt_len: Histogram::new(bounds::TOKENS),
            output_len: Histogram::new(bounds::TOKENS),
            finished: BTreeMap::new(),
            rejected: 0,
        }
    }

    /// Records a token that appeared at `at`, before `life` knows of it.
    pub(crate) fn token(&mut self, life: &Lifetime, at: Time) {
        if life.tokens == 0 {
            self.first_token.observe(seconds(life.arrival, at));
        } else {
            self.inter_token.observe(seconds(life.last, at));
        }
    }

    /// Records a sequence that ended.
    pub(crate) fn finish(&mut self, life: &Lifetime, reason: FinishReason, at: Time) {
        *self.finished.entry(reason).or_default() += 1;
        self.e2e.observe(seconds(life.arrival, at));
        self.queue.observe(seconds(life.arrival, life.started));
        self.inference.observe(seconds(life.started, at));
        let first = if life.tokens == 0 { at } else { life.first };
        self.prefill.observe(seconds(life.started, first));
        self.decode.observe(seconds(first, at));
        if life.tokens > 1 {
            self.per_token.observe(seconds(life.first, at) / f64::from(life.tokens - 1));
        }
        self.prompt_len.observe(f64::from(life.prompt_tokens));
        self.output_len.observe(f64::from(life.tokens));
    }
}
