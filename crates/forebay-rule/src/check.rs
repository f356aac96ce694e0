//! From the parser's tree to ours: every name is known and every type fits.

mod call;

use cel::common::ast::{Expr, IdedExpr, LiteralValue};

use crate::error::{Part, RuleError};
use crate::parse::{Parsed, parse};
use crate::tree::{Flag, Number, Text};
use crate::variables::{Kind, TABLE, Variable};

/// How deep an expression may nest. A sum of so many terms nests as deep.
const MAX_DEPTH: u32 = 200;

/// The names that can be used, and which of them were.
pub(crate) struct Scope<'a> {
    signals: &'a [&'a str],
    reads: u32,
}

impl<'a> Scope<'a> {
    pub(crate) fn new(signals: &'a [&'a str]) -> Scope<'a> {
        Scope { signals, reads: 0 }
    }

    pub(crate) fn reads(&self) -> u32 {
        self.reads
    }

    fn find(&mut self, name: &str) -> Option<(Variable, Kind, bool)> {
        let signal = || {
            let place = self.signals.iter().position(|signal| *signal == name)?;
            Some((Variable::Signal(u8::try_from(place).ok()?), Kind::Number, true))
        };
        let built_in = TABLE.iter().find(|entry| entry.name == name);
        let found = built_in.map(|e| (e.variable, e.kind, e.unknown)).or_else(signal)?;
        self.reads |= found.0.bit();
        Some(found)
    }

    /// What a name that is not there was probably meant to be.
    fn near(&self, name: &str) -> Option<&'a str> {
        let names = TABLE.iter().map(|entry| entry.name).chain(self.signals.iter().copied());
        let near = names.map(|known| (strsim::jaro_winkler(known, name), known));
        near.filter(|(similarity, _)| *similarity > 0.75)
            .max_by(|a, b| a.0.total_cmp(&b.0))
            .map(|(_, name)| name)
    }
}

/// Compiles a condition.
pub(crate) fn filter(text: &str, scope: &mut Scope<'_>) -> Result<Flag, RuleError> {
    let parsed = parse(Part::Filter, text)?;
    Checker { parsed: &parsed, scope, depth: 0 }.flag(&parsed.root, "a filter")
}

/// Compiles a cost.
pub(crate) fn cost(text: &str, scope: &mut Scope<'_>) -> Result<Number, RuleError> {
    let parsed = parse(Part::CostMs, text)?;
    Checker { parsed: &parsed, scope, depth: 0 }.number(&parsed.root, "a cost")
}

/// A checked expression of any type.
enum Typed {
    Number(Number),
    Flag(Flag),
    Text(Text),
}

impl Typed {
    fn kind(&self) -> Kind {
        match self {
            Typed::Number(_) => Kind::Number,
            Typed::Flag(_) => Kind::Flag,
            Typed::Text(_) => Kind::Text,
        }
    }
}

struct Checker<'a, 's> {
    parsed: &'a Parsed<'a>,
    scope: &'a mut Scope<'s>,
    depth: u32,
}

type Checked<T> = Result<T, RuleError>;

impl Checker<'_, '_> {
    fn number(&mut self, at: &IdedExpr, what: &str) -> Checked<Number> {
        match self.any(at)? {
            Typed::Number(number) => Ok(number),
            other => self.mismatch(at, what, Kind::Number, other.kind()),
        }
    }

    fn flag(&mut self, at: &IdedExpr, what: &str) -> Checked<Flag> {
        match self.any(at)? {
            Typed::Flag(flag) => Ok(flag),
            other => self.mismatch(at, what, Kind::Flag, other.kind()),
        }
    }

    fn text(&mut self, at: &IdedExpr, what: &str) -> Checked<Text> {
        match self.any(at)? {
            Typed::Text(text) => Ok(text),
            other => self.mismatch(at, what, Kind::Text, other.kind()),
        }
    }

    fn mismatch<T>(&self, at: &IdedExpr, what: &str, needed: Kind, found: Kind) -> Checked<T> {
        let (needed, found) = (needed.as_str(), found.as_str());
        self.fail(at, format!("{what} needs {needed}, and this is {found}"))
    }

    fn fail<T>(&self, at: &IdedExpr, message: String) -> Checked<T> {
        Err(self.parsed.error(at, message))
    }

    fn any(&mut self, at: &IdedExpr) -> Checked<Typed> {
        if self.depth == MAX_DEPTH {
            return self.fail(at, format!("is nested deeper than {MAX_DEPTH}"));
        }
        self.depth += 1;
        let typed = match &at.expr {
            Expr::Literal(literal) => self.literal(at, literal),
            Expr::Ident(name) => self.variable(at, name),
            Expr::Call(call) => self.call(at, call),
            Expr::List(_) => {
                self.fail(at, "a list is only good for `in`, as in `zone in [\"a\", \"b\"]`".to_owned())
            }
            Expr::Select(_) => {
                self.fail(at, "nothing here has fields; name a variable alone, as in `waiting`".to_owned())
            }
            Expr::Map(_) | Expr::Struct(_) | Expr::Comprehension(_) | Expr::Unspecified => {
                self.fail(at, "is not supported in rules".to_owned())
            }
        };
        self.depth -= 1;
        typed
    }

    fn literal(&self, at: &IdedExpr, literal: &LiteralValue) -> Checked<Typed> {
        Ok(match literal {
            LiteralValue::Boolean(value) => Typed::Flag(Flag::Literal(*value.inner())),
            LiteralValue::Double(value) => Typed::Number(Number::Literal(*value.inner())),
            LiteralValue::Int(value) => Typed::Number(Number::Literal(*value.inner() as f64)),
            LiteralValue::UInt(value) => Typed::Number(Number::Literal(*value.inner() as f64)),
            LiteralValue::String(value) => Typed::Text(Text::Literal(value.inner().into())),
            LiteralValue::Null => {
                return self
                    .fail(at, "nothing here is null; write known(x) to ask whether x is known".to_owned());
            }
            LiteralValue::Bytes(_) => return self.fail(at, "bytes are not supported in rules".to_owned()),
        })
    }

    fn variable(&mut self, at: &IdedExpr, name: &str) -> Checked<Typed> {
        let Some((variable, kind, _)) = self.scope.find(name) else {
            let near = self.scope.near(name).map(|near| format!("; did you mean \"{near}\"?"));
            let message =
                format!("there is no variable \"{}\"{}", name.escape_debug(), near.unwrap_or_default());
            return self.fail(at, message);
        };
        Ok(match kind {
            Kind::Number => Typed::Number(Number::Variable(variable)),
            Kind::Flag => Typed::Flag(Flag::Variable(variable)),
            Kind::Text => Typed::Text(Text::Variable(variable)),
        })
    }
}
