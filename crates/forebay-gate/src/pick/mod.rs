//! The policies: one file each, one trait.
//!
//! A policy only chooses. Load is added and removed by the Gate, in one place,
//! so that no policy can forget it; what endpoints are like is learned there
//! too, so that a pool can change its policy while it runs and the new one
//! knows what the old one knew.

mod any;
mod bounded;
mod by_slot;
mod consistent_hash;
pub(crate) mod cost;
mod evidence;
mod learned_prices;
mod least_latency;
mod least_queue;
mod least_request;
mod least_work;
mod orca_weighted_round_robin;
mod power_of_two;
mod predictive;
mod prefix_affinity;
mod prequal;
mod random;
mod round_robin;
mod session_affinity;
mod sessions;
mod weighted_round_robin;

use std::time::Duration;

use forebay_core::{RequestFacts, Time};
use rand_pcg::Pcg64Mcg;
use serde::{Deserialize, Serialize};

use crate::endpoints::Endpoints;
use crate::policy_kind::PolicyKind;
use crate::pool::{Learned, PoolConfig};

pub(crate) use any::AnyPolicy;
pub use least_work::WORK_PER_OUTPUT_TOKEN;
pub(crate) use least_work::{prefill_work, total_work};
pub(crate) use predictive::{block_of, common};

/// A policy's choice.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Pick {
    /// The chosen slot.
    pub(crate) slot: u32,
    /// What was minimised, in the policy's own unit; 0 when nothing was compared.
    pub(crate) score: f64,
}

/// Everything a choice may look at.
pub(crate) struct View<'a> {
    pub(crate) now: Time,
    /// Slots that may be picked, in ascending order.
    pub(crate) candidates: &'a [u32],
    /// Slots of the whole pool that may be picked for one request or another.
    pub(crate) eligible: &'a [u32],
    pub(crate) endpoints: &'a Endpoints,
    pub(crate) facts: &'a RequestFacts,
    /// Tokens of the prompt held, by slot.
    pub(crate) held: &'a [u32],
    /// The operator's own cost and that of driving out an adapter, in
    /// milliseconds of price, by slot; empty when there is none.
    pub(crate) extra: &'a [f32],
    /// What loading the adapter takes there, in milliseconds, by slot; empty
    /// when there is none to load.
    pub(crate) loading: &'a [f32],
    /// This gateway's share of all arrivals, above 0; 1 when it is alone.
    pub(crate) share: f32,
    /// Slots that ramp up.
    pub(crate) ramping: &'a [u32],
    /// What the pool has learned.
    pub(crate) learned: &'a Learned,
    pub(crate) config: &'a PoolConfig,
}

impl View<'_> {
    /// Prompt tokens that the endpoint need not compute.
    pub(crate) fn held(&self, slot: u32) -> u32 {
        self.held.get(slot as usize).copied().unwrap_or(0)
    }

    /// Relative capacity: as the operator says, or as observed; less while the
    /// endpoint ramps up.
    pub(crate) fn weight(&self, slot: u32) -> f64 {
        self.endpoints.capacity(slot, self.config.dynamic_weights) * self.ramp(slot)
    }

    /// The share of its load that an endpoint may have while it ramps up, above
    /// 0; else 1. For policies that know its speed, so that a weight would
    /// count it twice.
    pub(crate) fn ramp(&self, slot: u32) -> f64 {
        if !self.ramping.contains(&slot) {
            return 1.0;
        }
        self.config.slow_start.factor(self.endpoints.ready_since(slot), self.now)
    }

    /// Requests there, as far as anybody knows: this gateway's, those that peers
    /// told of, and what engines report beyond both. Every policy that goes by
    /// load goes by this.
    pub(crate) fn requests(&self, slot: u32) -> f64 {
        f64::from(self.endpoints.all_requests(slot))
    }

    /// Outstanding work there, likewise, in prompt-token equivalents.
    pub(crate) fn work(&self, slot: u32) -> f64 {
        // Of others' requests only the number is known; they are half done on average.
        let usual = f64::from(self.learned.usual_output()) * 0.5 * WORK_PER_OUTPUT_TOKEN as f64;
        self.endpoints.all_work(slot) as f64 + f64::from(self.endpoints.row(slot).foreign_requests) * usual
    }

    /// The longest that any candidate's prompt is held.
    pub(crate) fn most_held(&self) -> u32 {
        self.candidates.iter().map(|&slot| self.held(slot)).max().unwrap_or(0)
    }
}

/// What was seen of a request that an endpoint served.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Observed {
    /// From being sent to the first token; told once for each request.
    pub(crate) ttft: Option<Duration>,
    /// What was predicted for it when it was sent, in milliseconds.
    pub(crate) predicted_ttft_ms: f32,
    /// Requests in flight there when it was sent, itself left out.
    pub(crate) in_flight: u32,
    /// It failed at the endpoint.
    pub(crate) failed: bool,
    /// Hash of its session, where it has one.
    pub(crate) session: Option<u64>,
    /// What it cost those who wait, by the profile's weights, once it has ended.
    pub(crate) cost_ms: Option<f32>,
    /// It ended without an answer that anybody can use: a fault, or out of time.
    pub(crate) lost: bool,
    /// It met its limits, once it has ended.
    pub(crate) met: bool,
    /// Tokens that came out; 0 until it has ended or when nobody counted.
    pub(crate) tokens: u32,
    /// What the policy that picked wanted to hear again.
    pub(crate) note: Note,
}

/// What a policy keeps with a request that it picked for, to be told again
/// with what became of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Note {
    /// Which of its own alternatives the policy used; none for policies that
    /// have none.
    pub(crate) arm: Option<u8>,
    /// The circumstances that it was chosen under.
    pub(crate) context: u8,
    /// What the request would cost at the fastest endpoint, idle: until the
    /// first token, in milliseconds of price.
    pub(crate) first_ms: f32,
    /// … and for each token.
    pub(crate) token_ms: f32,
    /// … and for all the tokens that were expected of it.
    pub(crate) output_ms: f32,
    /// What it was predicted to cost others, in milliseconds of price.
    pub(crate) others_ms: f32,
}

/// Chooses among eligible endpoints.
pub(crate) trait Policy {
    fn kind(&self) -> PolicyKind;

    /// Picks one of the candidates; none only when there are none.
    fn pick(&mut self, view: &View<'_>, rng: &mut Pcg64Mcg) -> Option<Pick>;

    /// The candidates that were cheapest at the last pick and their prices, best
    /// first, where the policy compared prices.
    fn ranked(&self) -> &[(f32, u32)] {
        &[]
    }

    /// Mean backlog of the candidates as it was seen, in milliseconds; 0 where
    /// the policy does not look.
    fn backlog_ms(&self) -> f32 {
        0.0
    }

    /// The weight that it has for an endpoint from what that reported, as used
    /// now; none while it has none.
    fn reported_weight(&self, _slot: u32, _endpoints: &Endpoints) -> Option<f64> {
        None
    }

    /// What to keep with the request that was just picked for.
    fn note(&self) -> Note {
        Note::default()
    }

    /// Hears that a request was sent to an endpoint, picked by this policy or not.
    fn sent(&mut self, _view: &View<'_>, _slot: u32) {}

    /// Hears what became of it: at its first token and at its end.
    fn observed(&mut self, _slot: u32, _now: Time, _observed: &Observed) {}
}

/// The policy of that kind, with no history. What the pool's configuration says
/// it reads at each pick.
pub(crate) fn make(kind: PolicyKind) -> AnyPolicy {
    AnyPolicy::new(kind)
}

/// The candidate with the least score; exact ties are broken at random, or the
/// first endpoint would get everything while the fleet is idle.
fn argmin(candidates: &[u32], rng: &mut Pcg64Mcg, mut score: impl FnMut(u32) -> f64) -> Option<Pick> {
    use rand::RngExt;
    let mut best: Option<Pick> = None;
    let mut ties = 1u32;
    for &slot in candidates {
        let s = score(slot);
        match best {
            Some(b) if s > b.score => {}
            Some(b) if s == b.score => {
                // Reservoir sampling: the k-th tie replaces with chance 1/k.
                ties += 1;
                if rng.random_range(0..ties) == 0 {
                    best = Some(Pick { slot, score: s });
                }
            }
            _ => {
                ties = 1;
                best = Some(Pick { slot, score: s });
            }
        }
    }
    best
}

#[cfg(test)]
mod distribution_tests;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
