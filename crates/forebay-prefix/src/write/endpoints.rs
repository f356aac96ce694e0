//! Endpoints and the lanes they own.

use std::collections::BTreeMap;

use forebay_core::{EndpointId, Time};
use smallvec::SmallVec;

use super::Writer;
use super::lists::List;
use crate::store::{MAX_LANES, MAX_SLOTS, Owner, SURE, Store};

/// Lanes for which one chunk of the byte bound is set aside: their own state,
/// and that of their endpoints, is well under 256 bytes each.
const LANES_PER_CHUNK: usize = 512;

/// A prediction is off when so many blocks are: fewer are rounding.
const STRETCH_BLOCKS: usize = 3;
/// What one answer makes of the capacity, one way and the other.
const STRETCH_MORE: f32 = 1.5;
const STRETCH_LESS: f32 = 0.8;
/// The most that the capacity may be stretched to. The index as a whole stays
/// within its bytes whatever endpoints keep.
const MOST_STRETCH: f32 = 64.0;

/// What is known of an endpoint whatever it holds.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Endpoint {
    pub(crate) generation: u32,
    /// Late calls for this generation are ignored.
    pub(crate) retired: bool,
    pub(crate) lane: Option<u16>,
    pub(crate) capacity: Option<u32>,
    /// Its cache as answers show it, in multiples of `capacity`; 0 stands for 1.
    pub(crate) stretch: f32,
}

/// What an endpoint holds since it was last forgotten.
#[derive(Default, Debug)]
pub(crate) struct Lane {
    pub(crate) endpoint: Option<EndpointId>,
    pub(crate) committed: List,
    pub(crate) others: List,
    pub(crate) committed_blocks: u32,
    pub(crate) restored_blocks: u32,
    /// Requests in flight: the last element of their chain, and how many
    /// blocks of it could be entered.
    pub(crate) in_flight: BTreeMap<u64, SmallVec<[u32; 2]>>,
    /// The lane has an entry in [`Writer::oldest`].
    pub(crate) is_queued: bool,
    /// What its restored blocks are worth.
    pub(crate) confidence: f64,
    /// When that last faded; `None` until time is told for the first time.
    pub(crate) faded: Option<Time>,
}

impl Writer {
    /// The endpoint's lane, if it has one. A newer generation of the slot
    /// retires the older one; calls for an older or a retired one get nothing.
    pub(crate) fn lane_of(&mut self, store: &Store, id: EndpointId) -> Option<u16> {
        let endpoint = self.endpoint(store, id)?;
        endpoint.lane
    }

    /// The endpoint's lane; a new one if it has none. `None` also when there
    /// are more endpoints than there is room for.
    pub(crate) fn lane_for(&mut self, store: &Store, id: EndpointId) -> Option<u16> {
        if let Some(lane) = self.endpoint(store, id)?.lane {
            return Some(lane);
        }
        let lane = self.new_lane(store, id)?;
        self.endpoint(store, id)?.lane = Some(lane);
        Some(lane)
    }

    pub(crate) fn endpoint(&mut self, store: &Store, id: EndpointId) -> Option<&mut Endpoint> {
        if id.slot >= MAX_SLOTS {
            return None;
        }
        let known = self.endpoints.get(&id.slot).copied();
        match known {
            Some(known) if known.generation > id.generation => return None,
            Some(known) if known.generation == id.generation && known.retired => return None,
            Some(known) if known.generation == id.generation => {}
            known => {
                if let Some(lane) = known.and_then(|known| known.lane) {
                    self.abandon(store, lane);
                }
                let fresh = Endpoint { generation: id.generation, ..Endpoint::default() };
                self.endpoints.insert(id.slot, fresh);
            }
        }
        self.endpoints.get_mut(&id.slot)
    }

    fn new_lane(&mut self, store: &Store, id: EndpointId) -> Option<u16> {
        let lane = match self.free_lanes.pop_first() {
            Some(lane) => {
                store.lanes.count_reuse();
                lane
            }
            None if self.lanes.len() < MAX_LANES && self.room_for_lane() => {
                self.lanes.push(Lane::default());
                store.lanes.set_high(self.lanes.len() as u32);
                (self.lanes.len() - 1) as u16
            }
            None => {
                // A forgotten one that is not yet taken out: finish that now.
                let dying = *self.dying.front()?;
                while self.dying.front() == Some(&dying) {
                    self.sweep(store, 64);
                }
                store.lanes.count_reuse();
                self.free_lanes.pop_first()?
            }
        };
        let is_queued = self.lanes[usize::from(lane)].is_queued;
        self.lanes[usize::from(lane)] =
            Lane { endpoint: Some(id), confidence: 1.0, is_queued, ..Lane::default() };
        store.lanes.set_owner(lane, Some(Owner { endpoint: id, confidence: SURE }));
        Some(lane)
    }

    fn room_for_lane(&mut self) -> bool {
        !self.lanes.len().is_multiple_of(LANES_PER_CHUNK) || self.memory.take_chunk()
    }

    /// Nobody owns the lane from now on. O(1): its holds are taken out later.
    pub(crate) fn abandon(&mut self, store: &Store, lane: u16) {
        store.lanes.set_owner(lane, None);
        let state = &mut self.lanes[usize::from(lane)];
        self.stats.committed = self.stats.committed.saturating_sub(u64::from(state.committed_blocks));
        state.endpoint = None;
        state.committed_blocks = 0;
        self.flights -= state.in_flight.len();
        state.in_flight = BTreeMap::new();
        self.dying.push_back(lane);
    }

    pub(crate) fn forget(&mut self, store: &Store, id: EndpointId) {
        let Some(endpoint) = self.endpoint(store, id) else { return };
        if let Some(lane) = endpoint.lane.take() {
            self.abandon(store, lane);
            self.stats.forgotten += 1;
        }
    }

    pub(crate) fn retire(&mut self, store: &Store, id: EndpointId) {
        let Some(endpoint) = self.endpoint(store, id) else { return };
        endpoint.retired = true;
        endpoint.capacity = None;
        endpoint.stretch = 0.0;
        if let Some(lane) = endpoint.lane.take() {
            self.abandon(store, lane);
        }
    }

    /// Committed blocks that the lane's endpoint has room for.
    pub(crate) fn capacity(&self, lane: u16) -> u32 {
        let slot = self.lanes[usize::from(lane)].endpoint.map(|id| id.slot);
        let endpoint = slot.and_then(|slot| self.endpoints.get(&slot));
        let blocks = endpoint.and_then(|e| e.capacity).unwrap_or(self.config.default_capacity_blocks);
        let stretch = endpoint.map_or(1.0, |e| e.stretch).max(1.0);
        (f64::from(blocks) * f64::from(stretch)) as u32
    }

    /// Learns from an answer how much more its engine keeps than it says: a
    /// tier in host memory or on disk does not show in its count of blocks.
    /// Answers that had more in the cache than was known speak for more room,
    /// those that had less for less, and louder, since what is not there costs
    /// more than what is not known.
    pub(crate) fn learn_capacity(&mut self, lane: u16, cached: usize, predicted: usize) {
        let Some(slot) = self.lanes[usize::from(lane)].endpoint.map(|id| id.slot) else { return };
        let Some(endpoint) = self.endpoints.get_mut(&slot) else { return };
        let by = if cached >= predicted + STRETCH_BLOCKS {
            STRETCH_MORE
        } else if predicted >= cached + STRETCH_BLOCKS {
            STRETCH_LESS
        } else {
            return;
        };
        endpoint.stretch = (endpoint.stretch.max(1.0) * by).clamp(1.0, MOST_STRETCH);
    }

    pub(crate) fn set_capacity(&mut self, store: &Store, id: EndpointId, blocks: Option<u32>) {
        let Some(endpoint) = self.endpoint(store, id) else { return };
        endpoint.capacity = blocks;
        if let Some(lane) = endpoint.lane {
            self.evict_over_capacity(store, lane, 0);
        }
    }
}
