//! Event streams (WHATWG HTML 9.2), observed and edited as they pass.
//!
//! Both parts work on whole events at any split of the stream, hold a bounded
//! part of one event at most, and can refuse nothing: what they cannot read
//! they let pass.

mod edit;
mod event;
mod frame;
mod template;
mod watch;

pub use edit::{ModelEditor, rewrite_model_json};
pub use event::Dialect;
pub use watch::Watcher;

/// True when `content_type` names an event stream, whatever its parameters.
pub fn looks_like_sse(content_type: &str) -> bool {
    let essence = content_type.split(';').next().unwrap_or_default();
    essence.trim().eq_ignore_ascii_case("text/event-stream")
}

#[cfg(test)]
mod cases_tests;
#[cfg(test)]
mod edit_tests;
#[cfg(test)]
mod splits_tests;
