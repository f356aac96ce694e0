//! The least outstanding work per weight.

use forebay_core::RequestFacts;
use rand_pcg::Pcg64Mcg;
use serde::{Deserialize, Serialize};

use super::{Pick, Policy, View, argmin};
use crate::policy_kind::PolicyKind;

/// How many prompt tokens cost as much engine time as one output token.
///
/// With the step-time model of the H100 8B profile, a prompt token takes
/// 0.0235 ms, and an output token's share of a step of 60 streams at 4,000
/// tokens of context is 8/60 + 0.02 + 0.0235 + 0.2 = 0.38 ms: 16 times as much.
pub const WORK_PER_OUTPUT_TOKEN: u64 = 16;

/// Work of a request's prefill, in prompt tokens.
pub(crate) fn prefill_work(facts: &RequestFacts) -> u64 {
    u64::from(facts.prompt_tokens)
}

/// Work of a whole request, in prompt-token equivalents.
pub(crate) fn total_work(facts: &RequestFacts) -> u64 {
    prefill_work(facts) + u64::from(facts.output_tokens) * WORK_PER_OUTPUT_TOKEN
}

/// With `prefixes`, what an endpoint already holds of the prompt is no work
/// there; this is what `predictive` falls back to when its own predictions fail.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct LeastWork {
    pub(crate) prefixes: bool,
}

impl Policy for LeastWork {
    fn kind(&self) -> PolicyKind {
        PolicyKind::LeastWork
    }

    fn pick(&mut self, view: &View<'_>, rng: &mut Pcg64Mcg) -> Option<Pick> {
        let own = total_work(view.facts);
        argmin(view.candidates, rng, |slot| {
            let held = if self.prefixes { u64::from(view.held(slot)) } else { 0 };
            (view.work(slot) + own.saturating_sub(held) as f64) / view.weight(slot)
        })
    }
}
