//! How long answers usually are.

use std::collections::BTreeMap;

use forebay_core::ModelId;
use serde::{Deserialize, Serialize};

use crate::Ewma;

/// Most (model, tenant) pairs that are remembered.
const CAPACITY: usize = 4096;
/// Tokens expected of a model that has answered nothing yet.
const START: f64 = 200.0;
/// Share of a mean that is kept at each answer.
const KEEP: f64 = 0.999;
/// Answers that the value a mean starts with counts as.
const WORTH: f64 = 4.0;
/// The tenant under whose name a model's own mean is kept.
const ANY: u32 = u32::MAX;

/// The running mean of output tokens per model and tenant, in bounded memory:
/// the pair not seen for longest goes first.
///
/// A running mean is enough: in simulation an oracle of every answer's length
/// gains less than a point of goodput over it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct OutputLengths {
    by_key: BTreeMap<u64, u32>,
    entries: Vec<Entry>,
    /// Least and most recently seen entry; meaningful while there are any.
    oldest: u32,
    newest: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
struct Entry {
    key: u64,
    mean: Ewma,
    older: u32,
    newer: u32,
}

fn key(model: ModelId, tenant: u32) -> u64 {
    u64::from(model.0) << 32 | u64::from(tenant)
}

impl OutputLengths {
    /// Nothing seen.
    pub fn new() -> OutputLengths {
        OutputLengths::default()
    }

    /// Counts a finished answer.
    pub fn observe(&mut self, model: ModelId, tenant: u32, output_tokens: u32) {
        self.observe_after(START, model, tenant, output_tokens);
    }

    /// As [`OutputLengths::observe`], of a model that was taken to answer like
    /// another one until now: while it is not known, its mean starts at
    /// `expected` tokens.
    pub fn observe_after(&mut self, expected: f64, model: ModelId, tenant: u32, output_tokens: u32) {
        let start = self.mean(key(model, ANY)).unwrap_or(expected);
        self.count(key(model, ANY), expected, output_tokens);
        if tenant != ANY {
            self.count(key(model, tenant), start, output_tokens);
        }
    }

    /// Tokens to expect of an answer: the mean of the pair, else of the model,
    /// else 200. At least 1.
    pub fn expect(&self, model: ModelId, tenant: u32) -> f64 {
        self.known(model, tenant).unwrap_or(START)
    }

    /// The same of a pair or a model that has answered; none of others.
    pub fn known(&self, model: ModelId, tenant: u32) -> Option<f64> {
        self.mean(key(model, tenant)).or_else(|| self.mean(key(model, ANY))).map(|mean| mean.max(1.0))
    }

    /// Pairs and models remembered.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// True when nothing was seen yet.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    fn mean(&self, key: u64) -> Option<f64> {
        self.by_key.get(&key).map(|index| self.entries[*index as usize].mean.value())
    }

    fn count(&mut self, key: u64, start: f64, output_tokens: u32) {
        let index = match self.by_key.get(&key) {
            Some(index) => *index,
            None => self.insert(key, start),
        };
        self.entries[index as usize].mean.add(f64::from(output_tokens));
        self.touch(index);
    }

    /// A new entry, linked as the newest, in place of the oldest when full.
    fn insert(&mut self, key: u64, start: f64) -> u32 {
        let mean = Ewma::new(KEEP, start, WORTH);
        if self.entries.len() < CAPACITY {
            let index = self.entries.len() as u32;
            self.entries.push(Entry { key, mean, older: self.newest, newer: index });
            match index {
                0 => self.oldest = 0,
                _ => self.entries[self.newest as usize].newer = index,
            }
            self.newest = index;
            self.by_key.insert(key, index);
            return index;
        }
        let index = self.oldest;
        let entry = &mut self.entries[index as usize];
        self.by_key.remove(&entry.key);
        (entry.key, entry.mean) = (key, mean);
        self.by_key.insert(key, index);
        index
    }

    /// Makes an entry the newest.
    fn touch(&mut self, index: u32) {
        if index == self.newest {
            return;
        }
        let Entry { older, newer, .. } = self.entries[index as usize];
        if index == self.oldest {
            self.oldest = newer;
        } else {
            self.entries[older as usize].newer = newer;
        }
        self.entries[newer as usize].older = older;
        self.entries[self.newest as usize].newer = index;
        self.entries[index as usize].older = self.newest;
        self.newest = index;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Lcg;

    const M: ModelId = ModelId(1);

    #[test]
    fn it_learns_per_tenant_and_falls_back_to_the_model() {
        let mut lengths = OutputLengths::new();
        assert_eq!(lengths.expect(M, 1), 200.0);
        for _ in 0..100 {
            lengths.observe(M, 1, 50);
            lengths.observe(M, 2, 1000);
        }
        assert!((lengths.expect(M, 1) - 50.0).abs() < 30.0, "{}", lengths.expect(M, 1));
        assert!((lengths.expect(M, 2) - 1000.0).abs() < 60.0, "{}", lengths.expect(M, 2));
        assert!((lengths.expect(M, 3) - 525.0).abs() < 30.0, "{}", lengths.expect(M, 3));
        assert_eq!(lengths.expect(ModelId(2), 1), 200.0);
        lengths.observe(ModelId(5), u32::MAX, 0);
        assert!(lengths.expect(ModelId(5), 7) >= 1.0);
    }

    #[test]
    fn a_model_starts_where_it_was_expected_and_soon_knows_better() {
        let mut lengths = OutputLengths::new();
        assert_eq!(lengths.known(M, 1), None);
        lengths.observe_after(1000.0, M, 1, 1000);
        assert_eq!(lengths.known(M, 1), Some(1000.0));
        assert_eq!(lengths.known(M, 2), Some(1000.0), "as the model");
        // What it was expected to be counts for a few answers only.
        for _ in 0..200 {
            lengths.observe_after(1000.0, M, 1, 1);
        }
        let expected = lengths.expect(M, 1);
        assert!((1.0..30.0).contains(&expected), "{expected}");
        for _ in 0..20_000 {
            lengths.observe(M, 1, 1);
        }
        assert!(lengths.expect(M, 1) < 1.001, "it settles on one token: {}", lengths.expect(M, 1));
    }

    #[test]
    fn memory_is_bounded_and_the_least_recent_goes_first() {
        let mut lengths = OutputLengths::new();
        let mut order: Vec<u64> = Vec::new();
        let mut lcg = Lcg::new(1);
        for _ in 0..20_000 {
            let tenant = (lcg.unit() * 9000.0) as u32;
            lengths.observe(M, tenant, 10);
            for k in [key(M, ANY), key(M, tenant)] {
                order.retain(|o| *o != k);
                order.push(k);
            }
            if order.len() > CAPACITY {
                order.remove(0);
            }
        }
        assert_eq!(lengths.len(), CAPACITY);
        assert!(!lengths.is_empty());
        let mut kept: Vec<u64> = lengths.by_key.keys().copied().collect();
        order.sort_unstable();
        kept.sort_unstable();
        assert_eq!(kept, order);
    }
}
