//! The kinds of values that fields have.

mod duration;
mod key;
mod number;
mod place;
mod size;
mod symbol;
mod text;
mod word;

pub(crate) use duration::{Span, SpanOrOff};
pub(crate) use key::Key;
pub(crate) use number::{AtLeastOne, Fraction, Int, Positive, Share};
pub(crate) use place::{FilePath, PageUrl, Publisher};
pub(crate) use size::Bytes;
pub(crate) use symbol::{Expression, Line, Metric, ReportMetric, label_name_problem, signal_name_problem};
pub(crate) use text::{Address, Name, UrlPath, UrlText};
pub(crate) use word::{Flag, WeightSource, Word};

#[cfg(test)]
mod tests;
