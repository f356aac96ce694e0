//! Holds: what one lane has of one run, and why.
//!
//! One unit each, for the writer alone:
//!
//! | half | content |
//! |---|---|
//! | 0 | run |
//! | 1 | lane (16 bits), flags (16 bits) |
//! | 2–5 | confirmed blocks of the run in the accelerator's memory, in the host's: one bit each |
//! | 6 | requests in flight with the whole run |
//! | 7 | when it was last used, see [`tick_of`](super::tick_of) |
//! | 8, 9 | next and previous hold of the run |
//! | 10, 11 | newer and older hold in its lane's list |
//! | 12, 13 | parent and first child in the tree of committed holds |
//! | 14, 15 | next and previous child of its parent |

use crate::store::Unit;
use crate::store::run::Cuts;

pub(crate) const RUN: usize = 0;
const LANE: usize = 1;
pub(crate) const GPU: usize = 1;
pub(crate) const HOST: usize = 2;
pub(crate) const REFS: usize = 6;
pub(crate) const TICK: usize = 7;
pub(crate) const RUN_NEXT: usize = 8;
pub(crate) const RUN_PREV: usize = 9;
pub(crate) const NEWER: usize = 10;
pub(crate) const OLDER: usize = 11;
pub(crate) const PARENT: usize = 12;
pub(crate) const CHILD: usize = 13;
pub(crate) const SIBLING: usize = 14;
pub(crate) const SIBLING_PREV: usize = 15;

const COMMITTED: u32 = 1 << 16;
const RESTORED: u32 = 1 << 17;

pub(crate) fn init(hold: &Unit, run: u32, lane: u16) {
    hold.set_half(RUN, run);
    hold.set_half(LANE, u32::from(lane));
}

pub(crate) fn lane(hold: &Unit) -> u16 {
    hold.half(LANE) as u16
}

pub(crate) fn is_committed(hold: &Unit) -> bool {
    hold.half(LANE) & COMMITTED != 0
}

pub(crate) fn is_restored(hold: &Unit) -> bool {
    hold.half(LANE) & RESTORED != 0
}

pub(crate) fn set_committed(hold: &Unit, on: bool) {
    set(hold, COMMITTED, on);
}

pub(crate) fn set_restored(hold: &Unit, on: bool) {
    set(hold, RESTORED, on);
}

fn set(hold: &Unit, flag: u32, on: bool) {
    let flags = hold.half(LANE) & !flag;
    hold.set_half(LANE, if on { flags | flag } else { flags });
}

pub(crate) fn refs(hold: &Unit) -> u32 {
    hold.half(REFS)
}

/// Whether nothing speaks for the hold any more.
pub(crate) fn is_empty(hold: &Unit) -> bool {
    refs(hold) == 0 && !is_committed(hold) && hold.get(GPU) == 0 && hold.get(HOST) == 0
}

/// The lowest `len` bits.
pub(crate) fn ones(len: usize) -> u64 {
    if len >= 64 { u64::MAX } else { (1 << len) - 1 }
}

/// How far the hold reaches from the start of its run of `len` blocks.
pub(crate) fn cuts(hold: &Unit, len: usize) -> Cuts {
    if refs(hold) > 0 || is_committed(hold) {
        return Cuts { ready: len as u8, any: len as u8 };
    }
    let reach = |mask: u64| mask.trailing_ones().min(len as u32) as u8;
    let gpu = hold.get(GPU);
    Cuts { ready: reach(gpu), any: reach(gpu | hold.get(HOST)) }
}
