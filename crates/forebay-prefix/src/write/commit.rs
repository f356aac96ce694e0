//! Committed blocks: what an endpoint has served and should still have.

use forebay_core::{EndpointId, Time};

use super::{Writer, hold, tick_of};
use crate::store::{Store, run};

impl Writer {
    /// `endpoint` has computed this chain.
    pub(crate) fn commit(&mut self, store: &Store, id: EndpointId, chain: &[u64], now: Time) {
        if chain.is_empty() {
            return;
        }
        let Some(lane) = self.lane_for(store, id) else { return };
        let (path, _) = self.pin(store, lane, chain);
        self.commit_path(store, lane, &path, now);
        self.unpin(store, &path);
        self.join_path(store, &path);
        self.evict_over_capacity(store, lane, path.len());
    }

    /// Marks the holds of a path as committed and used now, the deepest first.
    pub(super) fn commit_path(&mut self, store: &Store, lane: u16, path: &[u32], now: Time) {
        let tick = tick_of(now);
        for &id in path.iter().rev() {
            let unit = store.unit(id);
            self.list(unit).remove(store, id);
            self.count_committed(store, id);
            self.change(store, id, |unit| hold::set_committed(unit, true));
            hold::set_restored(unit, false);
            unit.set_half(hold::TICK, tick);
            self.list(unit).push(store, id);
        }
        for pair in path.windows(2) {
            self.link(store, pair[1], pair[0]);
        }
        self.queue(store, lane);
    }

    /// Counts a hold that is about to be committed anew.
    fn count_committed(&mut self, store: &Store, id: u32) {
        let unit = store.unit(id);
        let blocks = run::len(store.unit(unit.half(hold::RUN))) as u32;
        let lane = &mut self.lanes[usize::from(hold::lane(unit))];
        if hold::is_restored(unit) {
            lane.restored_blocks = lane.restored_blocks.saturating_sub(blocks);
        }
        if !hold::is_committed(unit) {
            lane.committed_blocks = lane.committed_blocks.saturating_add(blocks);
            self.stats.committed += u64::from(blocks);
        }
    }

    /// Joins the short runs that the turns of one conversation leave behind.
    pub(super) fn join_path(&mut self, store: &Store, path: &[u32]) {
        let Some((&first, rest)) = path.split_first() else { return };
        let mut last = first;
        for &id in rest {
            let (a, b) = (store.unit(last).half(hold::RUN), store.unit(id).half(hold::RUN));
            if !self.join(store, a, b) {
                last = id;
            }
        }
    }

    /// The engine said that of `chain` it really had `cached` blocks where
    /// `predicted` were expected.
    pub(crate) fn correct(
        &mut self,
        store: &Store,
        id: EndpointId,
        chain: &[u64],
        cached: u32,
        predicted: u32,
        now: Time,
    ) {
        let cached = (cached as usize).min(chain.len());
        let predicted = (predicted as usize).min(chain.len());
        if cached < predicted
            && let Some(lane) = self.lane_of(store, id)
        {
            self.stats.corrected += self.uncommit_from(store, lane, chain[cached]);
        }
        self.commit(store, id, &chain[..cached], now);
        if let Some(lane) = self.lane_of(store, id) {
            self.judge(store, lane, cached, predicted);
            self.learn_capacity(lane, cached, predicted);
        }
    }

    /// Block `hash` of a lane and all that follow it, in every chain, are no
    /// longer committed. The number of blocks taken back.
    pub(super) fn uncommit_from(&mut self, store: &Store, lane: u16, hash: u64) -> u64 {
        if let Some((run_id, at)) = store.find(hash)
            && at > 0
            && self.is_committed(store, run_id, lane)
        {
            self.make_room(store, self.split_needs(store, run_id));
            // That may have taken the run away: only what is found anew is split.
            if let Some((run_id, at)) = store.find(hash) {
                self.split(store, run_id, at);
            }
        }
        let Some((run_id, _)) = store.find(hash) else { return 0 };
        match self.find_hold(store, run_id, lane) {
            Some(id) if hold::is_committed(store.unit(id)) => self.uncommit_tree(store, id),
            _ => 0,
        }
    }

    fn is_committed(&self, store: &Store, run_id: u32, lane: u16) -> bool {
        self.find_hold(store, run_id, lane).is_some_and(|id| hold::is_committed(store.unit(id)))
    }
}
