//! What a lane holds as plain data, and back.

use forebay_core::EndpointId;

use super::{Writer, hold};
use crate::store::{Store, run};

/// Blocks of one run that an endpoint holds from its start on.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Segment {
    /// The segment before it in its chain, by its place in the list; it comes
    /// earlier.
    pub(crate) parent: Option<u32>,
    pub(crate) hashes: Vec<u64>,
}

/// Restored holds taken back by one call.
const MOST_AT_ONCE: usize = 256;

impl Writer {
    /// The owner of a lane and what it holds ready to use, the most recently
    /// used first. What is only in flight is left out.
    pub(crate) fn dump(&self, store: &Store, lane: u16) -> Option<(EndpointId, Vec<Segment>)> {
        let state = self.lanes.get(usize::from(lane))?;
        let endpoint = state.endpoint?;
        // Holds by their place in the list, to name parents.
        let mut places = std::collections::BTreeMap::new();
        let mut segments = Vec::new();
        for first in [state.committed.newest, state.others.newest] {
            let mut at = first;
            while at != 0 {
                let unit = store.unit(at);
                let record = store.unit(unit.half(hold::RUN));
                let len = match hold::is_committed(unit) {
                    true => run::len(record),
                    false => (unit.get(hold::GPU).trailing_ones() as usize).min(run::len(record)),
                };
                if len > 0 {
                    places.insert(at, segments.len() as u32);
                    let parent = places.get(&unit.half(hold::PARENT)).copied();
                    let hashes = (0..len).map(|i| run::hash(store, record, i)).collect();
                    segments.push(Segment { parent, hashes });
                }
                at = unit.half(hold::OLDER);
            }
        }
        Some((endpoint, segments))
    }

    /// Takes over segments as committed blocks that are older than all others.
    /// The number of blocks that are new to the endpoint.
    pub(crate) fn take_over(&mut self, store: &Store, id: EndpointId, segments: &[Segment]) -> u64 {
        let Some(lane) = self.lane_for(store, id) else { return 0 };
        if self.lanes[usize::from(lane)].restored_blocks == 0 {
            let confidence = self.config.restored_confidence.clamp(0.0, 1.0);
            let state = &mut self.lanes[usize::from(lane)];
            (state.confidence, state.faded) = (confidence, None);
        }
        let before = self.lanes[usize::from(lane)].restored_blocks;
        for segment in segments {
            let (path, _) = self.pin(store, lane, &segment.hashes);
            let parent = segment.parent.and_then(|parent| segments.get(parent as usize)?.hashes.last());
            let mut above = parent
                .and_then(|&hash| store.find(hash))
                .and_then(|(run_id, _)| self.find_hold(store, run_id, lane))
                .filter(|&id| hold::is_committed(store.unit(id)))
                .unwrap_or(0);
            for &id in &path {
                self.commit_restored(store, id);
                self.link(store, id, above);
                above = id;
            }
            self.unpin(store, &path);
        }
        self.evict_over_capacity(store, lane, segments.len());
        self.queue(store, lane);
        self.publish_confidence(store, lane);
        u64::from(self.lanes[usize::from(lane)].restored_blocks.saturating_sub(before))
    }

    fn commit_restored(&mut self, store: &Store, id: u32) {
        let unit = store.unit(id);
        if hold::is_committed(unit) {
            return;
        }
        let blocks = run::len(store.unit(unit.half(hold::RUN))) as u32;
        self.list(unit).remove(store, id);
        self.change(store, id, |unit| {
            hold::set_committed(unit, true);
            hold::set_restored(unit, true);
            unit.set_half(hold::TICK, 0);
        });
        let lane = &mut self.lanes[usize::from(hold::lane(unit))];
        lane.committed.push_oldest(store, id);
        lane.committed_blocks = lane.committed_blocks.saturating_add(blocks);
        lane.restored_blocks = lane.restored_blocks.saturating_add(blocks);
        self.stats.committed += u64::from(blocks);
    }

    /// Takes back restored holds of a lane, the oldest first.
    pub(super) fn uncommit_restored(&mut self, store: &Store, lane: u16) {
        let mut at = self.lanes[usize::from(lane)].committed.oldest;
        for _ in 0..MOST_AT_ONCE {
            if at == 0 {
                return;
            }
            let unit = store.unit(at);
            let newer = unit.half(hold::NEWER);
            if hold::is_restored(unit) {
                self.uncommit(store, at);
            }
            at = newer;
        }
    }
}
