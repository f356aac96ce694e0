//! Few lanes, as a list.

use smallvec::SmallVec;

use super::Emit;
use crate::store::run::Cuts;

/// A lane that holds every block so far.
#[derive(Clone, Copy, Debug)]
pub(super) struct Few {
    pub(super) lane: u16,
    /// Where it ended to be ready to use, if only host memory went on.
    pub(super) ended: Option<u32>,
    /// What it has of the run at hand.
    pub(super) cuts: Cuts,
}

pub(super) type Fews = SmallVec<[Few; 24]>;

/// Goes past `common` blocks of a run that begins at block `at`.
pub(super) fn step(list: &mut Fews, emit: &mut Emit<'_>, at: u32, common: u32) {
    list.retain(|few| {
        let (ready, any) = (u32::from(few.cuts.ready), u32::from(few.cuts.any));
        match few.ended {
            None if ready >= common => return true,
            None if any >= common => {
                few.ended = Some(at + ready);
                return true;
            }
            None => emit.emit(few.lane, at + ready, at + any),
            Some(_) if any >= common => return true,
            Some(ended) => emit.emit(few.lane, ended, at + any),
        }
        false
    });
}
