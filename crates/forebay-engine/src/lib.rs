//! A simulated model server: vLLM's HTTP interface in front of the engine model
//! of [`forebay_sim`], driven by the clock.
//!
//! On the wire it behaves as recordings of vLLM 0.32.0 show (`testdata/`): the
//! head of a stream goes out before the request is scheduled, chunks have the
//! same fields in the same order, idle connections close after five seconds.
//! Texts are made up, yet the same for the same prompt and seed.
//!
//! What it does not do: sampling parameters, stop strings, logprobs and tools
//! are accepted and have no effect; there are no images or sounds.
//!
//! **Tokens.** Four bytes of prompt text are one token (`ceil(bytes / 4)`, none
//! for the beginning), and a prompt of token ids has exactly as many. In a chat
//! a message has `6 + ceil((role bytes + 1) / 4) + ceil(content bytes / 4)`, and
//! the opening of the answer 6 more.
//!
//! **Lengths.** `ignore_eos: true` gives exactly `max_tokens` tokens. Otherwise
//! an answer has a length that follows from the prompt and the seed (lognormal,
//! mean 180, sigma 0.8), not less than `min_tokens`, cut at `max_tokens`.
//!
//! **Faults.** With [`EngineOptions::faults`], `POST /fault` takes
//! `{"kind": …}` and what the kind needs: `status` (`code`, `retry_after`),
//! `hang`, `cut` (`after` events, `how`: `fin` or `rst`), `stream_error` and
//! `abort` (`after`), `slow` (`factor`, or `speed`: 0.8), `freeze`, `crash`,
//! `restart` and `cut_off` (`seconds`), `engine_dead`, `none`; `count` bounds how
//! many requests are hit. `crash`, `restart` and `cut_off` may take the
//! connection that commands them before its answer is out. With faults on,
//! `POST /reset_prefix_cache` works too, as in vLLM's development mode.
//!
//! **Adapters.** All are known from the start; into memory comes one at its
//! first use, which takes [`EngineOptions::adapter_load`], and with
//! [`EngineOptions::max_loras`] some other may have to leave first.
//!
//! **KV events.** With [`EngineOptions::kv_events`] every block that becomes
//! findable or is evicted is announced over ZeroMQ as vLLM 0.32 does, with the
//! ids of its tokens: those of a prompt sent as ids, and of the answer.

mod adapters;
mod answer;
mod api;
mod body;
mod clock;
mod conn;
mod dialect;
mod error;
mod fault;
mod fields;
mod generation;
mod histogram;
mod infer;
mod kv;
mod metrics;
mod options;
mod orca;
mod other_pages;
mod page;
mod route;
mod server;
mod shared;
mod state;
mod tokens;

pub use dialect::MetricsDialect;
pub use fault::{Fault, FaultKind};
pub use options::EngineOptions;
pub use server::{Engine, EngineHandle, Exit};
pub use shared::EngineStats;
