//! What is read from pages and answers of every engine.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "helpers of tests")]

#[path = "signals/b46.rs"]
mod b46;
#[path = "signals/engines.rs"]
mod engines;
#[path = "signals/models.rs"]
mod models;
#[path = "signals/vllm.rs"]
mod vllm;

use forebay_wire::signals::{Dialect, Reader, Signals};

/// What `page` tells when nobody asked for a model.
fn read(dialect: Dialect, page: impl AsRef<[u8]>) -> Signals {
    Reader::new(dialect, None, &[]).read(page.as_ref())
}

/// The same, asked for `model`.
fn read_model(dialect: Dialect, model: &str, page: impl AsRef<[u8]>) -> Signals {
    Reader::new(dialect, Some(model), &[]).read(page.as_ref())
}
