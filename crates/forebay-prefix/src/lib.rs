//! Which endpoint holds which prompt prefix.
//!
//! A prompt is a [`chain`] of 64-bit hashes in which element `i` stands for the
//! whole prefix up to and including block `i`. The [`PrefixIndex`] remembers,
//! for every endpoint, the elements it is thought to hold, and answers for a
//! chain how many of its blocks each endpoint has from the start on.
//!
//! An endpoint holds a block for one of three reasons:
//! - *optimistic*: a request with this block is in flight to it ([`PrefixIndex::begin`]);
//! - *committed*: it served a request with this block ([`PrefixIndex::end`]), and
//!   by its capacity and the age of the block it should still have it;
//! - *confirmed*: the engine said so ([`PrefixIndex::insert_confirmed`]), for the
//!   accelerator's memory, the host's, or both.

//!
//! # How it is kept
//! Consecutive blocks that are held alike are one *run* of up to 64 blocks, with
//! one set of holders (`store`). Readers walk along the runs of a chain without a
//! lock (`lookup`); one writer at a time changes them (`write`).

mod chain;
mod config;
pub mod engine_map;
mod index;
mod lookup;
mod matches;
mod snapshot;
mod stats;
mod store;
mod write;

pub use chain::{Kind, chain, next, seed, token_blocks};
pub use config::IndexConfig;
pub use index::{PrefixIndex, Tier};
pub use matches::{Match, Matches};
pub use snapshot::{Restored, SnapshotError};
pub use stats::Stats;
