//! A pool: endpoints that can stand in for each other, with one policy.

use forebay_core::Time;

use crate::admit::{Admission, AdmissionConfig};
use crate::endpoints::Endpoints;
use crate::pick::{self, Policy};
use crate::policy_kind::PolicyKind;

/// How a pool decides.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PoolConfig {
    /// The policy among eligible endpoints.
    pub policy: PolicyKind,
    /// `consistent_hash` keeps an endpoint below this multiple of its fair
    /// share of the requests in flight; at least 1.
    pub hash_balance_factor: f64,
    /// Who goes, who waits.
    pub admission: AdmissionConfig,
}

impl Default for PoolConfig {
    fn default() -> Self {
        PoolConfig {
            policy: PolicyKind::default(),
            hash_balance_factor: 1.25,
            admission: AdmissionConfig::OPEN,
        }
    }
}

#[derive(Debug)]
pub(crate) struct Pool {
    pub(crate) policy: Box<dyn Policy>,
    pub(crate) admission: Admission,
    /// Slots of every member, sorted.
    members: Vec<u32>,
    /// Slots of the members that may be picked, sorted; kept up to date on
    /// change, so that a pick starts from a ready list.
    eligible: Vec<u32>,
}

impl Pool {
    pub(crate) fn new(config: &PoolConfig) -> Pool {
        Pool {
            policy: pick::make(config),
            admission: Admission::new(config.admission),
            members: Vec::new(),
            eligible: Vec::new(),
        }
    }

    pub(crate) fn configure(&mut self, config: &PoolConfig) {
        self.policy = pick::make(config);
        self.admission.configure(config.admission);
    }

    pub(crate) fn add(&mut self, slot: u32, endpoints: &Endpoints) {
        if let Err(at) = self.members.binary_search(&slot) {
            self.members.insert(at, slot);
        }
        self.refresh(endpoints);
    }

    pub(crate) fn remove(&mut self, slot: u32, endpoints: &Endpoints) {
        self.members.retain(|&s| s != slot);
        self.refresh(endpoints);
    }

    /// Recomputes who may be picked; O(members), on membership changes only.
    pub(crate) fn refresh(&mut self, endpoints: &Endpoints) {
        self.eligible.clear();
        self.eligible.extend(self.members.iter().filter(|&&s| endpoints.is_ready(s)));
    }

    pub(crate) fn has(&self, slot: u32) -> bool {
        self.members.binary_search(&slot).is_ok()
    }

    pub(crate) fn eligible(&self) -> &[u32] {
        &self.eligible
    }

    /// The policy and the candidates, borrowed apart.
    pub(crate) fn parts(&mut self) -> (&mut dyn Policy, &[u32]) {
        (self.policy.as_mut(), &self.eligible)
    }

    pub(crate) fn next_timer(&self) -> Option<Time> {
        self.admission.next_timer()
    }
}
