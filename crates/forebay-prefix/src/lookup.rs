//! The look-up: along the runs of a chain, with the lanes that are still in it.
//!
//! Readers take no lock. Each run is read under its version; a walk that met
//! something in change starts again, and after a few tries answers with what it
//! has, which is never more than was held.

mod few;
mod many;
mod view;

use crate::Match;
use crate::store::{AHEAD, Store, run};
use few::Fews;
use many::Many;
use view::{Found, View, find};

/// Walks before an answer is given with what the last one found.
const WALKS: usize = 4;
/// Up to this many lanes are kept as a list, more as a bit set.
const FEW: usize = 16;

/// Buffers that a look-up uses again.
#[derive(Default, Debug)]
pub(crate) struct Scratch {
    view: View,
    few: Fews,
    many: Many,
}

/// Brings the next runs of a long chain near while there is something to do.
#[derive(Default)]
struct Ahead {
    from: usize,
    to: usize,
    /// Times that the runs did not begin where they were looked for.
    missed: usize,
}

impl Ahead {
    /// After so many the runs of this chain are taken to be of all lengths.
    const MISSES: usize = 4;

    #[inline]
    fn look(&mut self, store: &Store, chain: &[u64], done: usize) {
        if chain.len() - done < 2 * run::MAX {
            return;
        }
        let is_off = done < self.to && !(done - self.from).is_multiple_of(run::MAX);
        self.missed += usize::from(is_off);
        if (is_off && self.missed <= Self::MISSES) || done >= self.to {
            store.warm_runs(&chain[done..]);
            (self.from, self.to) = (done, done + AHEAD * run::MAX);
        }
    }
}

/// Takes note of what a lane holds.
struct Emit<'a> {
    store: &'a Store,
    list: &'a mut Vec<Match>,
}

impl Emit<'_> {
    /// `ready` blocks from the start, `any` with those in host memory.
    #[inline]
    fn emit(&mut self, lane: u16, ready: u32, any: u32) {
        if any == 0 {
            return;
        }
        let Some(owner) = self.store.lanes.owner(lane) else { return };
        let blocks = owner.worth(ready);
        let host_blocks = owner.worth(any) - blocks;
        if blocks > 0 || host_blocks > 0 {
            self.list.push(Match { endpoint: owner.endpoint, blocks, host_blocks });
        }
    }

    /// `done` blocks, all ready to use.
    #[inline]
    fn emit_ready(&mut self, lane: u16, done: u32) {
        if let Some(owner) = self.store.lanes.owner(lane) {
            let blocks = owner.worth(done);
            if blocks > 0 {
                self.list.push(Match { endpoint: owner.endpoint, blocks, host_blocks: 0 });
            }
        }
    }
}

pub(crate) fn lookup(store: &Store, chain: &[u64], out: &mut crate::Matches) {
    let crate::Matches { list, scratch } = out;
    for walk in 1..=WALKS {
        list.clear();
        let reused = store.lanes.reused();
        let is_whole = scratch.walk(Emit { store, list }, chain, walk == WALKS);
        if is_whole && reused == store.lanes.reused() {
            return;
        }
    }
    // Only a lane that changed hands in this very moment can be named wrongly.
}

impl Scratch {
    /// False when something changed under the walk; the last one goes as far
    /// as it gets.
    fn walk(&mut self, mut emit: Emit<'_>, chain: &[u64], is_last: bool) -> bool {
        let store = emit.store;
        let (mut done, mut is_many) = (0, false);
        self.few.clear();
        self.view.fit(store.lanes.words());
        let mut ahead = Ahead::default();
        while done < chain.len() {
            ahead.look(store, chain, done);
            let id = match find(store, chain[done]) {
                Found::Run(id) => id,
                Found::Nothing => break,
                Found::Torn if is_last => break,
                Found::Torn => return false,
            };
            let (run, rest) = (store.unit(id), &chain[done..]);
            let read = match (done, is_many) {
                (0, _) => self.view.read_first(store, run, rest, &mut self.few),
                (_, true) => self.view.read_many(store, run, rest),
                (_, false) => self.view.read_few(store, run, rest, &mut self.few),
            };
            let Some(common) = read else {
                if is_last {
                    break;
                }
                return false;
            };
            let at = done as u32;
            if done == 0 && self.view.is_many {
                is_many = true;
                self.many.start(&mut self.view, &mut emit, common);
            } else if is_many {
                self.many.step(&self.view, &mut emit, at, common);
            } else {
                few::step(&mut self.few, &mut emit, at, common);
            }
            if is_many && self.many.count <= FEW {
                is_many = false;
                self.many.drain_into(&mut self.few);
            }
            done += common as usize;
            if !is_many && self.few.is_empty() {
                return true;
            }
        }
        let done = done as u32;
        if is_many {
            self.many.finish(&mut emit, done);
        }
        self.few.drain(..).for_each(|few| emit.emit(few.lane, few.ended.unwrap_or(done), done));
        true
    }
}
