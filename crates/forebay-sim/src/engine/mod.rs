//! One model server as a state machine: continuous batching, chunked prefill,
//! a prefix cache of fixed-size KV blocks, preemption by recompute.
//!
//! The same [`EngineModel`] is driven by the real clock in the HTTP engine and
//! by the event queue of the fleet simulator, so there is only one notion of
//! how an engine behaves. A caller tells it the time and takes the events:
//!
//! ```
//! use forebay_core::Time;
//! use forebay_sim::engine::{EngineEvent, EngineModel, EngineRequest, Profile};
//!
//! let profile = *Profile::by_name("h100-8b").ok_or("no such profile")?;
//! let mut engine = EngineModel::new(profile);
//! let request = EngineRequest { prompt_tokens: 100, output_tokens: 2, ..EngineRequest::default() };
//! engine.enqueue(Time::ZERO, request)?;
//! let mut events = Vec::new();
//! while let Some(at) = engine.next_time() {
//!     engine.advance(at, &mut events);
//! }
//! assert!(matches!(events.last(), Some(EngineEvent::Finished { .. })));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod blocks;
mod chain;
mod event;
mod log;
mod model;
mod profile;
mod schedule;
mod sequence;

#[cfg(test)]
mod log_tests;
#[cfg(test)]
mod model_tests;
#[cfg(test)]
mod property_tests;

pub use chain::block_chain;
pub use event::{EngineEvent, EngineLoad, EngineRequest, EnqueueError, SeqId};
pub use log::{BlockChange, BlockChanges};
pub use model::EngineModel;
pub use profile::Profile;
