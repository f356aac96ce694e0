//! What the user writes, field by field; docs/simulation.md describes it.

use serde::Deserialize;

use super::kinds::{Change, Factor};
use super::{MOST_ENDPOINTS, MOST_POOLS};
use crate::kinds::{Bytes, Flag, Fraction, Int, Name, Positive, Share, Span};
use crate::raw::Field;
use crate::scalar::Scalar;

const HOUR: u64 = 3_600_000;
const DAY: u64 = 24 * HOUR;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawFleet {
    pub(super) version: Field<Int<1, 1>>,
    pub(super) endpoints: Option<Vec<RawGroup>>,
    pub(super) zones: Option<Vec<RawZone>>,
    pub(super) pools: Field<Int<1, { MOST_POOLS as u64 }>>,
    pub(super) gateways: Field<Int<1, 1024>>,
    pub(super) gateway_shares: Option<Vec<Scalar<Share>>>,
    pub(super) share_interval: Field<Span<1, HOUR>>,
    pub(super) scrape_interval: Field<Span<1, HOUR>>,
    pub(super) kv_events_delay: Field<Span<0, HOUR>>,
    pub(super) gateway_overhead: Field<Span<0, 60_000>>,
    pub(super) events: Option<Vec<RawEvent>>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawGroup {
    pub(super) name: Field<Name>,
    pub(super) class: Field<Name>,
    pub(super) step: Option<RawStep>,
    pub(super) count: Field<Int<1, { MOST_ENDPOINTS as u64 }>>,
    pub(super) speed: Field<Factor>,
    pub(super) weight: Field<Positive>,
    pub(super) accelerator: Field<Name>,
    pub(super) zone: Field<Name>,
    pub(super) round_trip: Field<Span<0, 60_000>>,
    pub(super) kv_tokens: Field<Int<16, 1_000_000_000>>,
    pub(super) memory: Option<RawMemory>,
    pub(super) max_num_seqs: Field<Int<1, 65_536>>,
    pub(super) max_batched_tokens: Field<Int<1, 1_048_576>>,
    pub(super) host_tier: Option<RawHostTier>,
    pub(super) adapters: Option<RawAdapters>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawStep {
    pub(super) base_ms: Field<Share>,
    pub(super) token_ms: Field<Share>,
    pub(super) pair_ms: Field<Share>,
    pub(super) context_ms: Field<Share>,
    pub(super) stream_ms: Field<Share>,
}

/// The accelerators' memory, from which `kv_tokens` follows.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawMemory {
    pub(super) total: Field<Bytes<1, { 1 << 50 }>>,
    pub(super) usable: Field<Fraction>,
    pub(super) weights: Field<Bytes<0, { 1 << 50 }>>,
    pub(super) per_token: Field<Bytes<1, { 1 << 30 }>>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawHostTier {
    pub(super) tokens: Field<Int<1, 1_000_000_000_000>>,
    pub(super) ms_per_token: Field<Fraction>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawAdapters {
    pub(super) slots: Field<Int<1, 65_536>>,
    pub(super) load: Field<Span<0, HOUR>>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawZone {
    pub(super) name: Field<Name>,
    pub(super) round_trip: Field<Span<0, 60_000>>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawEvent {
    pub(super) at: Field<Span<0, { 366 * DAY }>>,
    pub(super) endpoint: Field<Name>,
    pub(super) change: Field<Change>,
    pub(super) speed: Field<Factor>,
    pub(super) back_after: Field<Span<0, { 366 * DAY }>>,
    pub(super) keep_cache: Field<Flag>,
}
