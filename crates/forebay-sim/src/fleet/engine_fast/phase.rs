//! Steps of one composition, in closed form.
//!
//! From one change of the batch to the next every step computes the same kinds
//! of things and only the contexts grow, so that each step takes a constant
//! more than the one before and a sum over them is a quadratic.

/// What the steps of a phase compute beside the decoding streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Nothing.
    Decode,
    /// A whole chunk of the prompt that is being read, which needs more.
    Chunks(u32),
    /// The ends of prompts: always a single step.
    Joining,
}

/// Consecutive steps of one composition.
#[derive(Clone, Copy, Debug)]
pub(super) struct Phase {
    pub(super) kind: Kind,
    /// When the first step began, in nanoseconds.
    pub(super) start: u64,
    /// How many steps.
    pub(super) steps: u64,
    /// What the first step takes more than its composition says.
    extra: f64,
    /// The first step, in nanoseconds.
    first: f64,
    /// Each step takes so much more than the one before.
    growth: f64,
    /// When the last step ends.
    pub(super) end: u64,
}

impl Phase {
    /// `steps` steps from `start` on; all durations in nanoseconds.
    pub(super) fn new(kind: Kind, start: u64, steps: u64, first: f64, growth: f64, extra: f64) -> Phase {
        let mut phase = Phase { kind, start, steps: steps.max(1), extra, first, growth, end: start };
        phase.end = phase.end_of(phase.steps);
        phase
    }

    /// When the first `steps` steps are over. Time moves on by at least a
    /// nanosecond per step, also under a profile whose steps take nothing.
    fn end_of(&self, steps: u64) -> u64 {
        let n = steps as f64;
        let took = self.extra + n * self.first + self.growth * n * (n - 1.0) / 2.0;
        self.start.saturating_add((took.round() as u64).max(steps))
    }

    /// Steps that are over at `now`, never the last one.
    pub(super) fn over_by(&self, now: u64) -> u64 {
        let most = self.steps - 1;
        let elapsed = now.saturating_sub(self.start) as f64 - self.extra;
        if most == 0 || elapsed < self.first {
            return 0;
        }
        let (half, linear) = (self.growth / 2.0, self.first - self.growth / 2.0);
        let root = if half > 0.0 {
            ((linear * linear + 4.0 * half * elapsed).sqrt() - linear) / (2.0 * half)
        } else {
            elapsed / linear.max(1e-9)
        };
        let mut over = (root as u64).min(most);
        // Rounding may be off by one step either way.
        while over > 0 && self.end_of(over) > now {
            over -= 1;
        }
        while over < most && self.end_of(over + 1) <= now {
            over += 1;
        }
        over
    }

    /// The same phase without its first `over` steps and with one more only.
    pub(super) fn cut(&self, over: u64) -> Phase {
        let start = if over == 0 { self.start } else { self.end_of(over) };
        Phase {
            kind: self.kind,
            start,
            steps: 1,
            extra: if over == 0 { self.extra } else { 0.0 },
            first: self.first + self.growth * over as f64,
            growth: self.growth,
            end: self.end_of(over + 1),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cutting_loses_no_time() {
        let phase = Phase::new(Kind::Decode, 1_000, 10, 8_000.0, 100.0, 500.0);
        // 500 + 10·8000 + 100·45
        assert_eq!(phase.end, 1_000 + 500 + 80_000 + 4_500);
        for over in 0..9u64 {
            let cut = phase.cut(over);
            assert_eq!(phase.over_by(cut.end), (over + 1).min(9));
            assert_eq!(phase.over_by(cut.end - 1), over);
            assert_eq!(cut.steps, 1);
        }
        assert_eq!(phase.cut(9).end, phase.end);
        assert_eq!(phase.over_by(0), 0);
        let constant = Phase::new(Kind::Decode, 0, 4, 10.0, 0.0, 0.0);
        assert_eq!((constant.over_by(25), constant.over_by(1_000)), (2, 3));
    }
}
