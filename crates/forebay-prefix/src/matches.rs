//! What a look-up answers.

use forebay_core::EndpointId;

use crate::lookup::Scratch;

/// How much of a prompt one endpoint holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Match {
    /// The endpoint.
    pub endpoint: EndpointId,
    /// Consecutive blocks from the start of the prompt that are ready to use,
    /// times the confidence in this endpoint's entries.
    pub blocks: u32,
    /// Consecutive blocks after those that are in host memory (or, beyond the
    /// first of them, in either place): cheaper to fetch than to compute again.
    pub host_blocks: u32,
}

/// The answer of a look-up, and a buffer to use again for the next.
#[derive(Default, Debug)]
pub struct Matches {
    pub(crate) list: Vec<Match>,
    pub(crate) scratch: Scratch,
}

impl Matches {
    /// An empty buffer.
    pub fn new() -> Matches {
        Matches::default()
    }

    /// The endpoints that hold at least one block, each once, in no order that
    /// may be relied on.
    pub fn as_slice(&self) -> &[Match] {
        &self.list
    }

    /// The match of one endpoint; `None` when it holds nothing. Linear in the
    /// number of matches.
    pub fn get(&self, endpoint: EndpointId) -> Option<Match> {
        self.list.iter().find(|m| m.endpoint == endpoint).copied()
    }

    /// Whether no endpoint holds anything.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// How many endpoints hold something.
    pub fn len(&self) -> usize {
        self.list.len()
    }

    /// Empties the buffer and keeps its memory.
    pub fn clear(&mut self) {
        self.list.clear();
    }
}

impl<'a> IntoIterator for &'a Matches {
    type Item = &'a Match;
    type IntoIter = std::slice::Iter<'a, Match>;

    fn into_iter(self) -> Self::IntoIter {
        self.list.iter()
    }
}
