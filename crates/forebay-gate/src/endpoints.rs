//! The endpoints of a Gate as parallel arrays by slot.
//!
//! Load is never only a stale report: `in_flight` and `work` are what this
//! Gate sent and what has not ended, changed the moment it changes.

use forebay_core::{EndpointFacts, EndpointId, EndpointState, LoadReport};

/// What a Gate knows of one endpoint's load.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct EndpointLoad {
    /// Requests sent and not ended.
    pub in_flight: u32,
    /// Their outstanding work, in prompt-token equivalents.
    pub work: u64,
    /// Requests sent in all.
    pub picked: u64,
    /// Whether it may be picked.
    pub state: EndpointState,
    /// Its relative capacity.
    pub weight: f64,
    /// What it last said of itself.
    pub report: Option<LoadReport>,
}

/// Parallel arrays; a slot is free when its `pools` count is zero and nothing
/// is in flight there.
#[derive(Debug, Default)]
pub(crate) struct Endpoints {
    generation: Vec<u32>,
    name: Vec<String>,
    state: Vec<EndpointState>,
    weight: Vec<f64>,
    in_flight: Vec<u32>,
    work: Vec<u64>,
    picked: Vec<u64>,
    report: Vec<Option<LoadReport>>,
    member: Vec<bool>,
    free: Vec<u32>,
}

impl Endpoints {
    /// The member with this name, if any. O(n); only on membership changes.
    pub(crate) fn by_name(&self, name: &str) -> Option<u32> {
        (0..self.name.len()).find(|&i| self.member[i] && self.name[i] == name).map(|i| i as u32)
    }

    pub(crate) fn insert(&mut self, facts: EndpointFacts, state: EndpointState) -> EndpointId {
        let weight = sane_weight(facts.weight);
        if let Some(slot) = self.free.pop() {
            let i = slot as usize;
            self.generation[i] = self.generation[i].wrapping_add(1);
            self.name[i] = facts.name;
            self.state[i] = state;
            self.weight[i] = weight;
            self.in_flight[i] = 0;
            self.work[i] = 0;
            self.picked[i] = 0;
            self.report[i] = None;
            self.member[i] = true;
            return self.id(slot);
        }
        let slot = self.generation.len() as u32;
        self.generation.push(0);
        self.name.push(facts.name);
        self.state.push(state);
        self.weight.push(weight);
        self.in_flight.push(0);
        self.work.push(0);
        self.picked.push(0);
        self.report.push(None);
        self.member.push(true);
        self.id(slot)
    }

    pub(crate) fn id(&self, slot: u32) -> EndpointId {
        EndpointId { slot, generation: self.generation[slot as usize] }
    }

    /// The slot of an id, unless it names a former holder.
    pub(crate) fn slot(&self, id: EndpointId) -> Option<u32> {
        let i = id.index();
        (self.generation.get(i) == Some(&id.generation) && self.member[i]).then_some(id.slot)
    }

    /// Takes an endpoint out. Its slot is reused once nothing is in flight there.
    pub(crate) fn remove(&mut self, slot: u32) {
        let i = slot as usize;
        if !self.member[i] {
            return;
        }
        self.member[i] = false;
        self.state[i] = EndpointState::Disabled;
        if self.in_flight[i] == 0 {
            self.free.push(slot);
        }
    }

    pub(crate) fn add_load(&mut self, slot: u32, work: u64) {
        let i = slot as usize;
        self.in_flight[i] += 1;
        self.work[i] += work;
        self.picked[i] += 1;
    }

    /// Takes back what [`Endpoints::add_load`] added, less what
    /// [`Endpoints::reduce_work`] already took.
    pub(crate) fn remove_load(&mut self, slot: u32, work_left: u64) {
        let i = slot as usize;
        debug_assert!(self.in_flight[i] > 0 && self.work[i] >= work_left);
        self.in_flight[i] = self.in_flight[i].saturating_sub(1);
        self.work[i] = self.work[i].saturating_sub(work_left);
        if self.in_flight[i] == 0 && !self.member[i] {
            self.free.push(slot);
        }
    }

    pub(crate) fn reduce_work(&mut self, slot: u32, done: u64) {
        let i = slot as usize;
        debug_assert!(self.work[i] >= done);
        self.work[i] = self.work[i].saturating_sub(done);
    }

    pub(crate) fn set_state(&mut self, slot: u32, state: EndpointState) {
        self.state[slot as usize] = state;
    }

    pub(crate) fn set_weight(&mut self, slot: u32, weight: f64) {
        self.weight[slot as usize] = sane_weight(weight);
    }

    pub(crate) fn set_report(&mut self, slot: u32, report: LoadReport) {
        self.report[slot as usize] = Some(report);
    }

    pub(crate) fn is_ready(&self, slot: u32) -> bool {
        self.state[slot as usize] == EndpointState::Ready
    }

    pub(crate) fn weight(&self, slot: u32) -> f64 {
        self.weight[slot as usize]
    }

    pub(crate) fn in_flight(&self, slot: u32) -> u32 {
        self.in_flight[slot as usize]
    }

    pub(crate) fn work(&self, slot: u32) -> u64 {
        self.work[slot as usize]
    }

    /// A stable hash of the endpoint's address, for consistent hashing.
    pub(crate) fn name_hash(&self, slot: u32) -> u64 {
        xxhash_rust::xxh3::xxh3_64(self.name[slot as usize].as_bytes())
    }

    pub(crate) fn load(&self, slot: u32) -> EndpointLoad {
        let i = slot as usize;
        EndpointLoad {
            in_flight: self.in_flight[i],
            work: self.work[i],
            picked: self.picked[i],
            state: self.state[i],
            weight: self.weight[i],
            report: self.report[i],
        }
    }

    /// Sum of everything in flight, members or not; for invariant checks.
    #[cfg(test)]
    pub(crate) fn totals(&self) -> (u64, u64) {
        (self.in_flight.iter().map(|&n| u64::from(n)).sum(), self.work.iter().sum())
    }
}

/// Weights come from people; a policy divides by them.
fn sane_weight(weight: f64) -> f64 {
    if weight.is_finite() && weight > 0.0 { weight.clamp(1e-6, 1e6) } else { 1.0 }
}
