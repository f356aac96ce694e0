//! Rules: the operator's own say in which endpoint gets a request.
//!
//! A rule is one or two expressions in the Common Expression Language (CEL)
//! over what is known of a candidate and of the request: a condition that a
//! candidate must meet, and a number of milliseconds that is added to its
//! price. [`variables`] has the one table of everything they can name.
//!
//! An expression is parsed by the `cel` crate and checked once, as a whole:
//! every name and every type. What is left is a small tree of numbers, flags
//! and texts that is evaluated for each candidate of each request without
//! memory, and that cannot fail. The differences to CEL at large:
//!
//! - every number is a double, also one that is written without a point, so
//!   that `waiting * 20` means what it says;
//! - a figure that nobody told is *unknown*, and so is everything computed from
//!   it, except where the rest decides alone (`false && x`, `true || x`).
//!   `known(x)` asks, and `value_or(x, 0)` gives a value for that case;
//! - an expression whose value is unknown has no opinion: the candidate is not
//!   filtered, and nothing is added to its price;
//! - there are neither macros nor maps nor a way to build texts or lists at run
//!   time, so that the time an expression takes is bounded by its length.

mod check;
mod error;
mod parse;
mod rule;
#[cfg(test)]
mod tests;
mod tree;
mod values;
pub mod variables;

pub use error::{Part, RuleError};
pub use rule::{MAX_COST_MS, MAX_EXPRESSION, Rule, Verdict};
pub use values::{EndpointVars, RequestVars};
pub use variables::{Variable, is_variable};
