//! What the index should answer, in the plainest way: every endpoint a map of
//! its blocks.

use std::collections::BTreeMap;

use forebay_core::EndpointId;
use forebay_prefix::{Match, Tier};

#[derive(Default)]
pub(crate) struct Oracle {
    endpoints: BTreeMap<u32, Endpoint>,
}

#[derive(Default)]
struct Endpoint {
    generation: u32,
    retired: bool,
    blocks: BTreeMap<u64, Block>,
    in_flight: BTreeMap<u64, u32>,
}

#[derive(Default, Clone, Copy)]
struct Block {
    refs: u32,
    committed: bool,
    gpu: bool,
    host: bool,
    parent: Option<u64>,
}

impl Block {
    fn ready(&self) -> bool {
        self.refs > 0 || self.committed || self.gpu
    }
}

impl Endpoint {
    fn block(&mut self, chain: &[u64], i: usize) -> &mut Block {
        let block = self.blocks.entry(chain[i]).or_default();
        if i > 0 {
            block.parent = Some(chain[i - 1]);
        }
        block
    }

    fn tidy(&mut self, hash: u64) {
        if self.blocks.get(&hash).is_some_and(|b| !b.ready() && !b.host) {
            self.blocks.remove(&hash);
        }
    }

    fn commit(&mut self, chain: &[u64]) {
        (0..chain.len()).for_each(|i| self.block(chain, i).committed = true);
    }

    fn uncommit(&mut self, hash: u64) {
        let mut queue = vec![hash];
        while let Some(hash) = queue.pop() {
            let Some(block) = self.blocks.get_mut(&hash) else { continue };
            if !std::mem::take(&mut block.committed) {
                continue;
            }
            let children = self.blocks.iter().filter(|(_, b)| b.parent == Some(hash));
            queue.extend(children.map(|(&hash, _)| hash));
            self.tidy(hash);
        }
    }
}

impl Oracle {
    fn with(&mut self, id: EndpointId, f: impl FnOnce(&mut Endpoint)) {
        let fresh = || Endpoint { generation: id.generation, ..Endpoint::default() };
        let endpoint = self.endpoints.entry(id.slot).or_insert_with(fresh);
        if endpoint.generation < id.generation {
            *endpoint = fresh();
        }
        if endpoint.generation == id.generation && !endpoint.retired {
            f(endpoint);
        }
    }

    pub(crate) fn lookup(&self, chain: &[u64]) -> Vec<Match> {
        let matches = self.endpoints.iter().map(|(&slot, endpoint)| {
            let held = |host: bool| {
                let holds =
                    |hash: &&u64| endpoint.blocks.get(*hash).is_some_and(|b| b.ready() || host && b.host);
                chain.iter().take_while(holds).count() as u32
            };
            let endpoint = EndpointId { slot, generation: endpoint.generation };
            Match { endpoint, blocks: held(false), host_blocks: held(true) - held(false) }
        });
        matches.filter(|m| m.blocks + m.host_blocks > 0).collect()
    }

    pub(crate) fn begin(&mut self, id: EndpointId, chain: &[u64]) {
        let Some(&last) = chain.last() else { return };
        self.with(id, |endpoint| {
            *endpoint.in_flight.entry(last).or_default() += 1;
            (0..chain.len()).for_each(|i| endpoint.block(chain, i).refs += 1);
        });
    }

    pub(crate) fn end(&mut self, id: EndpointId, chain: &[u64], keep: bool) {
        let Some(last) = chain.last() else { return };
        self.with(id, |endpoint| {
            let Some(count) = endpoint.in_flight.get_mut(last).filter(|count| **count > 0) else { return };
            *count -= 1;
            if keep {
                endpoint.commit(chain);
            }
            for i in 0..chain.len() {
                endpoint.block(chain, i).refs -= 1;
                endpoint.tidy(chain[i]);
            }
        });
    }

    pub(crate) fn insert_confirmed(&mut self, id: EndpointId, tier: Tier, hashes: &[u64]) {
        self.with(id, |endpoint| {
            for i in 0..hashes.len() {
                let block = endpoint.block(hashes, i);
                match tier {
                    Tier::Gpu => block.gpu = true,
                    Tier::Host => block.host = true,
                }
            }
        });
    }

    pub(crate) fn remove_confirmed(&mut self, id: EndpointId, tier: Tier, hashes: &[u64]) {
        self.with(id, |endpoint| {
            for &hash in hashes {
                if let Some(block) = endpoint.blocks.get_mut(&hash) {
                    match tier {
                        Tier::Gpu => block.gpu = false,
                        Tier::Host => block.host = false,
                    }
                }
                if tier == Tier::Gpu {
                    endpoint.uncommit(hash);
                }
                endpoint.tidy(hash);
            }
        });
    }

    pub(crate) fn commit(&mut self, id: EndpointId, chain: &[u64]) {
        self.with(id, |endpoint| endpoint.commit(chain));
    }

    pub(crate) fn correct(&mut self, id: EndpointId, chain: &[u64], cached: usize, predicted: usize) {
        self.with(id, |endpoint| {
            let cached = cached.min(chain.len());
            if cached < predicted.min(chain.len()) {
                endpoint.uncommit(chain[cached]);
            }
            endpoint.commit(&chain[..cached]);
        });
    }

    pub(crate) fn forget(&mut self, id: EndpointId) {
        self.with(id, |endpoint| {
            *endpoint = Endpoint { generation: id.generation, ..Endpoint::default() };
        });
    }

    pub(crate) fn retire(&mut self, id: EndpointId) {
        self.with(id, |endpoint| {
            *endpoint = Endpoint { generation: id.generation, retired: true, ..Endpoint::default() };
        });
    }

    /// Distinct blocks that some endpoint holds.
    pub(crate) fn distinct_blocks(&self) -> usize {
        let all = self.endpoints.values().flat_map(|endpoint| endpoint.blocks.keys());
        all.collect::<std::collections::BTreeSet<_>>().len()
    }
}
