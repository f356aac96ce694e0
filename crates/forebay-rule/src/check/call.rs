//! Operators and functions.

use cel::common::ast::{CallExpr, Expr, IdedExpr, operators};

use super::{Checked, Checker, Typed};
use crate::tree::{Arithmetic, Comparison, Flag, Number, Text};

/// The functions that there are, for messages.
const FUNCTIONS: &str = "known, value_or, min, max, and startsWith, endsWith and contains of a text";

impl Checker<'_, '_> {
    pub(super) fn call(&mut self, at: &IdedExpr, call: &CallExpr) -> Checked<Typed> {
        let name = call.func_name.as_str();
        match (&call.target, call.args.as_slice()) {
            (None, [a]) => match name {
                operators::LOGICAL_NOT => Ok(Typed::Flag(Flag::Not(Box::new(self.flag(a, "`!`")?)))),
                operators::NEGATE => Ok(Typed::Number(Number::Negate(Box::new(self.number(a, "`-`")?)))),
                "known" => self.known(a),
                _ => self.unknown_function(at, call),
            },
            (None, [a, b]) => self.two(at, call, a, b),
            (None, [condition, a, b]) if name == operators::CONDITIONAL => {
                let condition = self.flag(condition, "the condition before `?`")?;
                Ok(match self.pair(at, "both sides of `:`", a, b)? {
                    Pair::Numbers(a, b) => Typed::Number(Number::Choose(Box::new((condition, a, b)))),
                    Pair::Flags(a, b) => Typed::Flag(Flag::Choose(Box::new((condition, a, b)))),
                    Pair::Texts(..) => {
                        return self.fail(at, "a text cannot be chosen; compare each".to_owned());
                    }
                })
            }
            (Some(target), [a]) => {
                let test = match name {
                    "startsWith" => Flag::StartsWith,
                    "endsWith" => Flag::EndsWith,
                    "contains" => Flag::Contains,
                    _ => return self.unknown_function(at, call),
                };
                let text = self.text(target, name)?;
                Ok(Typed::Flag(test(text, self.text(a, name)?)))
            }
            _ => self.unknown_function(at, call),
        }
    }

    fn two(&mut self, at: &IdedExpr, call: &CallExpr, a: &IdedExpr, b: &IdedExpr) -> Checked<Typed> {
        let operation = match call.func_name.as_str() {
            operators::ADD => Some(Arithmetic::Add),
            operators::SUBSTRACT => Some(Arithmetic::Subtract),
            operators::MULTIPLY => Some(Arithmetic::Multiply),
            operators::DIVIDE => Some(Arithmetic::Divide),
            "min" => Some(Arithmetic::Min),
            "max" => Some(Arithmetic::Max),
            _ => None,
        };
        if let Some(operation) = operation {
            let what = format!("`{}`", shown(&call.func_name));
            let both = (self.number(a, &what)?, self.number(b, &what)?);
            return Ok(Typed::Number(Number::Arithmetic(operation, Box::new(both))));
        }
        Ok(Typed::Flag(match call.func_name.as_str() {
            operators::LOGICAL_AND => Flag::And(Box::new((self.flag(a, "`&&`")?, self.flag(b, "`&&`")?))),
            operators::LOGICAL_OR => Flag::Or(Box::new((self.flag(a, "`||`")?, self.flag(b, "`||`")?))),
            operators::EQUALS => self.compare(at, Comparison::Equal, a, b)?,
            operators::NOT_EQUALS => self.compare(at, Comparison::NotEqual, a, b)?,
            operators::LESS => self.compare(at, Comparison::Less, a, b)?,
            operators::LESS_EQUALS => self.compare(at, Comparison::LessOrEqual, a, b)?,
            operators::GREATER => self.compare(at, Comparison::Greater, a, b)?,
            operators::GREATER_EQUALS => self.compare(at, Comparison::GreaterOrEqual, a, b)?,
            operators::IN => self.is_in(a, b)?,
            operators::MODULO => {
                return self.fail(at, "numbers are doubles in rules and have no `%`".to_owned());
            }
            "value_or" => {
                return Ok(match self.pair(at, "both values of value_or", a, b)? {
                    Pair::Numbers(a, b) => Typed::Number(Number::ValueOr(Box::new((a, b)))),
                    Pair::Flags(a, b) => Typed::Flag(Flag::ValueOr(Box::new((a, b)))),
                    Pair::Texts(..) => return self.fail(at, "a text is always known".to_owned()),
                });
            }
            _ => return self.unknown_function(at, call),
        }))
    }

    fn compare(&mut self, at: &IdedExpr, how: Comparison, a: &IdedExpr, b: &IdedExpr) -> Checked<Flag> {
        Ok(match self.pair(at, "both sides of a comparison", a, b)? {
            Pair::Numbers(a, b) => Flag::Numbers(how, Box::new((a, b))),
            Pair::Texts(a, b) => Flag::Texts(how, a, b),
            Pair::Flags(a, b) => match how {
                Comparison::Equal => Flag::Same(Box::new((a, b))),
                Comparison::NotEqual => Flag::Not(Box::new(Flag::Same(Box::new((a, b))))),
                _ => return self.fail(at, "true and false have no order".to_owned()),
            },
        })
    }

    fn is_in(&mut self, a: &IdedExpr, b: &IdedExpr) -> Checked<Flag> {
        let Expr::List(list) = &b.expr else {
            return self.fail(b, "`in` needs a list, as in `zone in [\"a\", \"b\"]`".to_owned());
        };
        let what = "a list with this on the left of `in`";
        Ok(match self.any(a)? {
            Typed::Number(value) => {
                let list: Checked<Vec<Number>> = list.elements.iter().map(|e| self.number(e, what)).collect();
                Flag::NumberIn(Box::new(value), list?)
            }
            Typed::Text(value) => {
                let list: Checked<Vec<Text>> = list.elements.iter().map(|e| self.text(e, what)).collect();
                Flag::TextIn(value, list?)
            }
            Typed::Flag(_) => return self.fail(a, "`in` needs a number or a text on its left".to_owned()),
        })
    }

    fn known(&mut self, at: &IdedExpr) -> Checked<Typed> {
        let Expr::Ident(name) = &at.expr else {
            return self.fail(at, "known() needs the name of a variable".to_owned());
        };
        self.variable(at, name)?;
        match self.scope.find(name) {
            Some((variable, _, true)) => Ok(Typed::Flag(Flag::Known(variable))),
            _ => self.fail(at, format!("\"{name}\" is always known")),
        }
    }

    fn pair(&mut self, at: &IdedExpr, what: &str, a: &IdedExpr, b: &IdedExpr) -> Checked<Pair> {
        Ok(match (self.any(a)?, self.any(b)?) {
            (Typed::Number(a), Typed::Number(b)) => Pair::Numbers(a, b),
            (Typed::Flag(a), Typed::Flag(b)) => Pair::Flags(a, b),
            (Typed::Text(a), Typed::Text(b)) => Pair::Texts(a, b),
            (a, b) => {
                let (a, b) = (a.kind().as_str(), b.kind().as_str());
                return self.fail(at, format!("{what} must be of one type, and these are {a} and {b}"));
            }
        })
    }

    fn unknown_function<T>(&self, at: &IdedExpr, call: &CallExpr) -> Checked<T> {
        let name = call.func_name.as_str();
        let message = match name {
            "has" => "has() is for fields; write known(x) to ask whether x is known".to_owned(),
            "known" | "value_or" | "min" | "max" | "startsWith" | "endsWith" | "contains" => {
                let form = match name {
                    "known" => "known(x)",
                    "value_or" => "value_or(x, 0)",
                    "min" | "max" => "min(x, y) and max(x, y)",
                    _ => "text.startsWith(\"x\"), text.endsWith(\"x\") and text.contains(\"x\")",
                };
                format!("\"{name}\" is not used like this; the form is {form}")
            }
            operators::INDEX => "nothing here can be indexed".to_owned(),
            _ => format!("there is no function \"{}\"; there are {FUNCTIONS}", shown(name).escape_debug()),
        };
        self.fail(at, message)
    }
}

/// Two expressions of one type.
enum Pair {
    Numbers(Number, Number),
    Flags(Flag, Flag),
    Texts(Text, Text),
}

/// An operator as it is written; the parser calls it `_+_`.
fn shown(name: &str) -> &str {
    name.strip_prefix('_').and_then(|name| name.strip_suffix('_')).unwrap_or(name)
}
