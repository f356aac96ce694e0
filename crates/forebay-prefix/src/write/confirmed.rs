//! Confirmed blocks: what an engine says it holds.

use forebay_core::EndpointId;

use super::flight::STEP;
use super::{Writer, hold};
use crate::Tier;
use crate::store::{Store, run};

fn word(tier: Tier) -> usize {
    match tier {
        Tier::Gpu => hold::GPU,
        Tier::Host => hold::HOST,
    }
}

impl Writer {
    pub(crate) fn insert_confirmed(
        &mut self,
        store: &Store,
        id: EndpointId,
        tier: Tier,
        parent: Option<u64>,
        hashes: &[u64],
    ) {
        if hashes.is_empty() {
            return;
        }
        let Some(lane) = self.lane_for(store, id) else { return };
        let (mut parent, mut rest) = (parent, hashes);
        while !rest.is_empty() {
            if !self.make_room(store, STEP) {
                break;
            }
            let done = match store.find(rest[0]) {
                Some(found) => self.confirm_known(store, lane, tier, parent, found, rest),
                None => self.confirm_new(store, lane, tier, parent, rest),
            };
            let Some(done) = done else { break };
            parent = Some(rest[done - 1]);
            rest = &rest[done..];
        }
        self.stats.refused += rest.len() as u64;
    }

    /// Marks the blocks of a run that go on with `hashes`; how many they are.
    fn confirm_known(
        &mut self,
        store: &Store,
        lane: u16,
        tier: Tier,
        parent: Option<u64>,
        (run_id, at): (u32, usize),
        hashes: &[u64],
    ) -> Option<usize> {
        let blocks = run::common(store, store.unit(run_id), at, hashes).max(1);
        self.mark(store, lane, tier, parent, run_id, hold::ones(blocks) << at)?;
        Some(blocks)
    }

    /// Enters blocks that nobody held before; how many they are.
    fn confirm_new(
        &mut self,
        store: &Store,
        lane: u16,
        tier: Tier,
        parent: Option<u64>,
        hashes: &[u64],
    ) -> Option<usize> {
        let hashes = self.unknown(store, hashes);
        if let Some(run_id) = parent.and_then(|parent| self.growable(store, lane, parent)) {
            let old = run::len(store.unit(run_id));
            let added = self.extend_run(store, run_id, hashes);
            if added > 0 {
                self.mark(store, lane, tier, parent, run_id, hold::ones(added) << old)?;
                return Some(added);
            }
        }
        let run_id = self.new_run(store, hashes)?;
        let blocks = run::len(store.unit(run_id));
        if self.mark(store, lane, tier, parent, run_id, hold::ones(blocks)).is_none() {
            self.free_run(store, run_id);
            return None;
        }
        Some(blocks)
    }

    /// Sets the bits of `mask`. `None` when there is no room for a hold.
    fn mark(
        &mut self,
        store: &Store,
        lane: u16,
        tier: Tier,
        parent: Option<u64>,
        run_id: u32,
        mask: u64,
    ) -> Option<()> {
        let known = self.find_hold(store, run_id, lane);
        let id = self.hold(store, run_id, lane)?;
        self.change(store, id, |unit| unit.set(word(tier), unit.get(word(tier)) | mask));
        if known.is_none()
            && let Some((before, _)) = parent.and_then(|parent| store.find(parent))
            && let Some(before) = self.find_hold(store, before, lane)
            && before != id
            && !hold::is_committed(store.unit(before))
        {
            // Older than what it follows, so that it is evicted first.
            let list = &mut self.lanes[usize::from(lane)].others;
            list.remove(store, id);
            list.insert_older(store, id, before);
        }
        Some(())
    }

    /// The run that ends with block `parent`, if blocks can be added to it
    /// without anybody seeming to hold them: nobody but this lane has it, and
    /// only by the engine's word.
    fn growable(&self, store: &Store, lane: u16, parent: u64) -> Option<u32> {
        let (run_id, at) = store.find(parent)?;
        let record = store.unit(run_id);
        let len = run::len(record);
        let id = self.find_hold(store, run_id, lane)?;
        let unit = store.unit(id);
        let only = run::count(record) == 1 && hold::refs(unit) == 0 && !hold::is_committed(unit);
        (at + 1 == len && len < run::MAX && only).then_some(run_id)
    }

    pub(crate) fn remove_confirmed(&mut self, store: &Store, id: EndpointId, tier: Tier, hashes: &[u64]) {
        let Some(lane) = self.lane_of(store, id) else { return };
        let mut rest = hashes;
        while let Some(&first) = rest.first() {
            self.make_room(store, STEP);
            let (lowest, blocks) = match store.find(first) {
                Some((run_id, at)) => run::stretch(store, store.unit(run_id), at, rest),
                None => (first, 1),
            };
            if tier == Tier::Gpu {
                self.uncommit_from(store, lane, lowest);
            }
            // That may have split the run.
            self.unmark(store, lane, tier, &rest[..blocks]);
            rest = &rest[blocks..];
        }
    }

    /// Clears the bits of `hashes`, which follow each other in one run, or did.
    fn unmark(&mut self, store: &Store, lane: u16, tier: Tier, hashes: &[u64]) {
        let mut rest = hashes;
        while let Some(&first) = rest.first() {
            let mut blocks = 1;
            if let Some((run_id, at)) = store.find(first)
                && let Some(id) = self.find_hold(store, run_id, lane)
            {
                let record = store.unit(run_id);
                let (lowest, len) = run::stretch(store, record, at, rest);
                let from = if lowest == first { at } else { at + 1 - len };
                blocks = len;
                let mask = hold::ones(len) << from;
                self.change(store, id, |unit| unit.set(word(tier), unit.get(word(tier)) & !mask));
                self.drop_if_empty(store, id);
            }
            rest = &rest[blocks..];
        }
    }
}
