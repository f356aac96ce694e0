//! Reading one run while it may change.

use std::sync::atomic::{Ordering, fence};

use super::FEW;
use super::few::{Few, Fews};
use crate::store::run::{self, Cuts};
use crate::store::{Store, Unit, set};

/// Tries before a run in change is given up for this walk: a change takes well
/// under a microsecond unless its thread was put to sleep in the middle.
const TRIES: usize = 64;

/// What the table knows of a block where a run should begin.
pub(super) enum Found {
    Run(u32),
    /// Nobody holds it.
    Nothing,
    /// It is inside a run: runs were joined or cut just now.
    Torn,
}

#[inline]
pub(super) fn find(store: &Store, hash: u64) -> Found {
    match store.find(hash) {
        Some((id, 0)) => Found::Run(id),
        Some(_) => Found::Torn,
        None => Found::Nothing,
    }
}

/// A run as it was at one moment.
#[derive(Default, Debug)]
pub(super) struct View {
    /// The holders of the whole run are in `ready` and `host`, as bits.
    pub(super) is_many: bool,
    pub(super) ready: Vec<u64>,
    pub(super) host: Vec<u64>,
    pub(super) has_host: bool,
    pub(super) partials: [(u16, Cuts); run::PARTIALS],
    pub(super) partial_count: usize,
}

impl View {
    /// Makes room for bit sets of `words` words.
    pub(super) fn fit(&mut self, words: usize) {
        if self.ready.len() != words {
            self.ready.resize(words, 0);
            self.host.resize(words, 0);
        }
    }

    pub(super) fn partials(&self) -> &[(u16, Cuts)] {
        &self.partials[..self.partial_count]
    }

    /// What a lane has of the run if it is among the partial holders.
    pub(super) fn partial(&self, lane: u16) -> Option<Cuts> {
        self.partials().iter().find(|(l, _)| *l == lane).map(|(_, cuts)| *cuts)
    }

    /// The first run of a chain: its holders into `few`, or as bits when they
    /// are many. The blocks that it has in common with `chain`.
    pub(super) fn read_first(
        &mut self,
        store: &Store,
        run: &Unit,
        chain: &[u64],
        few: &mut Fews,
    ) -> Option<u32> {
        stable(store, run, chain, |len, word, host| {
            // An earlier try may have left something.
            few.clear();
            self.read_partials(store, run);
            self.is_many = !set::is_small(word) || !set::is_small(host);
            if self.is_many {
                self.read_bits(store, word, host);
                return;
            }
            let whole = |ready, any| move |lane| Few { lane, ended: None, cuts: Cuts { ready, any } };
            few.extend(set::small(word).map(whole(len, len)));
            few.extend(set::small(host).map(whole(0, len)));
            few.extend(self.partials().iter().map(|&(lane, cuts)| Few { lane, ended: None, cuts }));
        })
    }

    /// A further run: its holders as bits.
    pub(super) fn read_many(&mut self, store: &Store, run: &Unit, chain: &[u64]) -> Option<u32> {
        stable(store, run, chain, |_, word, host| {
            self.read_partials(store, run);
            self.read_bits(store, word, host);
        })
    }

    /// A further run: what each lane of `few` has of it.
    pub(super) fn read_few(
        &mut self,
        store: &Store,
        run: &Unit,
        chain: &[u64],
        few: &mut Fews,
    ) -> Option<u32> {
        debug_assert!(few.len() <= FEW + run::PARTIALS);
        stable(store, run, chain, |len, word, host| {
            self.read_partials(store, run);
            for few in few.iter_mut() {
                few.cuts = if set::contains(&store.arena, word, few.lane) {
                    Cuts { ready: len, any: len }
                } else if let Some(cuts) = self.partial(few.lane) {
                    cuts
                } else if host != 0 && set::contains(&store.arena, host, few.lane) {
                    Cuts { ready: 0, any: len }
                } else {
                    Cuts::default()
                };
            }
        })
    }

    fn read_partials(&mut self, store: &Store, run: &Unit) {
        self.partial_count = run::partials(run);
        if self.partial_count > 0 {
            let extra = store.unit(run::extra(run));
            for (at, partial) in self.partials[..self.partial_count].iter_mut().enumerate() {
                *partial = run::unpack(extra.half(at));
            }
        }
    }

    fn read_bits(&mut self, store: &Store, word: u64, host: u64) {
        set::copy(&store.arena, word, &mut self.ready);
        if host != 0 || self.has_host {
            set::copy(&store.arena, host, &mut self.host);
        }
        self.has_host = host != 0;
    }
}

/// Calls `read` with the run's length and the words of its two sets until that
/// was done without a change in between. The blocks in common with `chain`, at
/// least 1; `None` when the run kept changing or is not what it was.
#[inline]
fn stable(store: &Store, run: &Unit, chain: &[u64], mut read: impl FnMut(u8, u64, u64)) -> Option<u32> {
    for _ in 0..TRIES {
        let version = run.get_acquire(0);
        if version & 1 == 0 {
            let common = common(store, run, chain);
            let host = match run::extra(run) {
                0 => 0,
                extra => store.unit(extra).get(run::HOST_SET),
            };
            read(run::len(run) as u8, run.get_acquire(run::SET), host);
            fence(Ordering::Acquire);
            if run.get(0) == version {
                return (common > 0).then_some(common as u32);
            }
        }
        std::hint::spin_loop();
    }
    None
}

/// How many blocks of the run are the first of `chain`. An element stands for
/// all before it, so that equality at one place is equality up to there.
#[inline]
fn common(store: &Store, run: &Unit, chain: &[u64]) -> usize {
    let most = run::len(run).min(chain.len());
    let is_same = |at: usize| run::hash(store, run, at) == chain[at];
    if most == 0 || !is_same(0) {
        return 0;
    }
    if is_same(most - 1) {
        return most;
    }
    let (mut same, mut other) = (0, most - 1);
    while other - same > 1 {
        let middle = same.midpoint(other);
        if is_same(middle) { same = middle } else { other = middle }
    }
    other
}
