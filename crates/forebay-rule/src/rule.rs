//! One rule, ready to be asked.

use std::sync::atomic::{AtomicU64, Ordering};

use forebay_core::CUSTOM_SIGNALS;

use crate::check::{Scope, cost, filter};
use crate::error::{Part, RuleError};
use crate::tree::{Flag, Number};
use crate::values::{EndpointVars, RequestVars, Values};
use crate::variables::{Variable, is_variable};

/// The longest expression, in bytes.
pub const MAX_EXPRESSION: usize = 4096;

/// The highest cost; what is above counts as this, what is below 0 as 0.
pub const MAX_COST_MS: f32 = 1e9;

/// What a rule says of one candidate for one request.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Verdict {
    /// It may not be picked.
    Filtered,
    /// So many milliseconds are added to its price; from 0 to [`MAX_COST_MS`].
    Cost(f32),
}

/// A compiled rule. Asking it takes no memory and changes nothing but its count
/// of expressions without an opinion.
#[derive(Debug)]
pub struct Rule {
    filter: Option<Flag>,
    cost: Option<Number>,
    /// Which variables are read, by their bits.
    reads: u32,
    no_opinion: AtomicU64,
}

impl Rule {
    /// Compiles both expressions. `signals` are the names of the operator's own
    /// signals in the order of [`EndpointVars::signals`].
    ///
    /// # Errors
    /// The first mistake: an expression that is too long, that cannot be
    /// parsed, that names what is not there, that mixes types, or that does not
    /// give what its part needs; or a signal that has the name of a variable.
    pub fn compile(filter: Option<&str>, cost_ms: Option<&str>, signals: &[&str]) -> Result<Rule, RuleError> {
        let about_signals = |message| Err(RuleError { part: Part::Signals, at: None, message });
        if signals.len() > CUSTOM_SIGNALS {
            return about_signals(format!("{} signals; at most {CUSTOM_SIGNALS} are read", signals.len()));
        }
        if let Some(name) = signals.iter().find(|name| is_variable(name)) {
            return about_signals(format!("\"{name}\" is the name of a variable; choose another name"));
        }
        let mut scope = Scope::new(signals);
        let filter = filter.map(|text| self::filter(text, &mut scope)).transpose()?;
        let cost = cost_ms.map(|text| self::cost(text, &mut scope)).transpose()?;
        Ok(Rule { filter, cost, reads: scope.reads(), no_opinion: AtomicU64::new(0) })
    }

    /// What it says of `endpoint` for `request`.
    pub fn eval(&self, request: &RequestVars<'_>, endpoint: &EndpointVars<'_>) -> Verdict {
        let values = Values { request, endpoint };
        if let Some(filter) = &self.filter {
            match filter.value(&values) {
                Some(true) => {}
                Some(false) => return Verdict::Filtered,
                None => self.has_no_opinion(),
            }
        }
        let Some(cost) = &self.cost else { return Verdict::Cost(0.0) };
        match cost.value(&values) {
            Some(ms) if !ms.is_nan() => Verdict::Cost(ms.clamp(0.0, f64::from(MAX_COST_MS)) as f32),
            _ => {
                self.has_no_opinion();
                Verdict::Cost(0.0)
            }
        }
    }

    fn has_no_opinion(&self) {
        self.no_opinion.fetch_add(1, Ordering::Relaxed);
    }

    /// How often an expression had no opinion, because what it needed was
    /// unknown or because it gave no number (`0/0`).
    pub fn no_opinion(&self) -> u64 {
        self.no_opinion.load(Ordering::Relaxed)
    }

    /// Whether some expression reads a variable, so that what is costly to find
    /// out is found out only when it is needed.
    pub fn reads(&self, variable: Variable) -> bool {
        self.reads & variable.bit() != 0
    }
}
