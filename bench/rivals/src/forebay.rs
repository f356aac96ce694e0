//! `forebay-prefix`.

use std::sync::Arc;

use forebay_core::EndpointId;
use forebay_prefix::{IndexConfig, Matches, PrefixIndex, chain};

use crate::Index;
use crate::workload::Prompt;

pub(crate) struct Forebay {
    index: PrefixIndex,
    prompts: Vec<Prompt>,
    chains: Vec<Arc<[u64]>>,
    out: Matches,
    /// Look-ups make the chain each time. A gateway makes it once per request
    /// and uses it for the look-up and twice more.
    with_chain: bool,
}

impl Forebay {
    pub(crate) fn new(with_chain: bool) -> Forebay {
        let config = IndexConfig { max_bytes: 2 << 30, ..IndexConfig::default() };
        Forebay {
            index: PrefixIndex::new(config),
            prompts: Vec::new(),
            chains: Vec::new(),
            out: Matches::new(),
            with_chain,
        }
    }
}

fn id(endpoint: usize) -> EndpointId {
    EndpointId { slot: endpoint as u32, generation: 0 }
}

impl Index for Forebay {
    fn name(&self) -> &'static str {
        if self.with_chain { "forebay, chain made anew" } else { "forebay" }
    }

    fn prepare(&mut self, prompts: &[Prompt]) {
        self.prompts = prompts.to_vec();
        self.chains = prompts.iter().map(|prompt| chain(7, prompt)).collect();
    }

    fn confirm(&mut self, endpoint: usize, prompt: usize, blocks: usize) {
        self.index.insert_confirmed(id(endpoint), &self.chains[prompt][..blocks]);
    }

    fn lookup(&mut self, prompt: usize) -> usize {
        if self.with_chain {
            self.index.lookup(&chain(7, &self.prompts[prompt]), &mut self.out);
        } else {
            self.index.lookup(&self.chains[prompt], &mut self.out);
        }
        self.out.len()
    }

    fn remove(&mut self, endpoint: usize, prompt: usize, from: usize) {
        self.index.remove_confirmed(id(endpoint), &self.chains[prompt][from..]);
    }

    fn forget(&mut self, endpoint: usize) {
        self.index.forget(id(endpoint));
    }
}
