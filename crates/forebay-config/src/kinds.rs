//! The kinds of values that fields have.

mod duration;
mod number;
mod size;
mod text;
mod word;

pub(crate) use duration::{Span, SpanOrOff};
pub(crate) use number::{AtLeastOne, Int, Positive, Share};
pub(crate) use size::Bytes;
pub(crate) use text::{Address, Name, UrlPath, UrlText};
pub(crate) use word::{Flag, Word};

#[cfg(test)]
mod tests;
