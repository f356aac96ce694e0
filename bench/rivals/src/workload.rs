//! The prompts that every index is given.

use forebay_prefix::next;

/// A prompt as the hashes of its blocks, each for itself.
pub(crate) type Prompt = Vec<u64>;

pub(crate) struct Workload {
    pub(crate) endpoints: usize,
    pub(crate) blocks: usize,
    pub(crate) prompts: Vec<Prompt>,
    /// Which prompt is looked up when: no two in a row are near each other.
    pub(crate) order: Vec<usize>,
}

const PROMPTS: usize = 2_000;

impl Workload {
    pub(crate) fn new(endpoints: usize, blocks: usize) -> Workload {
        let prompt = |n: u64| {
            let shared = (0..blocks as u64 / 2).map(|i| next(0, i));
            let own = (blocks as u64 / 2..blocks as u64).map(|i| next(n + 1, i));
            shared.chain(own).collect()
        };
        Workload {
            endpoints,
            blocks,
            prompts: (0..PROMPTS as u64).map(prompt).collect(),
            order: (0..10_000).map(|i| (next(1, i) % PROMPTS as u64) as usize).collect(),
        }
    }
}
