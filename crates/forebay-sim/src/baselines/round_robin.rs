//! Each endpoint in turn: nginx's default, and everybody's first one.

use rand_pcg::Pcg64Mcg;

use super::{Knob, Knobs, Rival, View};

pub(super) const KNOBS: &[Knob] = &[];

pub(super) fn make(_: &Knobs) -> RoundRobin {
    RoundRobin { next: 0 }
}

pub(super) struct RoundRobin {
    next: u64,
}

impl Rival for RoundRobin {
    fn pick(&mut self, view: &View<'_>, _: &mut Pcg64Mcg) -> Option<u32> {
        let at = self.next % view.candidates.len().max(1) as u64;
        self.next += 1;
        view.candidates.get(at as usize).copied()
    }
}
