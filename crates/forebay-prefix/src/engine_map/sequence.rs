//! Were batches missed?
//!
//! A publisher numbers its batches from 0 and forgets subscribers that are
//! gone or slow, so numbers are the only sign of loss. A number that does not
//! grow is the sign of another process under the same address.

/// What to do about a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// It is the next one.
    Apply,
    /// It was applied already, out of a replay.
    Duplicate,
    /// Batches from this number on are missing. Ask for them; the batch that
    /// showed the gap comes after them.
    Gap {
        /// The first missing number.
        from: u64,
    },
    /// The numbers began anew: the engine restarted. Forget what it held, and
    /// ask about the same batch again.
    Restart,
}

/// The numbers of one publisher's batches.
///
/// A new one expects number 0, as one of an engine that has just started does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sequence {
    /// The number that comes next.
    next: u64,
    /// The last one that was published on this connection.
    published: Option<u64>,
    /// One more than the last one that a replay brought on this connection.
    replayed: u64,
}

impl Sequence {
    /// The number that is expected next: how many batches there were before.
    pub fn next(&self) -> u64 {
        self.next
    }

    /// A batch was published with number `seq`.
    pub fn published(&mut self, seq: u64) -> Step {
        let backwards = self.published.is_some_and(|last| seq <= last);
        if backwards || (seq < self.next && seq >= self.replayed) {
            *self = Sequence::default();
            return Step::Restart;
        }
        if seq > self.next {
            return Step::Gap { from: self.next };
        }
        self.published = Some(seq);
        if seq < self.next {
            return Step::Duplicate;
        }
        self.next = seq.saturating_add(1);
        Step::Apply
    }

    /// A replay brought the batch with number `seq`. A [`Step::Gap`] here is
    /// one for good: the engine no longer has what came before.
    pub fn replayed(&mut self, seq: u64) -> Step {
        if seq > self.next {
            return Step::Gap { from: self.next };
        }
        self.replayed = self.replayed.max(seq.saturating_add(1));
        if seq < self.next {
            return Step::Duplicate;
        }
        self.next = seq.saturating_add(1);
        Step::Apply
    }

    /// Gives up what is missing before `seq`, which is expected next.
    pub fn skip_to(&mut self, seq: u64) {
        self.next = self.next.max(seq);
    }

    /// The connection is a new one: what is published on it may be the work of
    /// another process, and tells when it begins with a number that was seen.
    pub fn reconnected(&mut self) {
        self.published = None;
        self.replayed = 0;
    }

    /// The publisher is known to be another one: expect number 0.
    pub fn restart(&mut self) {
        *self = Sequence::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Publishes numbers and compares what is to be done: `.` apply,
    /// `=` duplicate, `R` restart, a digit for a gap from there.
    fn check(sequence: &mut Sequence, seqs: &[u64], expect: &str) {
        let steps = seqs.iter().map(|&seq| sign(sequence.published(seq)));
        assert_eq!(steps.collect::<String>(), expect, "{seqs:?}");
    }

    fn sign(step: Step) -> char {
        match step {
            Step::Apply => '.',
            Step::Duplicate => '=',
            Step::Restart => 'R',
            Step::Gap { from } => char::from_digit(from as u32, 10).unwrap(),
        }
    }

    #[test]
    fn in_order_from_the_start() {
        check(&mut Sequence::default(), &[0, 1, 2, 3], "....");
    }

    #[test]
    fn a_late_subscriber_asks_for_all() {
        let mut sequence = Sequence::default();
        check(&mut sequence, &[7], "0");
        sequence.skip_to(7);
        check(&mut sequence, &[7, 8], "..");
    }

    #[test]
    fn a_gap_is_filled_by_a_replay() {
        let mut sequence = Sequence::default();
        check(&mut sequence, &[0, 1, 5], "..2");
        let steps: String = (2..8).map(|seq| sign(sequence.replayed(seq))).collect();
        assert_eq!(steps, "......");
        // The one that showed it, two that waited in the socket, and a new one.
        check(&mut sequence, &[5, 6, 7, 8], "===.");
    }

    #[test]
    fn a_gap_that_stays_is_skipped() {
        let mut sequence = Sequence::default();
        check(&mut sequence, &[0, 9], ".1");
        assert_eq!(sequence.replayed(6), Step::Gap { from: 1 });
        sequence.skip_to(6);
        assert_eq!(sequence.replayed(6), Step::Apply);
        check(&mut sequence, &[9], "7");
        sequence.skip_to(9);
        check(&mut sequence, &[9, 10], "..");
    }

    #[test]
    fn numbers_that_do_not_grow_are_a_restart() {
        let mut sequence = Sequence::default();
        check(&mut sequence, &[0, 1, 2, 0, 0, 1], "...R..");
        check(&mut sequence, &[1, 1], "R0");
    }

    #[test]
    fn after_a_replay_too() {
        let mut sequence = Sequence::default();
        check(&mut sequence, &[0, 3], ".1");
        let steps: String = (1..4).map(|seq| sign(sequence.replayed(seq))).collect();
        assert_eq!(steps, "...");
        check(&mut sequence, &[3, 4, 2], "=.R");
    }

    #[test]
    fn a_new_connection_may_go_on_or_begin_anew() {
        let mut sequence = Sequence::default();
        check(&mut sequence, &[0, 1, 2], "...");
        sequence.reconnected();
        check(&mut sequence, &[3], ".");
        sequence.reconnected();
        check(&mut sequence, &[6], "4");
        sequence.skip_to(6);
        sequence.reconnected();
        check(&mut sequence, &[1], "R");
        check(&mut sequence, &[1], "0");
    }
}
