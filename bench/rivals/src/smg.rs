//! `kv-index`, the index of the SMG gateway.

use kv_index::{ChainBlockMap, ContentHash, SequenceHash, ShardedChainIndex, StoredBlock, chain_prefix_hash};

use crate::Index;
use crate::workload::Prompt;

pub(crate) struct ChainIndex {
    index: ShardedChainIndex,
    workers: Vec<(u32, ChainBlockMap)>,
    contents: Vec<Vec<ContentHash>>,
    blocks: Vec<Vec<StoredBlock>>,
    scores: Vec<(u32, u32)>,
}

impl ChainIndex {
    pub(crate) fn new(endpoints: usize) -> ChainIndex {
        let index = ShardedChainIndex::new(1, endpoints);
        let worker = |n| (index.intern_worker(&format!("worker-{n}")).expect("a slot"), ChainBlockMap::new());
        let workers = (0..endpoints).map(worker).collect();
        ChainIndex { index, workers, contents: Vec::new(), blocks: Vec::new(), scores: Vec::new() }
    }
}

impl Index for ChainIndex {
    fn name(&self) -> &'static str {
        "kv-index ChainIndex"
    }

    fn prepare(&mut self, prompts: &[Prompt]) {
        self.contents = prompts.iter().map(|p| p.iter().map(|&h| ContentHash(h)).collect()).collect();
        let blocks = |contents: &Vec<ContentHash>| {
            let mut last: Option<SequenceHash> = None;
            let block = |&content_hash: &ContentHash| {
                let seq_hash = match last {
                    None => SequenceHash(content_hash.0),
                    Some(last) => chain_prefix_hash(last, content_hash),
                };
                last = Some(seq_hash);
                StoredBlock { seq_hash, content_hash }
            };
            contents.iter().map(block).collect()
        };
        self.blocks = self.contents.iter().map(blocks).collect();
    }

    fn confirm(&mut self, endpoint: usize, prompt: usize, blocks: usize) {
        let (worker, map) = &mut self.workers[endpoint];
        self.index.apply_stored(*worker, &self.blocks[prompt][..blocks], None, map).expect("stored");
    }

    fn lookup(&mut self, prompt: usize) -> usize {
        self.scores.clear();
        let scores = &mut self.scores;
        let report = |worker, score| scores.push((worker, score));
        self.index.score_into(&self.contents[prompt], |content| content.0, false, report);
        self.scores.len()
    }

    fn remove(&mut self, endpoint: usize, prompt: usize, from: usize) {
        let (worker, map) = &mut self.workers[endpoint];
        let hashes: Vec<SequenceHash> = self.blocks[prompt][from..].iter().map(|b| b.seq_hash).collect();
        self.index.apply_removed(*worker, &hashes, map);
    }

    fn forget(&mut self, endpoint: usize) {
        let (worker, map) = &mut self.workers[endpoint];
        self.index.apply_cleared(*worker, map);
    }
}
