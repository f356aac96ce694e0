//! Numbers about the index, for metrics.

/// What the index holds and what it has done since it was made.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Stats {
    /// Distinct blocks.
    pub blocks: u64,
    /// Stretches of consecutive blocks that are kept as one.
    pub runs: u64,
    /// Pairs of an endpoint and a run that it holds at least in part.
    pub holds: u64,
    /// Endpoints with entries or settings.
    pub endpoints: u64,
    /// Committed blocks over all endpoints.
    pub committed: u64,
    /// Committed blocks taken back because an endpoint's capacity was reached.
    pub evicted_by_capacity: u64,
    /// Blocks of single endpoints taken back because of the byte bound.
    pub evicted_by_bytes: u64,
    /// Blocks that were not entered because nothing could make room.
    pub refused: u64,
    /// Times that an endpoint's entries were forgotten as a whole.
    pub forgotten: u64,
    /// Blocks that `correct` took back because the engine had lost them.
    pub corrected: u64,
}
