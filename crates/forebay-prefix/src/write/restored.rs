//! What a lane holds as plain data, and back.

use forebay_core::EndpointId;

use super::{Writer, hold};
use crate::Tier;
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
        self.begin_restored(lane, self.config.restored_confidence);
        let before = self.lanes[usize::from(lane)].restored_blocks;
        for segment in segments {
            let (path, _) = self.pin(store, lane, &segment.hashes);
            let parent = segment.parent.and_then(|parent| segments.get(parent as usize)?.hashes.last());
            self.restore_path(store, lane, &path, parent.copied());
            self.unpin(store, &path);
        }
        self.evict_over_capacity(store, lane, segments.len());
        self.queue(store, lane);
        self.publish_confidence(store, lane);
        u64::from(self.lanes[usize::from(lane)].restored_blocks.saturating_sub(before))
    }

    /// Says what restored blocks of a lane are worth that has none yet.
    fn begin_restored(&mut self, lane: u16, confidence: f64) {
        let state = &mut self.lanes[usize::from(lane)];
        if state.restored_blocks == 0 {
            (state.confidence, state.faded) = (confidence.clamp(0.0, 1.0), None);
        }
    }

    /// Marks the holds of a path, which goes on after block `parent`, as restored.
    fn restore_path(&mut self, store: &Store, lane: u16, path: &[u32], parent: Option<u64>) {
        let mut above = parent
            .and_then(|hash| store.find(hash))
            .and_then(|(run_id, _)| self.find_hold(store, run_id, lane))
            .filter(|&id| hold::is_committed(store.unit(id)))
            .unwrap_or(0);
        for &id in path {
            self.commit_restored(store, id);
            self.link(store, id, above);
            above = id;
        }
    }

    /// Blocks that the engine had ready count as restored, no longer as confirmed.
    pub(crate) fn doubt(
        &mut self,
        store: &Store,
        id: EndpointId,
        parent: Option<u64>,
        hashes: &[u64],
        confidence: f64,
    ) {
        let Some(lane) = self.lane_of(store, id) else { return };
        self.begin_restored(lane, confidence);
        let (path, done) = self.pin(store, lane, hashes);
        self.restore_path(store, lane, &path, parent);
        for &id in &path {
            self.change(store, id, |unit| {
                unit.set(hold::GPU, 0);
                unit.set(hold::HOST, 0);
            });
        }
        self.unpin(store, &path);
        // What there is no room for is not kept as the engine's word either.
        self.remove_confirmed(store, id, Tier::Gpu, &hashes[done..]);
        self.evict_over_capacity(store, lane, path.len());
        self.queue(store, lane);
        self.publish_confidence(store, lane);
    }

    /// Takes back what was restored, in steps; whether there may be more of it.
    pub(crate) fn drop_restored(&mut self, store: &Store, id: EndpointId) -> bool {
        let Some(lane) = self.lane_of(store, id) else { return false };
        let before = self.lanes[usize::from(lane)].restored_blocks;
        if before > 0 {
            self.uncommit_restored(store, lane);
            self.publish_confidence(store, lane);
        }
        (1..before).contains(&self.lanes[usize::from(lane)].restored_blocks)
    }

    /// Takes back the oldest of what was served, in steps; whether there is more.
    pub(crate) fn uncommit_oldest(&mut self, store: &Store, id: EndpointId) -> bool {
        let Some(lane) = self.lane_of(store, id) else { return false };
        for _ in 0..MOST_AT_ONCE {
            match self.lanes[usize::from(lane)].committed.oldest {
                0 => break,
                oldest => self.uncommit(store, oldest),
            };
        }
        self.publish_confidence(store, lane);
        self.lanes[usize::from(lane)].committed.oldest != 0
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
