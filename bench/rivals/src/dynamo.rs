//! `dynamo-kv-router`: its radix tree for one thread, its positional index, and
//! its concurrent compressed tree, which writes in a thread of its own.

use std::sync::Arc;
use std::thread::JoinHandle;

use dynamo_kv_router::indexer::WorkerTask;
use dynamo_kv_router::protocols::{
    ExternalSequenceBlockHash, KvCacheEvent, KvCacheEventData, KvCacheRemoveData, KvCacheStoreData,
    KvCacheStoredBlockData, LocalBlockHash, RouterEvent, WorkerWithDpRank, compute_seq_hash_for_block,
};
use dynamo_kv_router::{ConcurrentRadixTreeCompressed, PositionalIndexer, RadixTree, SyncIndexer};
use rustc_hash::FxHashMap;

use crate::Index;
use crate::workload::Prompt;

/// The prompts in its words.
#[derive(Default)]
struct Prompts {
    locals: Vec<Vec<LocalBlockHash>>,
    blocks: Vec<Vec<KvCacheStoredBlockData>>,
    event_id: u64,
}

impl Prompts {
    fn prepare(&mut self, prompts: &[Prompt]) {
        self.locals = prompts.iter().map(|p| p.iter().map(|&h| LocalBlockHash(h)).collect()).collect();
        let blocks = |locals: &Vec<LocalBlockHash>| {
            let block = |(&tokens_hash, sequence): (&LocalBlockHash, u64)| KvCacheStoredBlockData {
                block_hash: ExternalSequenceBlockHash(sequence),
                tokens_hash,
                mm_extra_info: None,
            };
            locals.iter().zip(compute_seq_hash_for_block(locals)).map(block).collect()
        };
        self.blocks = self.locals.iter().map(blocks).collect();
    }

    fn event(&mut self, endpoint: usize, data: KvCacheEventData) -> RouterEvent {
        self.event_id += 1;
        RouterEvent::new(endpoint as u64, KvCacheEvent { event_id: self.event_id, data, dp_rank: 0 })
    }

    fn stored(&mut self, endpoint: usize, prompt: usize, blocks: usize) -> RouterEvent {
        let blocks = self.blocks[prompt][..blocks].to_vec();
        let data = KvCacheStoreData { parent_hash: None, start_position: Some(0), blocks };
        self.event(endpoint, KvCacheEventData::Stored(data))
    }

    fn removed(&mut self, endpoint: usize, prompt: usize, from: usize) -> RouterEvent {
        let block_hashes = self.blocks[prompt][from..].iter().map(|b| b.block_hash).collect();
        self.event(endpoint, KvCacheEventData::Removed(KvCacheRemoveData { block_hashes }))
    }
}

pub(crate) struct Radix {
    tree: RadixTree,
    prompts: Prompts,
}

impl Radix {
    pub(crate) fn new() -> Radix {
        Radix { tree: RadixTree::new(), prompts: Prompts::default() }
    }
}

impl Index for Radix {
    fn name(&self) -> &'static str {
        "dynamo RadixTree"
    }

    fn prepare(&mut self, prompts: &[Prompt]) {
        self.prompts.prepare(prompts);
    }

    fn confirm(&mut self, endpoint: usize, prompt: usize, blocks: usize) {
        let event = self.prompts.stored(endpoint, prompt, blocks);
        self.tree.apply_event(event).expect("stored");
    }

    fn lookup(&mut self, prompt: usize) -> usize {
        self.tree.find_matches(self.prompts.locals[prompt].clone(), false).scores.len()
    }

    fn remove(&mut self, endpoint: usize, prompt: usize, from: usize) {
        let event = self.prompts.removed(endpoint, prompt, from);
        self.tree.apply_event(event).expect("removed");
    }

    fn forget(&mut self, endpoint: usize) {
        self.tree.clear_all_blocks(endpoint as u64);
    }
}

pub(crate) struct Positional {
    index: PositionalIndexer,
    workers: FxHashMap<WorkerWithDpRank, dynamo_kv_router::indexer::positional::LevelIndex>,
    prompts: Prompts,
}

impl Positional {
    pub(crate) fn new() -> Positional {
        // The jump that its own benchmarks use.
        Positional {
            index: PositionalIndexer::new(32),
            workers: FxHashMap::default(),
            prompts: Prompts::default(),
        }
    }
}

impl Index for Positional {
    fn name(&self) -> &'static str {
        "dynamo PositionalIndexer"
    }

    fn prepare(&mut self, prompts: &[Prompt]) {
        self.prompts.prepare(prompts);
    }

    fn confirm(&mut self, endpoint: usize, prompt: usize, blocks: usize) {
        let event = self.prompts.stored(endpoint, prompt, blocks);
        self.index.apply_event(&mut self.workers, event, None).expect("stored");
    }

    fn lookup(&mut self, prompt: usize) -> usize {
        SyncIndexer::find_matches(&self.index, &self.prompts.locals[prompt], false).scores.len()
    }

    fn remove(&mut self, endpoint: usize, prompt: usize, from: usize) {
        let event = self.prompts.removed(endpoint, prompt, from);
        self.index.apply_event(&mut self.workers, event, None).expect("removed");
    }

    fn forget(&mut self, endpoint: usize) {
        let event = self.prompts.event(endpoint, KvCacheEventData::Cleared);
        self.index.apply_event(&mut self.workers, event, None).expect("cleared");
    }
}

pub(crate) struct Compressed {
    tree: Arc<ConcurrentRadixTreeCompressed>,
    tasks: Option<flume::Sender<WorkerTask>>,
    thread: Option<JoinHandle<()>>,
    prompts: Prompts,
}

impl Compressed {
    pub(crate) fn new() -> Compressed {
        let tree = Arc::new(ConcurrentRadixTreeCompressed::new());
        let (tasks, receiver) = flume::unbounded();
        let worker = tree.clone();
        let thread = std::thread::spawn(move || worker.worker(receiver, None).expect("the writer runs"));
        Compressed { tree, tasks: Some(tasks), thread: Some(thread), prompts: Prompts::default() }
    }

    fn send(&self, task: WorkerTask) {
        self.tasks.as_ref().expect("open").send(task).expect("the writer runs");
    }
}

impl Drop for Compressed {
    fn drop(&mut self) {
        self.tasks = None;
        self.thread.take().map(JoinHandle::join);
    }
}

impl Index for Compressed {
    fn name(&self) -> &'static str {
        "dynamo ConcurrentRadix…"
    }

    fn prepare(&mut self, prompts: &[Prompt]) {
        self.prompts.prepare(prompts);
    }

    fn confirm(&mut self, endpoint: usize, prompt: usize, blocks: usize) {
        let event = self.prompts.stored(endpoint, prompt, blocks);
        self.send(WorkerTask::Event(event));
    }

    fn settle(&mut self) {
        // An empty removal, answered when everything before it is done.
        let event =
            self.prompts.event(0, KvCacheEventData::Removed(KvCacheRemoveData { block_hashes: Vec::new() }));
        let (resp, done) = tokio::sync::oneshot::channel();
        self.send(WorkerTask::EventWithAck { event, resp });
        let _ = done.blocking_recv();
    }

    fn lookup(&mut self, prompt: usize) -> usize {
        SyncIndexer::find_matches(&*self.tree, &self.prompts.locals[prompt], false).scores.len()
    }

    fn remove(&mut self, endpoint: usize, prompt: usize, from: usize) {
        let event = self.prompts.removed(endpoint, prompt, from);
        self.send(WorkerTask::Event(event));
    }

    fn forget(&mut self, endpoint: usize) {
        let event = self.prompts.event(endpoint, KvCacheEventData::Cleared);
        self.send(WorkerTask::Event(event));
    }
}
