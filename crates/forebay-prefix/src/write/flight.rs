//! Requests in flight: their chains are held while they last.

use forebay_core::{EndpointId, Time};
use smallvec::SmallVec;

use super::{Writer, hold};
use crate::store::{Store, run};

/// Units that one step along a chain may take: a run, its hashes, a hold, and
/// what sets and tables need besides.
pub(super) const STEP: usize = 96;

/// Holds along a chain, from its start.
pub(super) type Path = SmallVec<[u32; 32]>;

impl Writer {
    pub(crate) fn begin(&mut self, store: &Store, id: EndpointId, chain: &[u64]) {
        let Some(&last) = chain.last() else { return };
        let Some(lane) = self.lane_for(store, id) else { return };
        let (_, blocks) = self.pin(store, lane, chain);
        let in_flight = &mut self.lanes[usize::from(lane)].in_flight;
        let known = in_flight.len();
        in_flight.entry(last).or_default().push(blocks as u32);
        self.flights += in_flight.len() - known;
    }

    pub(crate) fn end(&mut self, store: &Store, id: EndpointId, chain: &[u64], keep: bool, now: Time) {
        let Some(last) = chain.last() else { return };
        let Some(lane) = self.lane_of(store, id) else { return };
        let in_flight = &mut self.lanes[usize::from(lane)].in_flight;
        let Some(begun) = in_flight.get_mut(last) else { return };
        let blocks = begun.pop().unwrap_or_default() as usize;
        if begun.is_empty() {
            in_flight.remove(last);
            self.flights -= 1;
        }
        let path = self.path(store, lane, &chain[..blocks.min(chain.len())]);
        if keep {
            self.commit_path(store, lane, &path, now);
        }
        self.unpin(store, &path);
        if keep {
            self.join_path(store, &path);
            self.evict_over_capacity(store, lane, path.len());
        }
    }

    /// Enters a chain and counts one more request with it. The holds along it,
    /// and how many of its blocks could be entered: all, unless there is no room.
    pub(super) fn pin(&mut self, store: &Store, lane: u16, chain: &[u64]) -> (Path, usize) {
        let (mut path, mut done) = (Path::new(), 0);
        while done < chain.len() && self.make_room(store, STEP) {
            let Some(run_id) = self.whole_run(store, &chain[done..]) else { break };
            let Some(run_id) = run_id else { continue };
            let Some(id) = self.hold(store, run_id, lane) else {
                if run::head(store.unit(run_id)) == 0 {
                    self.free_run(store, run_id);
                }
                break;
            };
            let refs = hold::refs(store.unit(id));
            self.change(store, id, |unit| unit.set_half(hold::REFS, refs.saturating_add(1)));
            path.push(id);
            done += run::len(store.unit(run_id));
        }
        self.stats.refused += (chain.len() - done) as u64;
        for &id in path.iter().rev() {
            if !hold::is_committed(store.unit(id)) {
                self.touch(store, id);
            }
        }
        (path, done)
    }

    /// The run that is the start of `chain` from its first block to its last:
    /// made if there is none. `Some(None)`: look again, it was split or room had to
    /// be made; `None`: there is no room.
    fn whole_run(&mut self, store: &Store, chain: &[u64]) -> Option<Option<u32>> {
        let Some((id, at)) = store.find(chain[0]) else {
            return self.new_run(store, self.unknown(store, chain)).map(Some);
        };
        let record = store.unit(id);
        let cut = if at > 0 { at } else { run::common(store, record, 0, chain) };
        if at == 0 && cut == run::len(record) {
            return Some(Some(id));
        }
        let need = self.split_needs(store, id);
        if self.memory.available() < need {
            return self.make_room(store, need).then_some(None);
        }
        self.split(store, id, cut).then_some(None)
    }

    /// The first blocks of `chain`, of which the first is not in the index, up
    /// to one that is, and no more than a run has room for.
    pub(super) fn unknown<'a>(&self, store: &Store, chain: &'a [u64]) -> &'a [u64] {
        let most = chain.len().min(run::MAX);
        store.warm_blocks(&chain[..most]);
        let len = (1..most).find(|&i| store.find(chain[i]).is_some()).unwrap_or(most);
        &chain[..len]
    }

    /// The holds of a lane along a chain, as long as they are whole runs.
    pub(super) fn path(&self, store: &Store, lane: u16, chain: &[u64]) -> Path {
        let (mut path, mut done) = (Path::new(), 0);
        store.warm_runs(chain);
        while done < chain.len()
            && let Some((run_id, 0)) = store.find(chain[done])
            && let record = store.unit(run_id)
            && run::common(store, record, 0, &chain[done..]) == run::len(record)
            && let Some(id) = self.find_hold(store, run_id, lane)
        {
            path.push(id);
            done += run::len(record);
        }
        path
    }

    pub(super) fn unpin(&mut self, store: &Store, path: &[u32]) {
        for &id in path.iter().rev() {
            let refs = hold::refs(store.unit(id));
            self.change(store, id, |unit| unit.set_half(hold::REFS, refs.saturating_sub(1)));
            self.drop_if_empty(store, id);
        }
    }
}
