//! Reading and writing the formats that pass through: request bodies, event
//! streams, token usage, error bodies, Prometheus text and KV-cache events.
//!
//! Pure functions over bytes. Nothing here builds a tree or allocates per
//! field, and no input makes it panic: requests are checked strictly, because
//! two parsers must not read two requests, while answers are only watched, so
//! whatever an engine sends is tolerated.

pub mod body;
pub mod error;
mod json;
pub mod kv_events;
pub mod orca;
pub mod prom;
pub mod signals;
pub mod sse;
pub mod usage;
