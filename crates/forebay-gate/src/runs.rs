//! Distinct prompt blocks in flight at one endpoint.
//!
//! A block that several requests in flight share lies in the KV memory once,
//! so it counts once. Counting block by block would hold the Gate's lock for
//! as long as the prompt is long; here chains are kept as a tree of *runs*, the
//! longest stretches that every request through them shares. An insertion or
//! removal touches the runs on its path, usually one to four.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// The end of one request's chain in the tree; none for a prompt without a full block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Leaf(Option<u32>);

const ROOT: u32 = u32::MAX;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Run {
    /// Some request's chain, which holds this run at `from..to`.
    chain: Arc<[u64]>,
    from: u32,
    to: u32,
    parent: u32,
    /// Requests in flight that go through it.
    requests: u32,
}

/// The tree of one endpoint.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Runs {
    runs: Vec<Option<Run>>,
    free: Vec<u32>,
    /// Children by parent and the hash of their first block.
    children: BTreeMap<(u32, u64), u32>,
    /// Distinct blocks in flight.
    blocks: u64,
}

impl Runs {
    /// Distinct blocks in flight.
    pub(crate) fn blocks(&self) -> u64 {
        self.blocks
    }

    /// Counts a request with this chain. O(runs on its path · log of the chain's length).
    pub(crate) fn insert(&mut self, chain: &Arc<[u64]>) -> Leaf {
        let len = chain.len() as u32;
        let (mut at, mut parent) = (0u32, ROOT);
        while at < len {
            let Some(&id) = self.children.get(&(parent, chain[at as usize])) else {
                let id = self.put(Run { chain: Arc::clone(chain), from: at, to: len, parent, requests: 1 });
                self.children.insert((parent, chain[at as usize]), id);
                self.blocks += u64::from(len - at);
                return Leaf(Some(id));
            };
            let Some(run) = self.runs[id as usize].as_ref() else { break };
            let shared = common(&run.chain, chain, run.from, run.to.min(len));
            let id = if shared < run.to { self.split(id, shared) } else { id };
            if let Some(run) = self.runs[id as usize].as_mut() {
                run.requests += 1;
            }
            (at, parent) = (shared, id);
        }
        Leaf((parent != ROOT).then_some(parent))
    }

    /// Takes back what one [`Runs::insert`] counted.
    pub(crate) fn remove(&mut self, leaf: Leaf) {
        let mut next = leaf.0.unwrap_or(ROOT);
        while let Some(run) = self.runs.get_mut(next as usize).and_then(Option::as_mut) {
            let (id, parent) = (next, run.parent);
            run.requests = run.requests.saturating_sub(1);
            if run.requests == 0 {
                let key = (parent, run.chain[run.from as usize]);
                self.blocks -= u64::from(run.to - run.from);
                self.children.remove(&key);
                self.runs[id as usize] = None;
                self.free.push(id);
            }
            next = parent;
        }
    }

    /// Cuts a run in two at block `mid`; the upper part gets a new place, so
    /// that whoever ends at the run's end still ends at its place.
    fn split(&mut self, id: u32, mid: u32) -> u32 {
        let Some(run) = self.runs[id as usize].as_ref() else { return id };
        let upper = Run { chain: Arc::clone(&run.chain), from: run.from, to: mid, ..run.clone() };
        let (first, middle) = ((upper.parent, upper.chain[upper.from as usize]), run.chain[mid as usize]);
        let top = self.put(upper);
        if let Some(run) = self.runs[id as usize].as_mut() {
            run.from = mid;
            run.parent = top;
        }
        self.children.insert(first, top);
        self.children.insert((top, middle), id);
        top
    }

    fn put(&mut self, run: Run) -> u32 {
        match self.free.pop() {
            Some(id) => {
                self.runs[id as usize] = Some(run);
                id
            }
            None => {
                self.runs.push(Some(run));
                self.runs.len() as u32 - 1
            }
        }
    }
}

/// How far two chains agree, given that they agree at `from` and looking no
/// further than `to`. Equal hashes mean equal prefixes, so that one comparison
/// tells whether everything before agrees too, and halving finds the place.
fn common(a: &[u64], b: &[u64], from: u32, to: u32) -> u32 {
    let same = |i: u32| a[i as usize] == b[i as usize];
    if same(to - 1) {
        return to;
    }
    let (mut yes, mut no) = (from, to - 1);
    while no - yes > 1 {
        let mid = yes + (no - yes) / 2;
        if same(mid) {
            yes = mid;
        } else {
            no = mid;
        }
    }
    no
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    /// A chain whose blocks are drawn from few symbols, so that many share a start.
    fn chain(symbols: &[u8]) -> Arc<[u64]> {
        let mut hash = 7u64;
        symbols
            .iter()
            .map(|s| {
                hash = xxhash_rust::xxh3::xxh3_64_with_seed(&[*s], hash);
                hash
            })
            .collect()
    }

    #[test]
    fn shared_blocks_count_once_until_the_last_user_ends() {
        let mut runs = Runs::default();
        let a = runs.insert(&chain(b"aaaabb"));
        let b = runs.insert(&chain(b"aaaacc"));
        assert_eq!(runs.blocks(), 8);
        let prefix = runs.insert(&chain(b"aa"));
        assert_eq!(runs.blocks(), 8);
        runs.remove(a);
        assert_eq!(runs.blocks(), 6);
        runs.remove(b);
        assert_eq!(runs.blocks(), 2);
        runs.remove(prefix);
        assert_eq!(runs, Runs { runs: runs.runs.clone(), free: runs.free.clone(), ..Runs::default() });
        let none = runs.insert(&chain(b""));
        runs.remove(none);
        assert_eq!(runs.blocks(), 0);
    }

    proptest! {
        #[test]
        fn counts_what_a_reference_count_per_block_counts(
            steps in prop::collection::vec((prop::collection::vec(0u8..3, 0..12), any::<bool>(), any::<u8>()), 0..120)
        ) {
            let mut runs = Runs::default();
            let mut model: BTreeMap<u64, u32> = BTreeMap::new();
            let mut live: Vec<(Leaf, Arc<[u64]>)> = Vec::new();
            for (symbols, remove, which) in steps {
                if remove && !live.is_empty() {
                    let (leaf, chain) = live.swap_remove(which as usize % live.len());
                    runs.remove(leaf);
                    for hash in chain.iter() {
                        let n = model.get_mut(hash).unwrap();
                        *n -= 1;
                        if *n == 0 {
                            model.remove(hash);
                        }
                    }
                } else {
                    let chain = chain(&symbols);
                    live.push((runs.insert(&chain), Arc::clone(&chain)));
                    for hash in chain.iter() {
                        *model.entry(*hash).or_default() += 1;
                    }
                }
                prop_assert_eq!(runs.blocks(), model.len() as u64);
            }
            for (leaf, _) in live {
                runs.remove(leaf);
            }
            prop_assert_eq!(runs.blocks(), 0);
            prop_assert!(runs.children.is_empty());
        }
    }
}
