//! The look-up: along the runs of a chain, with the lanes that are still in it.
//!
//! Readers take no lock. Each run is read under its version; a walk that met
//! something in change starts again, and after a few tries answers with what it
//! has, which is never more than was held.

mod few;
mod many;
mod view;

use crate::Match;
use crate::store::Store;
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
        while done < chain.len() {
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
