//! How far apart the events of a stream came.

use std::cell::RefCell;
use std::time::Duration;

/// Width of one step, and how many there are: up to a tenth of a second, which
/// counts for everything longer.
const STEP: Duration = Duration::from_micros(20);
const STEPS: usize = 5_000;

/// A count of gaps by length.
#[derive(Debug)]
pub(crate) struct Gaps(RefCell<Vec<u64>>);

impl Default for Gaps {
    fn default() -> Gaps {
        Gaps(RefCell::new(vec![0; STEPS]))
    }
}

impl Gaps {
    pub(crate) fn one(&self, gap: Duration) {
        let step = (gap.as_nanos() / STEP.as_nanos()) as usize;
        self.0.borrow_mut()[step.min(STEPS - 1)] += 1;
    }

    /// Begins anew.
    pub(crate) fn clear(&self) {
        self.0.borrow_mut().fill(0);
    }

    /// The gap that 99 of 100 did not exceed; `None` without any.
    pub(crate) fn p99(&self) -> Option<Duration> {
        let counts = self.0.borrow();
        let total: u64 = counts.iter().sum();
        let mut left = (total - total / 100).max(1);
        let step = counts.iter().position(|&count| {
            let reached = left <= count;
            left = left.saturating_sub(count);
            reached
        });
        step.map(|step| STEP * (step as u32 + 1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_of_a_hundred_may_be_longer() {
        let gaps = Gaps::default();
        assert_eq!(gaps.p99(), None);
        (0..99).for_each(|_| gaps.one(Duration::from_millis(10)));
        gaps.one(Duration::from_secs(5));
        assert_eq!(gaps.p99(), Some(Duration::from_micros(10_020)));
        gaps.one(Duration::from_secs(5));
        assert_eq!(gaps.p99(), Some(Duration::from_millis(100)), "everything longer is the last step");
        gaps.clear();
        assert_eq!(gaps.p99(), None);
    }
}
