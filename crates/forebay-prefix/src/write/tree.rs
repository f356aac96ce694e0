//! The tree of a lane's committed holds: which run follows which. It is what
//! lets everything behind a lost block be found.

use super::{Writer, hold};
use crate::store::Store;
use crate::store::run;

impl Writer {
    /// Hangs `id` below `parent`, unless it hangs somewhere already.
    pub(crate) fn link(&mut self, store: &Store, id: u32, parent: u32) {
        let unit = store.unit(id);
        if parent == 0 || parent == id || unit.half(hold::PARENT) != 0 {
            return;
        }
        let first = store.unit(parent).half(hold::CHILD);
        unit.set_half(hold::PARENT, parent);
        unit.set_half(hold::SIBLING, first);
        unit.set_half(hold::SIBLING_PREV, 0);
        if first != 0 {
            store.unit(first).set_half(hold::SIBLING_PREV, id);
        }
        store.unit(parent).set_half(hold::CHILD, id);
    }

    /// Takes `id` from its parent; its children stay with it.
    pub(crate) fn unlink(&mut self, store: &Store, id: u32) {
        let unit = store.unit(id);
        let parent = unit.half(hold::PARENT);
        if parent == 0 {
            return;
        }
        let (next, prev) = (unit.half(hold::SIBLING), unit.half(hold::SIBLING_PREV));
        match prev {
            0 => store.unit(parent).set_half(hold::CHILD, next),
            prev => store.unit(prev).set_half(hold::SIBLING, next),
        }
        if next != 0 {
            store.unit(next).set_half(hold::SIBLING_PREV, prev);
        }
        for half in [hold::PARENT, hold::SIBLING, hold::SIBLING_PREV] {
            unit.set_half(half, 0);
        }
    }

    /// Hangs the children of `from` below `to`.
    pub(crate) fn move_children(&mut self, store: &Store, from: u32, to: u32) {
        loop {
            let child = store.unit(from).half(hold::CHILD);
            if child == 0 {
                return;
            }
            self.unlink(store, child);
            self.link(store, child, to);
        }
    }

    /// `id` and everything that hangs below it is no longer committed; holds
    /// that were nothing else are dropped. The number of blocks taken back.
    pub(crate) fn uncommit_tree(&mut self, store: &Store, id: u32) -> u64 {
        let (mut blocks, mut at) = (0, id);
        loop {
            let child = store.unit(at).half(hold::CHILD);
            if child != 0 {
                at = child;
                continue;
            }
            let parent = store.unit(at).half(hold::PARENT);
            blocks += self.uncommit(store, at);
            if at == id {
                return blocks;
            }
            at = parent;
        }
    }

    /// One hold is no longer committed, and is dropped if it was nothing else.
    /// The number of blocks taken back.
    pub(crate) fn uncommit(&mut self, store: &Store, id: u32) -> u64 {
        let unit = store.unit(id);
        if !hold::is_committed(unit) {
            return 0;
        }
        // A leaf but for links that a byte-bound eviction cut: then they end here.
        loop {
            let child = unit.half(hold::CHILD);
            if child == 0 {
                break;
            }
            self.unlink(store, child);
        }
        self.unlink(store, id);
        let blocks = run::len(store.unit(unit.half(hold::RUN))) as u32;
        let lane = &mut self.lanes[usize::from(hold::lane(unit))];
        lane.committed.remove(store, id);
        lane.committed_blocks = lane.committed_blocks.saturating_sub(blocks);
        if hold::is_restored(unit) {
            lane.restored_blocks = lane.restored_blocks.saturating_sub(blocks);
        }
        lane.others.push_oldest(store, id);
        self.stats.committed = self.stats.committed.saturating_sub(u64::from(blocks));
        self.change(store, id, |unit| {
            hold::set_committed(unit, false);
            hold::set_restored(unit, false);
        });
        self.drop_if_empty(store, id);
        u64::from(blocks)
    }
}
