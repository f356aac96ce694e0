//! What one event says, whichever engine said it.

/// Where a block lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Tier {
    /// The accelerator's memory: a hit costs nothing.
    Gpu,
    /// The host's memory: a hit costs a copy.
    Host,
    /// A disk, a shared store, another host: a hit may or may not be worth it.
    Other,
}

impl Tier {
    /// The tier of vLLM's and SGLang's `medium`. Events without one are older
    /// than any tier but the accelerator's.
    pub(super) fn of_medium(medium: Option<&str>) -> Tier {
        match medium {
            None => Tier::Gpu,
            Some(name) if name.eq_ignore_ascii_case("GPU") => Tier::Gpu,
            Some(name) if name.eq_ignore_ascii_case("CPU") || name.eq_ignore_ascii_case("CPU_PINNED") => {
                Tier::Host
            }
            Some(_) => Tier::Other,
        }
    }
}

/// Which kind of layers a block belongs to, where a model mixes kinds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attention {
    /// Layers that look at the whole prefix; only their blocks make a hit.
    Full,
    /// Sliding windows, recurrent states and the like.
    Other,
    /// The engine does not say (vLLM before 0.24, SGLang).
    Unknown,
}

impl Attention {
    /// The kind named by vLLM's `kv_cache_spec_kind`.
    pub(super) fn of_kind(kind: Option<&str>) -> Attention {
        match kind {
            Some("full_attention" | "mla_attention" | "sink_full_attention") => Attention::Full,
            None | Some("unknown") => Attention::Unknown,
            Some(_) => Attention::Other,
        }
    }
}

/// Blocks that were stored: a chain, each the child of the one before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stored {
    /// The engine's names of the blocks, in order.
    pub hashes: Vec<u64>,
    /// The engine's name of the block before the first one; `None` where a
    /// prompt begins.
    pub parent: Option<u64>,
    /// Token ids of all blocks, `block_size` each. Empty when an engine tells
    /// of a copy of blocks that it named before (offloading to a lower tier).
    pub tokens: Vec<u32>,
    /// Tokens in a block.
    pub block_size: u32,
    /// The engine says that this is the size of its blocks. If not, it is what
    /// this one has, and the last of a prompt may have fewer than the others.
    pub declared: bool,
    /// The LoRA adapter by name.
    pub adapter: Option<String>,
    /// What keeps this prompt's blocks apart from other tenants', where a
    /// prompt begins.
    pub salt: Option<String>,
    /// Where they lie.
    pub tier: Tier,
    /// The KV cache group, in models with several.
    pub group: Option<u32>,
    /// What kind of layers that group has.
    pub attention: Attention,
    /// How many of the first blocks are told apart by tokens, adapter and salt
    /// alone. The next one holds an image or the like, or belongs to an adapter
    /// whose name is not known, so it and all after it cannot be identified.
    pub identified: usize,
}

/// Blocks that were removed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Removed {
    /// The engine's names of the blocks.
    pub hashes: Vec<u64>,
    /// From where; `None` for everywhere.
    pub tier: Option<Tier>,
    /// The KV cache group, in models with several.
    pub group: Option<u32>,
}

/// One change of an engine's KV cache.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KvEvent {
    /// Blocks were stored.
    Stored(Stored),
    /// Blocks were removed.
    Removed(Removed),
    /// Everything was removed.
    Cleared,
}
