//! A strict RFC 8259 pull scanner over a byte slice.
//!
//! It checks the whole grammar, UTF-8 included, keeps nesting in a bit stack
//! and hands out spans; strings are decoded only when somebody asks.

mod bytes;
mod escape;
mod extent;
mod number;
mod pull;
mod string;
mod unescape;

pub(crate) use escape::push_string;
pub(crate) use number::{count_at, count_u32, lenient_u64};
pub(crate) use pull::{Event, Pull};
pub(crate) use string::Str;
pub(crate) use unescape::{ROOM, Unescape};

/// What is wrong with a text that is not JSON, and where.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct JsonError {
    /// Offset of the offending byte; the length of the text when it ends too early.
    pub(crate) at: usize,
    /// What was expected or found, as part of a sentence.
    pub(crate) what: &'static str,
}

#[cfg(test)]
mod tests;
