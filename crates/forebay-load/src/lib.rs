//! Traffic for `forebay demo` and `forebay replay`, and the summary of what
//! came back.
//!
//! - [`DemoTraffic`] describes conversations; [`run_demo_traffic`] plays them.
//! - [`GroupsTraffic`] describes conversations in groups that share a system
//!   prompt; [`run_groups_traffic`] plays them.
//! - [`trace`] reads recorded traces; [`replay`] sends one.
//! - [`Live`] can be read while either runs; [`Finished`] is what is left.
//!
//! What is sent depends only on the options and the seed. The one exception is
//! meant: a turn of a conversation repeats the answers that really came and
//! follows the end of the last one by its think time.

mod answer;
mod call;
mod chat;
mod conversation;
mod demo;
mod error;
mod groups;
mod ideal;
mod live;
mod models;
mod progress;
mod prompt;
mod replay;
mod run_groups;
mod seed;
mod summary;
mod table;
mod tally;
mod text;
pub mod trace;
mod traffic;
mod windows;

#[cfg(test)]
mod fake_server;

pub use conversation::{Conversation, Schedule, Turn};
pub use demo::{DemoOptions, run_demo_traffic};
pub use error::LoadError;
pub use groups::GroupsTraffic;
pub use live::{Live, LiveView};
pub use prompt::PromptForm;
pub use replay::{ReplayOptions, prompt_ids, replay};
pub use run_groups::{GroupsOptions, run_groups_traffic};
pub use summary::{EndpointShare, Finished, Quantiles, ShareWindow, Slo, Summary, WindowShare};
pub use traffic::DemoTraffic;
