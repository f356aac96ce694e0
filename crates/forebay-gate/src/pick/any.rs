//! Any of the policies, by value: a Gate's state must be written down and read
//! back whole, which a trait object cannot.

use forebay_core::Time;
use rand_pcg::Pcg64Mcg;
use serde::{Deserialize, Serialize};

use super::{Note, Observed, Pick, Policy, View};
use crate::endpoints::Endpoints;
use crate::policy_kind::PolicyKind;

macro_rules! any_policy {
    ($($variant:ident($module:ident::$type:ident),)+) => {
        /// One policy and its state.
        #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
        pub(crate) enum AnyPolicy {
            $(#[doc = "See its file."] $variant(super::$module::$type),)+
        }

        impl Policy for AnyPolicy {
            fn kind(&self) -> PolicyKind {
                match self { $(AnyPolicy::$variant(policy) => policy.kind(),)+ }
            }

            fn pick(&mut self, view: &View<'_>, rng: &mut Pcg64Mcg) -> Option<Pick> {
                match self { $(AnyPolicy::$variant(policy) => policy.pick(view, rng),)+ }
            }

            fn ranked(&self) -> &[(f32, u32)] {
                match self { $(AnyPolicy::$variant(policy) => policy.ranked(),)+ }
            }

            fn backlog_ms(&self) -> f32 {
                match self { $(AnyPolicy::$variant(policy) => policy.backlog_ms(),)+ }
            }

            fn reported_weight(&self, slot: u32, endpoints: &Endpoints) -> Option<f64> {
                match self { $(AnyPolicy::$variant(policy) => policy.reported_weight(slot, endpoints),)+ }
            }

            fn note(&self) -> Note {
                match self { $(AnyPolicy::$variant(policy) => policy.note(),)+ }
            }

            fn sent(&mut self, view: &View<'_>, slot: u32) {
                match self { $(AnyPolicy::$variant(policy) => policy.sent(view, slot),)+ }
            }

            fn observed(&mut self, slot: u32, now: Time, observed: &Observed) {
                match self { $(AnyPolicy::$variant(policy) => policy.observed(slot, now, observed),)+ }
            }
        }
    };
}

any_policy! {
    Predictive(predictive::Predictive),
    Learned(learned_prices::LearnedPrices),
    LeastLatency(least_latency::LeastLatency),
    LeastQueue(least_queue::LeastQueue),
    Prequal(prequal::Prequal),
    OrcaWeightedRoundRobin(orca_weighted_round_robin::OrcaWeightedRoundRobin),
    PrefixAffinity(prefix_affinity::PrefixAffinity),
    SessionAffinity(session_affinity::SessionAffinity),
    RoundRobin(round_robin::RoundRobin),
    WeightedRoundRobin(weighted_round_robin::WeightedRoundRobin),
    Random(random::Random),
    LeastRequest(least_request::LeastRequest),
    PowerOfTwo(power_of_two::PowerOfTwo),
    LeastWork(least_work::LeastWork),
    ConsistentHash(consistent_hash::ConsistentHash),
}

impl AnyPolicy {
    /// The policy of that kind, with no history.
    pub(crate) fn new(kind: PolicyKind) -> AnyPolicy {
        match kind {
            PolicyKind::Predictive => AnyPolicy::Predictive(super::predictive::Predictive::default()),
            PolicyKind::Learned => AnyPolicy::Learned(super::learned_prices::LearnedPrices::default()),
            PolicyKind::LeastLatency => {
                AnyPolicy::LeastLatency(super::least_latency::LeastLatency::default())
            }
            PolicyKind::LeastQueue => AnyPolicy::LeastQueue(super::least_queue::LeastQueue::default()),
            PolicyKind::Prequal => AnyPolicy::Prequal(super::prequal::Prequal::default()),
            PolicyKind::OrcaWeightedRoundRobin => AnyPolicy::OrcaWeightedRoundRobin(
                super::orca_weighted_round_robin::OrcaWeightedRoundRobin::default(),
            ),
            PolicyKind::PrefixAffinity => AnyPolicy::PrefixAffinity(super::prefix_affinity::PrefixAffinity),
            PolicyKind::SessionAffinity => {
                AnyPolicy::SessionAffinity(super::session_affinity::SessionAffinity::default())
            }
            PolicyKind::RoundRobin => AnyPolicy::RoundRobin(super::round_robin::RoundRobin::default()),
            PolicyKind::WeightedRoundRobin => {
                AnyPolicy::WeightedRoundRobin(super::weighted_round_robin::WeightedRoundRobin::default())
            }
            PolicyKind::Random => AnyPolicy::Random(super::random::Random),
            PolicyKind::LeastRequest => AnyPolicy::LeastRequest(super::least_request::LeastRequest),
            PolicyKind::PowerOfTwo => AnyPolicy::PowerOfTwo(super::power_of_two::PowerOfTwo),
            PolicyKind::LeastWork => AnyPolicy::LeastWork(super::least_work::LeastWork::default()),
            PolicyKind::ConsistentHash => {
                AnyPolicy::ConsistentHash(super::consistent_hash::ConsistentHash::default())
            }
        }
    }

    /// What `predictive` falls back to.
    pub(crate) fn fallback() -> AnyPolicy {
        AnyPolicy::LeastWork(super::least_work::LeastWork { prefixes: true })
    }
}
