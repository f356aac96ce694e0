//! A pool for the tests of single policies.

use std::sync::Arc;
use std::time::Duration;

use forebay_core::{EndpointFacts, EndpointState, RequestFacts, Time};
use rand_core::SeedableRng;
use rand_pcg::Pcg64Mcg;

use super::{Note, Observed, Policy, View};
use crate::endpoints::{Endpoints, Sent};
use crate::pool::{Learned, PoolConfig};
use crate::row::Charge;

pub(super) struct Scene {
    pub(super) endpoints: Endpoints,
    pub(super) candidates: Vec<u32>,
    /// Those of the whole pool, where others are not candidates.
    pub(super) eligible: Option<Vec<u32>>,
    pub(super) ramping: Vec<u32>,
    pub(super) held: Vec<u32>,
    pub(super) now: Time,
    pub(super) facts: RequestFacts,
    pub(super) config: PoolConfig,
    pub(super) learned: Learned,
    pub(super) rng: Pcg64Mcg,
}

impl Scene {
    /// So many endpoints of one kind, idle, that have been there for long.
    pub(super) fn new(endpoints: usize) -> Scene {
        let mut scene = Scene {
            endpoints: Endpoints::default(),
            candidates: Vec::new(),
            eligible: None,
            ramping: Vec::new(),
            held: vec![0; endpoints],
            now: Time::from_nanos(1_000_000_000_000),
            facts: RequestFacts { prompt_tokens: 1000, output_tokens: 100, ..RequestFacts::default() },
            config: PoolConfig::default(),
            learned: Learned::default(),
            rng: Pcg64Mcg::seed_from_u64(5),
        };
        for i in 0..endpoints {
            scene.join(&format!("http://e{i}"));
        }
        scene
    }

    /// An endpoint joins; it takes the first free slot.
    pub(super) fn join(&mut self, name: &str) -> u32 {
        let slot = self.endpoints.insert(EndpointFacts::named(name), EndpointState::Ready, Time::ZERO).slot;
        self.candidates.push(slot);
        self.candidates.sort_unstable();
        slot
    }

    pub(super) fn leave(&mut self, slot: u32) {
        self.endpoints.remove(slot);
        self.candidates.retain(|s| *s != slot);
    }

    pub(super) fn after(&mut self, time: Duration) {
        self.now += time;
    }

    pub(super) fn view(&self) -> View<'_> {
        View {
            now: self.now,
            candidates: &self.candidates,
            eligible: self.eligible.as_ref().unwrap_or(&self.candidates),
            endpoints: &self.endpoints,
            facts: &self.facts,
            held: &self.held,
            extra: &[],
            loading: &[],
            share: 1.0,
            ramping: &self.ramping,
            learned: &self.learned,
            config: &self.config,
        }
    }

    pub(super) fn pick(&mut self, policy: &mut impl Policy) -> u32 {
        let mut rng = self.rng.clone();
        let pick = policy.pick(&self.view(), &mut rng).unwrap();
        self.rng = rng;
        pick.slot
    }

    /// Picks and tells the policy that the request was sent there.
    pub(super) fn route(&mut self, policy: &mut impl Policy) -> u32 {
        let slot = self.pick(policy);
        policy.sent(&self.view(), slot);
        slot
    }

    /// How often each slot is picked.
    pub(super) fn counts(&mut self, policy: &mut impl Policy, times: usize) -> Vec<usize> {
        let mut counts = vec![0; self.endpoints.slots()];
        for _ in 0..times {
            counts[self.pick(policy) as usize] += 1;
        }
        counts
    }

    /// Puts the request of the scene there, with that much prefill owed.
    pub(super) fn load(&mut self, slot: u32, prefill_ms: f32) -> Charge {
        let sent = Sent {
            work: super::total_work(&self.facts),
            prefill_ms,
            prompt: self.facts.prompt_tokens,
            tail: self.facts.prompt_tokens,
            class: 0,
            chain: &Arc::from([]),
        };
        self.endpoints.send(slot, self.now, &sent)
    }

    /// The first token of such a request came.
    pub(super) fn begin(&mut self, slot: u32, charge: &mut Charge) {
        self.endpoints.first_token(slot, charge, self.now);
    }

    /// Such a request ended.
    pub(super) fn end(&mut self, slot: u32, charge: &Charge) {
        self.endpoints.done(slot, charge, self.now);
    }
}

/// A first token that came so many milliseconds after it was sent.
pub(super) fn first_token(ms: u64, predicted: f32, in_flight: u32) -> Observed {
    Observed {
        ttft: Some(Duration::from_millis(ms)),
        predicted_ttft_ms: predicted,
        in_flight,
        failed: false,
        session: None,
        cost_ms: None,
        lost: false,
        met: true,
        tokens: 0,
        note: Note::default(),
    }
}

pub(super) fn failure() -> Observed {
    Observed { ttft: None, failed: true, met: false, ..first_token(0, 100.0, 0) }
}
