//! Which endpoint served which session, for the sessions used last.

use std::collections::BTreeMap;

use forebay_core::EndpointId;
use serde::{Deserialize, Serialize};

/// No neighbour.
const NONE: u32 = u32::MAX;

/// A table with the least recently used entry first to go. Each call costs
/// O(log n), whatever keys clients send.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Sessions {
    capacity: usize,
    places: BTreeMap<u64, u32>,
    entries: Vec<Entry>,
    free: Vec<u32>,
    oldest: u32,
    newest: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
struct Entry {
    session: u64,
    endpoint: EndpointId,
    older: u32,
    newer: u32,
}

impl Sessions {
    /// An empty table for so many sessions; at least one.
    pub(super) fn new(capacity: usize) -> Sessions {
        Sessions {
            capacity: capacity.clamp(1, NONE as usize),
            places: BTreeMap::new(),
            entries: Vec::new(),
            free: Vec::new(),
            oldest: NONE,
            newest: NONE,
        }
    }

    pub(super) fn get(&self, session: u64) -> Option<EndpointId> {
        let place = *self.places.get(&session)?;
        self.entries.get(place as usize).map(|entry| entry.endpoint)
    }

    /// The session was served there; it is the one used last now.
    pub(super) fn put(&mut self, session: u64, endpoint: EndpointId) {
        let place = match self.places.get(&session) {
            Some(&place) => {
                self.unlink(place);
                place
            }
            None => self.new_place(session),
        };
        let entry = Entry { session, endpoint, older: self.newest, newer: NONE };
        match self.entries.get_mut(place as usize) {
            Some(there) => *there = entry,
            None => self.entries.push(entry),
        }
        match self.entries.get_mut(self.newest as usize) {
            Some(before) => before.newer = place,
            None => self.oldest = place,
        }
        self.newest = place;
    }

    pub(super) fn remove(&mut self, session: u64) {
        if let Some(place) = self.places.remove(&session) {
            self.unlink(place);
            self.free.push(place);
        }
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.places.len()
    }

    /// A place for a session that has none: a free one, or that of the oldest.
    fn new_place(&mut self, session: u64) -> u32 {
        if self.places.len() >= self.capacity
            && let Some(oldest) = self.entries.get(self.oldest as usize).map(|entry| entry.session)
        {
            self.remove(oldest);
        }
        let place = self.free.pop().unwrap_or(self.entries.len() as u32);
        self.places.insert(session, place);
        place
    }

    fn unlink(&mut self, place: u32) {
        let Some(&Entry { older, newer, .. }) = self.entries.get(place as usize) else { return };
        match self.entries.get_mut(older as usize) {
            Some(entry) => entry.newer = newer,
            None => self.oldest = newer,
        }
        match self.entries.get_mut(newer as usize) {
            Some(entry) => entry.older = older,
            None => self.newest = older,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn id(slot: u32) -> EndpointId {
        EndpointId { slot, generation: 0 }
    }

    proptest! {
        #[test]
        fn it_is_a_list_ordered_by_last_use(
            calls in prop::collection::vec((0u64..8, 0u32..4, any::<bool>()), 0..200),
            capacity in 1usize..6,
        ) {
            let mut sessions = Sessions::new(capacity);
            let mut plain: Vec<(u64, u32)> = Vec::new();
            for (session, slot, put) in calls {
                plain.retain(|(known, _)| *known != session);
                if put {
                    sessions.put(session, id(slot));
                    if plain.len() == capacity {
                        plain.remove(0);
                    }
                    plain.push((session, slot));
                } else {
                    sessions.remove(session);
                }
                prop_assert_eq!(sessions.len(), plain.len());
                for session in 0..8 {
                    let want = plain.iter().find(|(known, _)| *known == session).map(|(_, slot)| id(*slot));
                    prop_assert_eq!(sessions.get(session), want);
                }
                prop_assert!(sessions.entries.len() <= capacity);
            }
        }
    }
}
