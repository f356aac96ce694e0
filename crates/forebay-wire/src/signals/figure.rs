//! One figure, brought together over the series of a page.

use super::sources::{Field, Join};

/// How far past 1 rounding may carry a ratio.
const RATIO_SLACK: f64 = 1e-6;

/// `value` when it can be true for `field`.
pub(super) fn usable(field: Field, value: f64) -> Option<f64> {
    let limit = field.limit();
    let slack = if limit == 1.0 { RATIO_SLACK } else { 0.0 };
    // False for NaN.
    (field.floor()..=limit + slack).contains(&value).then(|| value.min(limit))
}

/// Values so far.
#[derive(Clone, Copy, Debug, Default)]
struct Partial {
    value: f64,
    count: u32,
    /// Some series had a value that means nothing; then the figure is unknown,
    /// because a part of a sum is not a small sum.
    bad: bool,
}

impl Partial {
    fn add(&mut self, value: Option<f64>, join: Join) {
        let Some(value) = value else {
            self.bad = true;
            return;
        };
        self.value = match join {
            _ if self.count == 0 => value,
            Join::Sum | Join::Mean => self.value + value,
            Join::Max => self.value.max(value),
            Join::Min => self.value.min(value),
        };
        self.count += 1;
    }

    fn joined(self, other: Self, join: Join) -> Self {
        let mut both = self;
        if other.count > 0 {
            both.add(Some(other.value), join);
            both.count = self.count + other.count;
        }
        both.bad |= other.bad;
        both
    }
}

/// Values of the wanted model and those of others, apart: which of them count
/// is known only at the end of the page.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Figure {
    own: Partial,
    others: Partial,
}

impl Figure {
    /// Takes one series' value in; none for one that means nothing.
    pub(super) fn add(&mut self, value: Option<f64>, own: bool, join: Join) {
        let side = if own { &mut self.own } else { &mut self.others };
        side.add(value, join);
    }

    /// The figure, over the wanted model alone or over all; none when no
    /// series told of it, and `Some(None)` when one told nonsense.
    pub(super) fn get(self, own_only: bool, join: Join) -> Option<Option<f64>> {
        let Partial { value, count, bad } =
            if own_only { self.own } else { self.own.joined(self.others, join) };
        match (count, bad) {
            (_, true) => Some(None),
            (0, false) => None,
            (_, false) if join == Join::Mean => Some(Some(value / f64::from(count))),
            (_, false) => Some(Some(value)),
        }
    }
}
