//! The last decisions, kept as numbers and rendered when read.

use std::collections::VecDeque;

use forebay_core::Time;
use forebay_gate::Decision;

/// One decision and when it was made.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DecisionRecord {
    /// Which Gate made it.
    pub gate: u32,
    /// When, on the program's clock.
    pub at: Time,
    /// What was decided and why.
    pub decision: Decision,
}

/// A ring of decisions; memory is bounded by its capacity.
#[derive(Debug)]
pub(crate) struct DecisionRing {
    records: VecDeque<DecisionRecord>,
    capacity: usize,
}

impl DecisionRing {
    pub(crate) fn new(capacity: usize) -> DecisionRing {
        DecisionRing { records: VecDeque::with_capacity(capacity), capacity }
    }

    pub(crate) fn push(&mut self, at: Time, gate: u32, decision: Decision) {
        if self.records.len() >= self.capacity {
            self.records.pop_front();
        }
        if self.capacity > 0 {
            self.records.push_back(DecisionRecord { gate, at, decision });
        }
    }

    /// The newest `last` records, newest first.
    pub(crate) fn newest(&self, last: usize) -> Vec<DecisionRecord> {
        self.records.iter().rev().take(last).copied().collect()
    }
}
