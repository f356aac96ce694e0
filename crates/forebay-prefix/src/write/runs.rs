//! Making, splitting, joining and freeing runs.

use smallvec::SmallVec;

use super::{Writer, hold};
use crate::store::run;
use crate::store::{Store, set};

impl Writer {
    /// A run of as many of `hashes` as fit, none of which is in the index. No
    /// reader sees a holder before one is shown. `None` when there is no room.
    pub(crate) fn new_run(&mut self, store: &Store, hashes: &[u64]) -> Option<u32> {
        let id = self.memory.take(&store.arena)?;
        let record = store.unit(id);
        record.set_release(0, store.next_version());
        run::write(store, record, || run::push(store, &mut self.memory, record, hashes));
        self.stats.runs += 1;
        self.index_blocks(store, id, 0);
        if run::len(record) == 0 {
            self.free_run(store, id);
            return None;
        }
        Some(id)
    }

    /// Enters the blocks from `from` on into the table; where there is no room
    /// the run ends.
    fn index_blocks(&mut self, store: &Store, id: u32, from: usize) {
        let record = store.unit(id);
        for at in from..run::len(record) {
            let hash = run::hash(store, record, at);
            if !store.blocks.insert(&store.arena, &mut self.memory, hash, id, at) {
                run::write(store, record, || {
                    run::truncate(store, &mut self.memory, record, at);
                    self.show_again(store, id);
                });
                return;
            }
        }
    }

    /// Adds blocks behind a run; the number of those added.
    pub(crate) fn extend_run(&mut self, store: &Store, id: u32, hashes: &[u64]) -> usize {
        let record = store.unit(id);
        let old = run::len(record);
        // Whoever held all of it holds only a part of it now.
        run::write(store, record, || {
            run::push(store, &mut self.memory, record, hashes);
            self.show_again(store, id);
        });
        self.index_blocks(store, id, old);
        run::len(record) - old
    }

    /// Shows every holder of the run anew. Part of a write.
    fn show_again(&mut self, store: &Store, id: u32) {
        let record = store.unit(id);
        set::free(&store.arena, &mut self.memory, record.get(run::SET));
        record.set(run::SET, 0);
        self.free_extra(store, id);
        let mut at = run::head(record);
        while at != 0 {
            self.show_hold(store, record, at);
            at = store.unit(at).half(hold::RUN_NEXT);
        }
    }

    fn free_extra(&mut self, store: &Store, id: u32) {
        let record = store.unit(id);
        let extra = run::extra(record);
        if extra != 0 {
            set::free(&store.arena, &mut self.memory, store.unit(extra).get(run::HOST_SET));
            self.memory.give(&store.arena, extra);
            run::set_extra(record, 0);
        }
        run::set_partials(record, 0);
    }

    /// Units that [`split`](Self::split) wants to be free.
    pub(crate) fn split_needs(&self, store: &Store, id: u32) -> usize {
        run::count(store.unit(id)) as usize * 2 + 96
    }

    /// Cuts a run in two at `at`, 1 to its length − 1. False when there is no
    /// room: then nothing has changed.
    pub(crate) fn split(&mut self, store: &Store, id: u32, at: usize) -> bool {
        let record = store.unit(id);
        let len = run::len(record);
        if at == 0 || at >= len || self.memory.available() < self.split_needs(store, id) {
            return false;
        }
        let Some(tail) = self.memory.take(&store.arena) else { return false };
        let second = store.unit(tail);
        let mut hashes = [0; run::MAX];
        (at..len).for_each(|i| hashes[i - at] = run::hash(store, record, i));
        second.set_release(0, store.next_version());
        run::write(store, second, || run::push(store, &mut self.memory, second, &hashes[..len - at]));
        self.stats.runs += 1;
        let mut holder = run::head(record);
        while holder != 0 {
            let next = store.unit(holder).half(hold::RUN_NEXT);
            self.split_hold(store, holder, tail, at, len);
            holder = next;
        }
        run::write(store, second, || self.show_again(store, tail));
        // The second run is whole: now its blocks lead to it, then the first shrinks.
        for i in at..len {
            store.blocks.replace(&store.arena, hashes[i - at], (id, i), (tail, i - at));
        }
        self.shorten(store, id, at);
        if run::head(second) == 0 {
            self.free_run(store, tail);
        }
        self.drop_empty_holds(store, id);
        true
    }

    /// Drops the blocks from `at` on. Who held the whole run holds the whole of
    /// what is left, so that only the partial holders are shown anew: readers
    /// are held up no longer when there are many holders.
    fn shorten(&mut self, store: &Store, id: u32, at: usize) {
        let record = store.unit(id);
        let extra = store.unit(run::extra(record));
        let lanes: SmallVec<[u16; run::PARTIALS]> =
            (0..run::partials(record)).map(|i| run::unpack(extra.half(i)).0).collect();
        run::write(store, record, || {
            run::truncate(store, &mut self.memory, record, at);
            run::set_partials(record, 0);
            for lane in lanes {
                if let Some(holder) = self.find_hold(store, id, lane) {
                    self.show_hold(store, record, holder);
                }
            }
        });
    }

    /// Gives the holder of a run that is being split its part of the second half.
    fn split_hold(&mut self, store: &Store, first: u32, tail: u32, at: usize, len: usize) {
        let head = store.unit(first);
        let (gpu, host) = (head.get(hold::GPU) >> at, head.get(hold::HOST) >> at);
        let (refs, committed) = (hold::refs(head), hold::is_committed(head));
        let keep = hold::ones(at);
        head.set(hold::GPU, head.get(hold::GPU) & keep);
        head.set(hold::HOST, head.get(hold::HOST) & keep);
        if refs == 0 && !committed && gpu == 0 && host == 0 {
            return;
        }
        let Some(second) = self.hold(store, tail, hold::lane(head)) else { return };
        let unit = store.unit(second);
        unit.set(hold::GPU, gpu & hold::ones(len - at));
        unit.set(hold::HOST, host & hold::ones(len - at));
        unit.set_half(hold::REFS, refs);
        unit.set_half(hold::TICK, head.half(hold::TICK));
        self.list(unit).remove(store, second);
        hold::set_committed(unit, committed);
        hold::set_restored(unit, hold::is_restored(head));
        self.list(unit).insert_older(store, second, first);
        self.move_children(store, first, second);
        if committed {
            self.link(store, second, first);
        }
    }

    fn drop_empty_holds(&mut self, store: &Store, id: u32) {
        let record = store.unit(id);
        let mut holder = run::head(record);
        while holder != 0 {
            let next = store.unit(holder).half(hold::RUN_NEXT);
            self.drop_if_empty(store, holder);
            holder = next;
        }
    }

    /// Joins `second` to `first`, whose only continuation it is, when one lane
    /// holds both, committed and in no other way, and they fit into one run.
    pub(crate) fn join(&mut self, store: &Store, first: u32, second: u32) -> bool {
        let (a, b) = (store.unit(first), store.unit(second));
        let (old, more) = (run::len(a), run::len(b));
        if old + more > run::MAX || run::count(a) != 1 || run::count(b) != 1 {
            return false;
        }
        let (p, q) = (run::head(a), run::head(b));
        let (parent, child) = (store.unit(p), store.unit(q));
        let plain = |unit| {
            let masks = crate::store::Unit::get(unit, hold::GPU) | unit.get(hold::HOST);
            hold::is_committed(unit) && hold::refs(unit) == 0 && masks == 0
        };
        let only_child = parent.half(hold::CHILD) == q && child.half(hold::SIBLING) == 0;
        let restored = hold::is_restored(parent) || hold::is_restored(child);
        if !plain(parent) || !plain(child) || !only_child || restored {
            return false;
        }
        let mut hashes = [0; run::MAX];
        (0..more).for_each(|i| hashes[i] = run::hash(store, b, i));
        let added = run::write(store, a, || {
            let added = run::push(store, &mut self.memory, a, &hashes[..more]);
            if added < more {
                run::truncate(store, &mut self.memory, a, old);
            }
            added
        });
        if added < more {
            return false;
        }
        for (i, &hash) in hashes[..more].iter().enumerate() {
            store.blocks.replace(&store.arena, hash, (second, i), (first, old + i));
        }
        self.unlink(store, q);
        self.move_children(store, q, p);
        // Its blocks are counted with the first run from now on, and no longer
        // in the table under the second.
        run::write(store, b, || run::truncate(store, &mut self.memory, b, 0));
        self.drop_hold(store, q);
        true
    }

    /// Frees a run that nobody holds.
    pub(crate) fn free_run(&mut self, store: &Store, id: u32) {
        let record = store.unit(id);
        let mut hashes = [0; run::MAX];
        (0..run::len(record)).for_each(|at| hashes[at] = run::hash(store, record, at));
        store.warm_blocks(&hashes[..run::len(record)]);
        for (at, &hash) in hashes[..run::len(record)].iter().enumerate() {
            store.blocks.remove(&store.arena, &mut self.memory, hash, id, at);
        }
        run::write(store, record, || {
            run::truncate(store, &mut self.memory, record, 0);
            set::free(&store.arena, &mut self.memory, record.get(run::SET));
            record.set(run::SET, 0);
            self.free_extra(store, id);
        });
        self.memory.give(&store.arena, id);
        self.stats.runs = self.stats.runs.saturating_sub(1);
    }
}
