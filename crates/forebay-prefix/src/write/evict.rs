//! Making room: a little at a time, the least recently used first.

use std::cmp::Reverse;

use super::{Writer, hold};
use crate::store::Store;

/// Holds taken back by one call beside those that it entered, however far a lane
/// is over its capacity: the next calls go on.
const MOST_AT_ONCE: usize = 256;
/// Holds of a lane that are looked at for one without requests in flight.
const SEARCH: usize = 16;

impl Writer {
    /// Sees to it that `units` units can be taken. False when nothing is left
    /// that could make room.
    pub(crate) fn make_room(&mut self, store: &Store, units: usize) -> bool {
        while self.memory.available() < units {
            if !self.evict_one(store) {
                return false;
            }
        }
        true
    }

    fn evict_one(&mut self, store: &Store) -> bool {
        if !self.dying.is_empty() {
            self.sweep(store, 1);
            return true;
        }
        self.evict_oldest_committed(store) || self.evict_confirmed(store)
    }

    /// Takes back the least recently used committed run of all lanes.
    fn evict_oldest_committed(&mut self, store: &Store) -> bool {
        while let Some(Reverse((tick, lane))) = self.oldest.pop() {
            let oldest = self.lanes[usize::from(lane)].committed.oldest;
            if oldest == 0 || self.lanes[usize::from(lane)].endpoint.is_none() {
                self.lanes[usize::from(lane)].is_queued = false;
                continue;
            }
            let now = store.unit(oldest).half(hold::TICK);
            if now > tick {
                // It has been used since: its turn comes later.
                self.oldest.push(Reverse((now, lane)));
                continue;
            }
            self.stats.evicted_by_bytes += self.uncommit(store, oldest);
            self.lanes[usize::from(lane)].is_queued = false;
            self.queue(store, lane);
            return true;
        }
        false
    }

    /// Enters the lane in the order of ages if it has anything and is not in it.
    pub(crate) fn queue(&mut self, store: &Store, lane: u16) {
        let state = &mut self.lanes[usize::from(lane)];
        if !state.is_queued && state.committed.oldest != 0 {
            state.is_queued = true;
            let tick = store.unit(state.committed.oldest).half(hold::TICK);
            self.oldest.push(Reverse((tick, lane)));
        }
    }

    /// Takes back what an engine has confirmed, from each lane in turn.
    fn evict_confirmed(&mut self, store: &Store) -> bool {
        for _ in 0..self.lanes.len() {
            self.next_victim = (self.next_victim + 1) % self.lanes.len() as u16;
            let mut at = self.lanes[usize::from(self.next_victim)].others.oldest;
            for _ in 0..SEARCH {
                if at == 0 {
                    break;
                }
                let unit = store.unit(at);
                if hold::refs(unit) == 0 {
                    let blocks = unit.get(hold::GPU) | unit.get(hold::HOST);
                    self.stats.evicted_by_bytes += u64::from(blocks.count_ones());
                    self.bury(store, at);
                    return true;
                }
                at = unit.half(hold::NEWER);
            }
        }
        false
    }

    /// Drops a hold whatever speaks for it.
    fn bury(&mut self, store: &Store, id: u32) {
        let unit = store.unit(id);
        loop {
            let child = unit.half(hold::CHILD);
            if child == 0 {
                break;
            }
            self.unlink(store, child);
        }
        self.unlink(store, id);
        self.list(unit).remove(store, id);
        self.change(store, id, |unit| {
            hold::set_committed(unit, false);
            hold::set_restored(unit, false);
            unit.set(hold::GPU, 0);
            unit.set(hold::HOST, 0);
            unit.set_half(hold::REFS, 0);
        });
        self.list(unit).push(store, id);
        self.drop_hold(store, id);
    }

    /// Takes out up to `most` holds of forgotten lanes.
    pub(crate) fn sweep(&mut self, store: &Store, most: usize) {
        for _ in 0..most {
            let Some(&lane) = self.dying.front() else { return };
            let state = &self.lanes[usize::from(lane)];
            let id = if state.others.oldest != 0 { state.others.oldest } else { state.committed.oldest };
            if id == 0 {
                self.dying.pop_front();
                self.free_lanes.insert(lane);
            } else {
                self.bury(store, id);
            }
        }
    }

    /// Takes back the lane's least recently used committed runs until the rest
    /// fits, or the next call goes on with it. `entered` holds are new.
    pub(crate) fn evict_over_capacity(&mut self, store: &Store, lane: u16, entered: usize) {
        let capacity = self.capacity(lane);
        for _ in 0..MOST_AT_ONCE + entered {
            let state = &self.lanes[usize::from(lane)];
            if state.committed_blocks <= capacity || state.committed.oldest == 0 {
                return;
            }
            self.stats.evicted_by_capacity += self.uncommit(store, state.committed.oldest);
        }
    }
}
