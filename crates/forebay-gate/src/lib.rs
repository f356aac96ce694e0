//! The decision core.

mod policy_kind;

pub use policy_kind::{PolicyKind, UnknownPolicy};
