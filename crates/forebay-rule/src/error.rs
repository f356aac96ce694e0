//! What can be wrong with a rule.

use std::fmt;

/// A part of a rule.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Part {
    /// The condition.
    Filter,
    /// The cost.
    CostMs,
    /// The names of the operator's own signals.
    Signals,
}

impl Part {
    /// The word in the configuration.
    pub const fn as_str(self) -> &'static str {
        match self {
            Part::Filter => "filter",
            Part::CostMs => "cost_ms",
            Part::Signals => "signals",
        }
    }
}

/// Why a rule cannot be used.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{}: {}", .part.as_str(), self.reason())]
pub struct RuleError {
    /// Where.
    pub part: Part,
    /// Line and column in the expression, both from 1, in characters; none when
    /// it is about the whole.
    pub at: Option<(u32, u32)>,
    /// What is wrong.
    pub message: String,
}

impl RuleError {
    /// The place in the expression and what is wrong there, without the part.
    pub fn reason(&self) -> impl fmt::Display + '_ {
        struct Reason<'a>(&'a RuleError);
        impl fmt::Display for Reason<'_> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                match self.0.at {
                    Some((1, column)) => write!(f, "column {column} of the expression: {}", self.0.message),
                    Some((line, column)) => {
                        write!(f, "line {line}, column {column} of the expression: {}", self.0.message)
                    }
                    None => f.write_str(&self.0.message),
                }
            }
        }
        Reason(self)
    }
}
