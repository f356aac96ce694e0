//! The two lists of a lane: its committed holds and all others, each from the
//! most to the least recently used.
//!
//! Whoever touches a chain touches its deepest run first, so in each list a run
//! is always newer than what follows it in a chain: the oldest is a leaf, and
//! evicting it leaves the rest closed.

use super::{Writer, hold};
use crate::store::{Store, Unit};

/// Ends of a list.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct List {
    pub(crate) newest: u32,
    pub(crate) oldest: u32,
}

impl List {
    pub(crate) fn remove(&mut self, store: &Store, id: u32) {
        let unit = store.unit(id);
        let (newer, older) = (unit.half(hold::NEWER), unit.half(hold::OLDER));
        match newer {
            0 => self.newest = older,
            newer => store.unit(newer).set_half(hold::OLDER, older),
        }
        match older {
            0 => self.oldest = newer,
            older => store.unit(older).set_half(hold::NEWER, newer),
        }
        unit.set_half(hold::NEWER, 0);
        unit.set_half(hold::OLDER, 0);
    }

    /// Puts `id` in as the newest.
    pub(crate) fn push(&mut self, store: &Store, id: u32) {
        let unit = store.unit(id);
        unit.set_half(hold::NEWER, 0);
        unit.set_half(hold::OLDER, self.newest);
        match self.newest {
            0 => self.oldest = id,
            newest => store.unit(newest).set_half(hold::NEWER, id),
        }
        self.newest = id;
    }

    /// Puts `id` in as the oldest.
    pub(crate) fn push_oldest(&mut self, store: &Store, id: u32) {
        match self.oldest {
            0 => self.push(store, id),
            oldest => self.insert_older(store, id, oldest),
        }
    }

    /// Puts `id` in just on the older side of `of`.
    pub(crate) fn insert_older(&mut self, store: &Store, id: u32, of: u32) {
        let (unit, next) = (store.unit(id), store.unit(of));
        let older = next.half(hold::OLDER);
        unit.set_half(hold::NEWER, of);
        unit.set_half(hold::OLDER, older);
        next.set_half(hold::OLDER, id);
        match older {
            0 => self.oldest = id,
            older => store.unit(older).set_half(hold::NEWER, id),
        }
    }
}

impl Writer {
    /// The list that a hold belongs to.
    pub(crate) fn list(&mut self, unit: &Unit) -> &mut List {
        let lane = &mut self.lanes[usize::from(hold::lane(unit))];
        if hold::is_committed(unit) { &mut lane.committed } else { &mut lane.others }
    }

    /// Makes a hold the most recently used of its list.
    pub(crate) fn touch(&mut self, store: &Store, id: u32) {
        let list = self.list(store.unit(id));
        if list.newest != id {
            list.remove(store, id);
            list.push(store, id);
        }
    }
}
