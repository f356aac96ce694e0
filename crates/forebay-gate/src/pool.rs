//! A pool: endpoints that can stand in for each other, with one policy.

use std::time::Duration;

use forebay_core::Time;
use forebay_predict::{ErrorSummary, Trust};
use serde::{Deserialize, Serialize};

use crate::admit::{Admission, AdmissionConfig};
use crate::endpoints::Endpoints;
use crate::peers::Standing;
use crate::pick::cost::Weights;
use crate::pick::{self, AnyPolicy, Policy};
use crate::policy_kind::PolicyKind;
use crate::profile::Profile;
use crate::slow_start::SlowStart;
use crate::without::Without;

pub(crate) use crate::learned::{Learned, lost_ms, value_of};

/// How a pool decides.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct PoolConfig {
    /// The policy among eligible endpoints.
    pub policy: PolicyKind,
    /// What `predictive`'s terms count for.
    pub profile: Profile,
    /// Prices of your own instead of the profile's.
    pub prices: Option<Weights>,
    /// Parts that an experiment takes away.
    pub without: Without,
    /// `consistent_hash`, `prefix_affinity` and `session_affinity` keep an
    /// endpoint below this multiple of its fair share of the requests in
    /// flight; at least 1.
    pub hash_balance_factor: f64,
    /// Weights follow the observed speeds instead of the configuration.
    pub dynamic_weights: bool,
    /// A second policy that is asked about every request and not obeyed.
    pub shadow: Option<PolicyKind>,
    /// Whether `predictive` gives way to `least_work` with prefixes while its
    /// own predictions fail.
    pub fallback: bool,
    /// How new and returned endpoints get their share.
    pub slow_start: SlowStart,
    /// Parameters of `orca_weighted_round_robin`.
    pub orca: OrcaConfig,
    /// Who goes, who waits.
    pub admission: AdmissionConfig,
}

/// Parameters of `orca_weighted_round_robin`, named and defaulted as in gRPC
/// proposal A58.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct OrcaConfig {
    /// A weight is not used until reports have come for so long.
    pub blackout_period: Duration,
    /// Without a report for so long a weight is unknown again.
    pub weight_expiration_period: Duration,
    /// Weights are computed anew so often; at least 100 ms.
    pub weight_update_period: Duration,
    /// What errors count for beside utilisation; 0 or more.
    pub error_utilization_penalty: f64,
}

impl Default for OrcaConfig {
    fn default() -> OrcaConfig {
        OrcaConfig {
            blackout_period: Duration::from_secs(10),
            weight_expiration_period: Duration::from_secs(180),
            weight_update_period: Duration::from_secs(1),
            error_utilization_penalty: 1.0,
        }
    }
}

impl Default for PoolConfig {
    fn default() -> Self {
        PoolConfig {
            policy: PolicyKind::default(),
            profile: Profile::default(),
            prices: None,
            without: Without::default(),
            hash_balance_factor: 1.25,
            dynamic_weights: false,
            shadow: None,
            fallback: true,
            slow_start: SlowStart::default(),
            orca: OrcaConfig::default(),
            admission: AdmissionConfig::OPEN,
        }
    }
}

impl PoolConfig {
    /// What `predictive`'s terms count for.
    pub fn weights(&self) -> Weights {
        self.prices.unwrap_or_else(|| self.profile.weights())
    }
}

/// An endpoint that became ready within this time of the first request came with
/// the others: not all answer their first probe at once.
const TOGETHER: Duration = Duration::from_secs(2);

/// A pool as people see it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PoolLoad {
    /// Requests admitted and not ended.
    pub in_flight: u32,
    /// Requests that wait.
    pub waiting: u32,
    /// Endpoints that may be picked.
    pub ready: usize,
    /// The policy of the configuration.
    pub policy: PolicyKind,
    /// `predictive` has given way because its predictions failed.
    pub fallback: bool,
    /// How far the predicted times to the first token were off in the last
    /// minute or two; none when there were none.
    pub ttft_error: Option<ErrorSummary>,
    /// The same for the time per token, of streams of a few tokens or more.
    pub tpot_error: Option<ErrorSummary>,
    /// The same for the tokens of whole answers.
    pub output_error: Option<ErrorSummary>,
    /// Share of the predictions within the limit that were broken by far, 0 to 1.
    pub broken_predictions: f64,
    /// The pool's correction of predicted time per token; 1 = right.
    pub tpot_correction: f64,
    /// What its endpoints take to load an adapter, in milliseconds: as learned,
    /// a second while nothing was.
    pub adapter_load_ms: f64,
    /// Requests that the shadow policy was asked about.
    pub shadow_asked: u64,
    /// Requests that it would have sent to the same endpoint.
    pub shadow_agreed: u64,
    /// What its choices would have cost more, in milliseconds of price, in all:
    /// of those alone that would have been dearer.
    pub shadow_dearer_ms: f64,
    /// What they would have cost less, of those that would have been cheaper.
    pub shadow_cheaper_ms: f64,
}

/// The endpoints that a gateway sends cold prompts to.
pub(crate) struct Window<'a> {
    places: &'a [u32],
    ring: usize,
    first: usize,
    width: usize,
}

impl Window<'_> {
    pub(crate) fn has(&self, slot: u32) -> bool {
        let place = self.places.get(slot as usize).copied().unwrap_or(u32::MAX) as usize;
        place < self.ring && (place + self.ring - self.first) % self.ring < self.width
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Pool {
    pub(crate) config: PoolConfig,
    pub(crate) policy: AnyPolicy,
    /// Decides while the predictions fail.
    pub(crate) fallback: AnyPolicy,
    pub(crate) shadow: Option<AnyPolicy>,
    pub(crate) learned: Learned,
    pub(crate) admission: Admission,
    /// Slots of every member, sorted.
    members: Vec<u32>,
    /// Slots of the members that may be picked, sorted; kept up to date on
    /// change, so that a pick starts from a ready list.
    pub(crate) eligible: Vec<u32>,
    /// Their places in the order that all gateways agree on, by slot, and how
    /// many there are; empty until there are several gateways.
    ring: Vec<u32>,
    /// Those of them that ramp up.
    pub(crate) ramping: Vec<u32>,
}

impl Pool {
    pub(crate) fn new(config: &PoolConfig) -> Pool {
        Pool {
            config: *config,
            policy: pick::make(config.policy),
            fallback: AnyPolicy::fallback(),
            shadow: config.shadow.map(pick::make),
            learned: Learned::default(),
            admission: Admission::new(config.admission),
            members: Vec::new(),
            eligible: Vec::new(),
            ring: Vec::new(),
            ramping: Vec::new(),
        }
    }

    /// Takes a new configuration; a policy that stays keeps what it knows, as
    /// all read their parameters when they pick.
    pub(crate) fn configure(&mut self, config: &PoolConfig) {
        if self.policy.kind() != config.policy {
            self.policy = pick::make(config.policy);
        }
        if self.shadow.as_ref().map(Policy::kind) != config.shadow {
            self.shadow = config.shadow.map(pick::make);
        }
        self.config = *config;
        self.admission.configure(config.admission);
    }

    pub(crate) fn add(&mut self, slot: u32, endpoints: &Endpoints, now: Time) {
        if let Err(at) = self.members.binary_search(&slot) {
            self.members.insert(at, slot);
        }
        self.refresh(endpoints, now);
    }

    pub(crate) fn remove(&mut self, slot: u32, endpoints: &Endpoints, now: Time) {
        self.members.retain(|&s| s != slot);
        self.refresh(endpoints, now);
    }

    /// Recomputes who may be picked; O(members), on membership changes only.
    ///
    /// An endpoint ramps up only beside others that carry the load meanwhile:
    /// those that have ramped up, and those that were serving before it became
    /// ready. When every one is new, there is nobody to spare them.
    pub(crate) fn refresh(&mut self, endpoints: &Endpoints, now: Time) {
        self.eligible.clear();
        self.eligible.extend(self.members.iter().filter(|&&s| endpoints.is_ready(s)));
        if !self.ring.is_empty() {
            self.order_ring(endpoints);
        }
        self.ramping.clear();
        let ramps = |slot: u32| self.config.slow_start.is_ramping(endpoints.ready_since(slot), now);
        let established = self.eligible.iter().any(|&slot| !ramps(slot));
        let serving = self.eligible.iter().filter_map(|&slot| endpoints.serving_since(slot)).min();
        let late = |slot: u32| match (serving, endpoints.ready_since(slot)) {
            (Some(first), Some(ready)) => ready.since(first) > TOGETHER,
            _ => false,
        };
        let newcomer = |slot: &u32| ramps(*slot) && (established || late(*slot));
        self.ramping.extend(self.eligible.iter().copied().filter(newcomer));
    }

    /// Those whose ramp is over have their whole share from now on.
    pub(crate) fn end_ramps(&mut self, endpoints: &Endpoints, now: Time) {
        let slow_start = self.config.slow_start;
        self.ramping.retain(|&slot| slow_start.is_ramping(endpoints.ready_since(slot), now));
    }

    /// Whether it ramps up.
    pub(crate) fn is_ramping(&self, slot: u32) -> bool {
        self.ramping.binary_search(&slot).is_ok()
    }

    /// The weight that its policy counts an endpoint with; none where it goes by
    /// none, or knows none yet.
    pub(crate) fn weight_in_use(&self, slot: u32, endpoints: &Endpoints) -> Option<f64> {
        match self.config.policy {
            PolicyKind::OrcaWeightedRoundRobin => self.policy.reported_weight(slot, endpoints),
            PolicyKind::WeightedRoundRobin
            | PolicyKind::Random
            | PolicyKind::LeastRequest
            | PolicyKind::PowerOfTwo
            | PolicyKind::LeastWork
            | PolicyKind::ConsistentHash
            | PolicyKind::PrefixAffinity
            | PolicyKind::SessionAffinity => Some(endpoints.capacity(slot, self.config.dynamic_weights)),
            PolicyKind::Predictive
            | PolicyKind::Learned
            | PolicyKind::LeastLatency
            | PolicyKind::LeastQueue
            | PolicyKind::Prequal
            | PolicyKind::RoundRobin => None,
        }
    }

    /// This gateway's part of the fleet for cold prompts; none when it is all.
    pub(crate) fn window(&self, standing: Standing) -> Option<Window<'_>> {
        let priced = matches!(self.config.policy, PolicyKind::Predictive | PolicyKind::Learned);
        if !priced || self.config.without.window || self.ring.is_empty() {
            return None;
        }
        let ring = self.eligible.len();
        let (first, width) = standing.window(ring)?;
        Some(Window { places: &self.ring, ring, first, width })
    }

    /// Puts the eligible in the order of the hashes of their names, which is
    /// the same at every gateway; O(eligible · log), on membership changes only.
    pub(crate) fn order_ring(&mut self, endpoints: &Endpoints) {
        let mut order: Vec<(u64, u32)> =
            self.eligible.iter().map(|&slot| (endpoints.name_hash(slot), slot)).collect();
        order.sort_unstable();
        self.ring.clear();
        self.ring.resize(endpoints.slots(), u32::MAX);
        for (place, (_, slot)) in order.into_iter().enumerate() {
            self.ring[slot as usize] = place as u32;
        }
    }

    pub(crate) fn has(&self, slot: u32) -> bool {
        self.members.binary_search(&slot).is_ok()
    }

    /// Slots of every member, sorted.
    pub(crate) fn members(&self) -> &[u32] {
        &self.members
    }

    pub(crate) fn eligible(&self) -> &[u32] {
        &self.eligible
    }

    /// Whether its own policy gives way to the fallback now.
    pub(crate) fn in_fallback(&self) -> bool {
        self.config.fallback
            && matches!(self.config.policy, PolicyKind::Predictive | PolicyKind::Learned)
            && self.learned.watchdog.trust() == Trust::Fallback
    }

    pub(crate) fn next_timer(&self) -> Option<Time> {
        self.admission.next_timer()
    }

    pub(crate) fn load(&self, now: Time) -> PoolLoad {
        PoolLoad {
            in_flight: self.admission.running(),
            waiting: self.admission.waiting(),
            ready: self.eligible.len(),
            policy: self.config.policy,
            fallback: self.in_fallback(),
            ttft_error: self.learned.errors.summary(now),
            tpot_error: self.learned.tpot_errors.summary(now),
            output_error: self.learned.output_errors.summary(now),
            broken_predictions: self.learned.watchdog.broken_share(now),
            tpot_correction: f64::from(self.learned.gamma()),
            adapter_load_ms: f64::from(self.learned.adapter_load_ms()),
            shadow_asked: self.learned.shadow_asked,
            shadow_agreed: self.learned.shadow_agreed,
            shadow_dearer_ms: self.learned.shadow_dearer_ms,
            shadow_cheaper_ms: self.learned.shadow_cheaper_ms,
        }
    }
}
