//! What happened to the events of one endpoint.

/// Counts since the map was made, in engine blocks unless said otherwise.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Stored and followed.
    pub stored: u64,
    /// Stored again in a tier where they were already.
    pub repeated: u64,
    /// Removed.
    pub removed: u64,
    /// Times the engine cleared its cache.
    pub cleared: u64,
    /// Times that [`super::EngineMap::reset`] was called.
    pub resets: u64,
    /// Times that a larger block size was learned and all was forgotten.
    pub resized: u64,
    /// Stored after, or copied from, a block that is not known: it was stored
    /// before the first event, or is not indexed.
    pub unplaced: u64,
    /// Not indexed because tokens do not tell what they hold: images, prompt
    /// embeddings, adapters without a name.
    pub opaque: u64,
    /// Shorter than the engine's block size, and so never shared.
    pub short: u64,
    /// Of KV cache groups that make no hit.
    pub other_groups: u64,
    /// Removed without being known.
    pub unknown_removed: u64,
    /// Stored under a name that stood for something else.
    pub replaced: u64,
    /// Not followed because the endpoint's limit was reached.
    pub over_limit: u64,
    /// Events whose numbers contradict each other.
    pub malformed: u64,
}
