//! Making and dropping holds, and telling readers what changed.

use super::{Writer, hold};
use crate::store::run::{self, Cuts};
use crate::store::{Store, Unit, set};

/// Where a run's record shows a holder.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Shown {
    Nowhere,
    Ready,
    Host,
    Partial(Cuts),
}

fn shown(cuts: Cuts, len: usize) -> Shown {
    let len = len as u8;
    match cuts {
        Cuts { any: 0, .. } => Shown::Nowhere,
        Cuts { ready, .. } if ready == len => Shown::Ready,
        Cuts { ready: 0, any } if any == len => Shown::Host,
        cuts => Shown::Partial(cuts),
    }
}

/// What a hold is found by: the pair, mixed.
fn key(run: u32, lane: u16) -> u64 {
    (u64::from(run) << 16 | u64::from(lane)).wrapping_mul(0xD6E8_FEB8_6659_FD93)
}

impl Writer {
    pub(crate) fn find_hold(&self, store: &Store, run: u32, lane: u16) -> Option<u32> {
        let found = self.holds.find(&store.arena, key(run, lane), |id, _| {
            let unit = store.unit(id);
            unit.half(hold::RUN) == run && hold::lane(unit) == lane
        });
        found.map(|(id, _)| id)
    }

    /// The hold of `lane` on `run`; a new one is the newest of its list, empty
    /// and not yet shown to readers. `None` when there is no room.
    pub(crate) fn hold(&mut self, store: &Store, run: u32, lane: u16) -> Option<u32> {
        if let Some(id) = self.find_hold(store, run, lane) {
            return Some(id);
        }
        let id = self.memory.take(&store.arena)?;
        if !self.holds.insert(&store.arena, &mut self.memory, key(run, lane), id, 0) {
            self.memory.give(&store.arena, id);
            return None;
        }
        let (unit, record) = (store.unit(id), store.unit(run));
        hold::init(unit, run, lane);
        let first = run::head(record);
        unit.set_half(hold::RUN_NEXT, first);
        if first != 0 {
            store.unit(first).set_half(hold::RUN_PREV, id);
        }
        run::set_head(record, id);
        run::set_count(record, run::count(record) + 1);
        self.lanes[usize::from(lane)].others.push(store, id);
        Some(id)
    }

    /// Changes what speaks for a hold and shows readers the difference. May split
    /// the run: `id` is then the hold of its first part.
    pub(crate) fn change(&mut self, store: &Store, id: u32, change: impl FnOnce(&Unit)) {
        let unit = store.unit(id);
        let record = store.unit(unit.half(hold::RUN));
        let len = run::len(record);
        let before = shown(hold::cuts(unit, len), len);
        change(unit);
        let after = shown(hold::cuts(unit, len), len);
        let lane = hold::lane(unit);
        match (before, after) {
            (before, after) if before == after => {}
            // One store: readers see it or do not, and are not held up.
            (Shown::Nowhere, Shown::Ready) => self.show(store, record, lane, after),
            (Shown::Ready, Shown::Nowhere) => self.hide(store, record, lane, before),
            _ => run::write(store, record, || {
                self.hide(store, record, lane, before);
                self.show(store, record, lane, after);
            }),
        }
        if before != after && matches!(after, Shown::Partial(_)) {
            self.relieve(store, unit.half(hold::RUN));
        }
    }

    /// Splits a run whose list of partial holders is full where half of them
    /// end: both parts have fewer.
    fn relieve(&mut self, store: &Store, run_id: u32) {
        let record = store.unit(run_id);
        if run::partials(record) < run::PARTIALS || run::len(record) < 2 {
            return;
        }
        let extra = store.unit(run::extra(record));
        let mut ends = [0u8; run::PARTIALS];
        for (at, end) in ends.iter_mut().enumerate() {
            let (_, cuts) = run::unpack(extra.half(at));
            *end = if cuts.ready > 0 { cuts.ready } else { cuts.any };
        }
        ends.sort_unstable();
        let at = usize::from(ends[run::PARTIALS / 2]).clamp(1, run::len(record) - 1);
        self.split(store, run_id, at);
    }

    /// Shows a hold of a run whose record does not show it yet. Part of a write.
    pub(crate) fn show_hold(&mut self, store: &Store, record: &Unit, id: u32) {
        let (unit, len) = (store.unit(id), run::len(record));
        self.show(store, record, hold::lane(unit), shown(hold::cuts(unit, len), len));
    }

    /// Without memory or room for it the holder stays unseen: it is thought to
    /// hold less than it does.
    fn show(&mut self, store: &Store, record: &Unit, lane: u16, at: Shown) {
        match at {
            Shown::Nowhere => {}
            Shown::Ready => {
                let word = record.get(run::SET);
                if let Some(word) = set::insert(&store.arena, &mut self.memory, word, lane) {
                    record.set_release(run::SET, word);
                }
            }
            Shown::Host => {
                let Some(extra) = self.extra(store, record) else { return };
                let word = extra.get(run::HOST_SET);
                if let Some(word) = set::insert(&store.arena, &mut self.memory, word, lane) {
                    extra.set(run::HOST_SET, word);
                }
            }
            Shown::Partial(cuts) => {
                let Some(extra) = self.extra(store, record) else { return };
                let count = run::partials(record);
                if count < run::PARTIALS {
                    extra.set_half(count, run::pack(lane, cuts));
                    run::set_partials(record, count + 1);
                }
            }
        }
    }

    fn hide(&mut self, store: &Store, record: &Unit, lane: u16, at: Shown) {
        let extra = store.unit(run::extra(record));
        match at {
            Shown::Nowhere => {}
            Shown::Ready => {
                let word = record.get(run::SET);
                record.set_release(run::SET, set::remove(&store.arena, word, lane));
            }
            Shown::Host if run::extra(record) != 0 => {
                let word = extra.get(run::HOST_SET);
                extra.set(run::HOST_SET, set::remove(&store.arena, word, lane));
            }
            Shown::Partial(_) => {
                let count = run::partials(record);
                if let Some(at) = (0..count).find(|&at| run::unpack(extra.half(at)).0 == lane) {
                    extra.set_half(at, extra.half(count - 1));
                    run::set_partials(record, count - 1);
                }
            }
            Shown::Host => {}
        }
        let is_idle = run::partials(record) == 0 && extra.get(run::HOST_SET) == 0;
        if at != Shown::Ready && run::extra(record) != 0 && is_idle {
            self.memory.give(&store.arena, run::extra(record));
            run::set_extra(record, 0);
        }
    }

    fn extra<'a>(&mut self, store: &'a Store, record: &Unit) -> Option<&'a Unit> {
        if run::extra(record) == 0 {
            run::set_extra(record, self.memory.take(&store.arena)?);
        }
        Some(store.unit(run::extra(record)))
    }

    /// Drops a hold for which nothing speaks any more, and its run when it was
    /// the last. It must be out of the tree.
    pub(crate) fn drop_hold(&mut self, store: &Store, id: u32) {
        let unit = store.unit(id);
        let (run_id, lane) = (unit.half(hold::RUN), hold::lane(unit));
        self.list(unit).remove(store, id);
        self.holds.remove(&store.arena, &mut self.memory, key(run_id, lane), id, 0);
        let record = store.unit(run_id);
        let (next, prev) = (unit.half(hold::RUN_NEXT), unit.half(hold::RUN_PREV));
        match prev {
            0 => run::set_head(record, next),
            prev => store.unit(prev).set_half(hold::RUN_NEXT, next),
        }
        if next != 0 {
            store.unit(next).set_half(hold::RUN_PREV, prev);
        }
        run::set_count(record, run::count(record).saturating_sub(1));
        self.memory.give(&store.arena, id);
        if run::head(record) == 0 {
            self.free_run(store, run_id);
        }
    }

    /// [`drop_hold`](Self::drop_hold) if nothing speaks for it.
    pub(crate) fn drop_if_empty(&mut self, store: &Store, id: u32) {
        if hold::is_empty(store.unit(id)) {
            self.drop_hold(store, id);
        }
    }
}
