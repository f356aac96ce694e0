//! Traffic: requests with the blocks that their prompts share.

mod arrivals;
mod azure;
mod conversations;
mod groups;
mod lengths;
mod mix;
mod mooncake;
mod priorities;
mod tenants;

use std::sync::Arc;
use std::time::Duration;

use forebay_core::{Priority, Slo, Time};

pub use arrivals::ArrivalSpec;
pub use azure::{AzureRow, AzureTrace};
pub use conversations::{Conversations, ConversationsSpec};
pub use groups::{Groups, GroupsSpec};
pub use lengths::Length;
pub use mix::Mix;
pub use mooncake::{MooncakeRow, MooncakeTrace};
pub use priorities::Priorities;
pub use tenants::{Tenants, TenantsSpec};

/// One request as a client makes it.
#[derive(Clone, Debug)]
pub struct SimRequest {
    /// When it arrives at a gateway.
    pub arrival: Time,
    /// Hashes of the full blocks of the prompt, each of the whole prompt so far.
    pub chain: Arc<[u64]>,
    /// Hashes of the blocks that prompt and answer fill together, after those
    /// of the prompt; empty when nothing will ask for them again.
    pub answer: Arc<[u64]>,
    /// At least 1.
    pub prompt_tokens: u32,
    /// Tokens that will be generated; the gateway is not told.
    pub output_tokens: u32,
    /// The limit on generated tokens that the client states, if any.
    pub max_output_tokens: Option<u32>,
    /// Whose conversation it is: named again in [`Workload::follow`].
    pub session: Option<u64>,
    /// What keeps related requests together, as a gateway hashes it.
    pub affinity: u64,
    /// Its class.
    pub priority: Priority,
    /// What a good answer is.
    pub slo: Slo,
    /// The adapter it asks for.
    pub adapter: Option<u32>,
    /// Who pays.
    pub tenant: u32,
    /// The client goes away when no token has come after so long; none: it waits.
    pub patience: Option<Duration>,
}

/// The limits of a request that says nothing: 2 s to the first token, 50 ms for each after it.
pub const DEFAULT_SLO: Slo = Slo { ttft_ms: Some(2_000.0), tpot_ms: Some(50.0) };

impl SimRequest {
    /// A request with the default limits and nothing special about it.
    pub fn new(arrival: Time, chain: Arc<[u64]>, prompt_tokens: u32, output_tokens: u32) -> SimRequest {
        // The first block alone is often the same for everybody.
        let affinity = chain.get(1).or(chain.first()).copied().unwrap_or(0);
        SimRequest {
            arrival,
            chain,
            answer: Arc::from([]),
            prompt_tokens: prompt_tokens.max(1),
            output_tokens,
            max_output_tokens: None,
            session: None,
            affinity,
            priority: Priority::STANDARD,
            slo: DEFAULT_SLO,
            adapter: None,
            tenant: 0,
            patience: None,
        }
    }
}

/// What the requests of one source have in common.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Class {
    /// Their class.
    pub priority: Priority,
    /// What a good answer is.
    pub slo: Slo,
    /// A client goes away when no token has come after so long; none: it waits.
    pub patience: Option<Duration>,
    /// The adapter that they ask for.
    pub adapter: Option<u32>,
}

impl Default for Class {
    fn default() -> Class {
        Class { priority: Priority::STANDARD, slo: DEFAULT_SLO, patience: None, adapter: None }
    }
}

impl Class {
    pub(crate) fn put_on(&self, request: &mut SimRequest) {
        request.priority = self.priority;
        request.slo = self.slo;
        request.patience = self.patience;
        request.adapter = self.adapter;
    }
}

/// A number of a workload that cannot be played.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
#[error("{field} cannot be {given}: it {what}")]
pub struct WorkloadError {
    /// Which number.
    pub field: &'static str,
    /// As it was given.
    pub given: f64,
    /// What is wrong with it.
    pub what: &'static str,
}

pub(crate) fn positive(field: &'static str, given: f64) -> Result<(), WorkloadError> {
    if given.is_finite() && given > 0.0 {
        return Ok(());
    }
    Err(WorkloadError { field, given, what: "must be above 0" })
}

pub(crate) fn at_most(field: &'static str, given: f64, most: f64) -> Result<(), WorkloadError> {
    if (0.0..=most).contains(&given) {
        return Ok(());
    }
    Err(WorkloadError { field, given, what: "is below 0 or beyond all bounds" })
}

/// Cumulated popularity of so many ranks by Zipf's law.
pub(crate) fn zipf(ranks: usize, exponent: f64) -> Vec<f64> {
    let mut sum = 0.0;
    (1..=ranks.max(1))
        .map(|rank| {
            sum += (rank as f64).powf(-exponent);
            sum
        })
        .collect()
}

/// Where requests come from.
pub trait Workload {
    /// Tokens in one block of every chain.
    fn block_tokens(&self) -> u32;

    /// The next request that comes by itself, in order of arrival.
    fn next_request(&mut self) -> Option<SimRequest>;

    /// A request of this session ended at `at`, well or not: what it is followed
    /// by, which does not arrive before `at`.
    fn follow(&mut self, session: u64, at: Time, served: bool) -> Option<SimRequest> {
        let _ = (session, at, served);
        None
    }
}

/// The next link of a chain.
pub(crate) fn link(parent: u64, content: u64) -> u64 {
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&parent.to_le_bytes());
    bytes[8..].copy_from_slice(&content.to_le_bytes());
    xxhash_rust::xxh3::xxh3_64(&bytes)
}

/// Extends `chain` by `blocks` blocks that nobody else has unless he names the
/// same `content`.
pub(crate) fn extend(chain: &mut Vec<u64>, content: u64, blocks: u32) {
    let mut parent = chain.last().copied().unwrap_or(0x5eed);
    for block in 0..blocks {
        parent = link(parent, content.wrapping_add(u64::from(block).wrapping_mul(0x9e37_79b9)));
        chain.push(parent);
    }
}
