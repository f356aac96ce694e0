//! Many lanes, as bit sets.

use super::Emit;
use super::few::{Few, Fews};
use super::view::View;
use crate::store::run::Cuts;

/// The lanes that hold every block so far.
#[derive(Default, Debug)]
pub(super) struct Many {
    /// Those for which every block is ready to use.
    ready: Vec<u64>,
    /// Those for which that ended, and every block since is in either tier.
    behind: Vec<u64>,
    has_behind: bool,
    /// For each lane of `behind`: where it ended.
    ended: Vec<u32>,
    /// How many there are in all.
    pub(super) count: usize,
}

fn has(bits: &[u64], lane: u16) -> bool {
    bits.get(usize::from(lane >> 6)).is_some_and(|bits| bits >> (lane & 63) & 1 != 0)
}

fn add(bits: &mut [u64], lane: u16) {
    if let Some(bits) = bits.get_mut(usize::from(lane >> 6)) {
        *bits |= 1 << (lane & 63);
    }
}

/// Calls `f` with each lane of word number `word`.
#[inline]
fn each(word: usize, mut bits: u64, mut f: impl FnMut(u16)) {
    while bits != 0 {
        f((word * 64) as u16 + bits.trailing_zeros() as u16);
        bits &= bits - 1;
    }
}

impl Many {
    /// Begins with the holders of the first run.
    pub(super) fn start(&mut self, view: &mut View, emit: &mut Emit<'_>, common: u32) {
        let words = view.ready.len();
        self.ready.resize(words, 0);
        self.ready.copy_from_slice(&view.ready);
        self.behind.resize(words, 0);
        self.has_behind = view.has_host;
        if view.has_host {
            self.ended.resize(words * 64, 0);
            self.behind.copy_from_slice(&view.host);
            let Many { behind, ended, .. } = self;
            for (word, &bits) in behind.iter().enumerate() {
                each(word, bits, |lane| ended[usize::from(lane)] = 0);
            }
        } else {
            self.behind.fill(0);
        }
        for &(lane, cuts) in view.partials() {
            self.place(emit, lane, cuts, 0, common);
        }
        self.recount();
    }

    /// Goes past `common` blocks of a run that begins at block `at`.
    pub(super) fn step(&mut self, view: &View, emit: &mut Emit<'_>, at: u32, common: u32) {
        if self.has_behind {
            self.step_behind(view, emit, at, common);
        }
        for word in 0..self.ready.len() {
            let (before, whole) = (self.ready[word], view.ready.get(word).copied().unwrap_or(0));
            self.ready[word] = before & whole;
            if view.partial_count == 0 && !view.has_host {
                each(word, before & !whole, |lane| emit.emit_ready(lane, at));
                continue;
            }
            each(word, before & !whole, |lane| {
                let cuts =
                    view.partial(lane).unwrap_or_else(|| match view.has_host && has(&view.host, lane) {
                        true => Cuts { ready: 0, any: u8::MAX },
                        false => Cuts::default(),
                    });
                self.place(emit, lane, cuts, at, common);
            });
        }
        self.recount();
    }

    fn step_behind(&mut self, view: &View, emit: &mut Emit<'_>, at: u32, common: u32) {
        let Many { behind, ended, .. } = self;
        for (word, behind) in behind.iter_mut().enumerate() {
            let mut whole = view.ready.get(word).copied().unwrap_or(0);
            if view.has_host {
                whole |= view.host.get(word).copied().unwrap_or(0);
            }
            let mut keep = *behind & whole;
            each(word, *behind & !whole, |lane| {
                let any = view.partial(lane).map_or(0, |cuts| u32::from(cuts.any));
                if any >= common {
                    keep |= 1 << (lane & 63);
                } else {
                    emit.emit(lane, ended[usize::from(lane)], at + any);
                }
            });
            *behind = keep;
        }
    }

    /// Where a lane goes that was ready so far and has `cuts` of this run.
    fn place(&mut self, emit: &mut Emit<'_>, lane: u16, cuts: Cuts, at: u32, common: u32) {
        let (ready, any) = (u32::from(cuts.ready), u32::from(cuts.any));
        if ready >= common {
            add(&mut self.ready, lane);
        } else if any >= common {
            self.ended.resize(self.ready.len() * 64, 0);
            add(&mut self.behind, lane);
            if let Some(ended) = self.ended.get_mut(usize::from(lane)) {
                *ended = at + ready;
            }
            self.has_behind = true;
        } else {
            emit.emit(lane, at + ready, at + any);
        }
    }

    fn recount(&mut self) {
        let count = |bits: &[u64]| bits.iter().map(|bits| bits.count_ones() as usize).sum::<usize>();
        self.count = count(&self.ready);
        if self.has_behind {
            self.count += count(&self.behind);
        }
    }

    /// The lanes as a list.
    pub(super) fn drain_into(&mut self, few: &mut Fews) {
        few.clear();
        let cuts = Cuts::default();
        for (word, &bits) in self.ready.iter().enumerate() {
            each(word, bits, |lane| few.push(Few { lane, ended: None, cuts }));
        }
        if self.has_behind {
            for (word, &bits) in self.behind.iter().enumerate() {
                each(word, bits, |lane| {
                    few.push(Few { lane, ended: Some(self.ended[usize::from(lane)]), cuts });
                });
            }
        }
    }

    /// Everybody who is still in it holds `done` blocks.
    pub(super) fn finish(&mut self, emit: &mut Emit<'_>, done: u32) {
        emit.list.reserve(self.count);
        for (word, &bits) in self.ready.iter().enumerate() {
            each(word, bits, |lane| emit.emit_ready(lane, done));
        }
        if self.has_behind {
            for (word, &bits) in self.behind.iter().enumerate() {
                each(word, bits, |lane| emit.emit(lane, self.ended[usize::from(lane)], done));
            }
        }
    }
}
