//! A checked expression and its value. `None` is unknown.

use std::cmp::Ordering;

use crate::values::Values;
use crate::variables::Variable;

/// An expression that gives a number.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Number {
    Literal(f64),
    Variable(Variable),
    Arithmetic(Arithmetic, Box<(Number, Number)>),
    Negate(Box<Number>),
    Choose(Box<(Flag, Number, Number)>),
    ValueOr(Box<(Number, Number)>),
}

/// What is done with two numbers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Arithmetic {
    Add,
    Subtract,
    Multiply,
    Divide,
    Min,
    Max,
}

/// An expression that gives a text. A text is never unknown.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Text {
    Literal(Box<str>),
    Variable(Variable),
}

/// An expression that gives true or false.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Flag {
    Literal(bool),
    Variable(Variable),
    Not(Box<Flag>),
    And(Box<(Flag, Flag)>),
    Or(Box<(Flag, Flag)>),
    Numbers(Comparison, Box<(Number, Number)>),
    Texts(Comparison, Text, Text),
    Same(Box<(Flag, Flag)>),
    NumberIn(Box<Number>, Vec<Number>),
    TextIn(Text, Vec<Text>),
    StartsWith(Text, Text),
    EndsWith(Text, Text),
    Contains(Text, Text),
    Known(Variable),
    Choose(Box<(Flag, Flag, Flag)>),
    ValueOr(Box<(Flag, Flag)>),
}

/// How two values are compared.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Comparison {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

impl Comparison {
    /// A value that is not a number equals nothing and has no order.
    fn of(self, order: Option<Ordering>) -> Option<bool> {
        Some(match self {
            Comparison::Equal => order == Some(Ordering::Equal),
            Comparison::NotEqual => order != Some(Ordering::Equal),
            Comparison::Less => order? == Ordering::Less,
            Comparison::LessOrEqual => order? != Ordering::Greater,
            Comparison::Greater => order? == Ordering::Greater,
            Comparison::GreaterOrEqual => order? != Ordering::Less,
        })
    }
}

impl Number {
    pub(crate) fn value(&self, values: &Values<'_>) -> Option<f64> {
        match self {
            Number::Literal(value) => Some(*value),
            Number::Variable(variable) => values.number(*variable),
            Number::Arithmetic(operation, of) => {
                let (a, b) = (of.0.value(values)?, of.1.value(values)?);
                Some(match operation {
                    Arithmetic::Add => a + b,
                    Arithmetic::Subtract => a - b,
                    Arithmetic::Multiply => a * b,
                    Arithmetic::Divide => a / b,
                    Arithmetic::Min => a.min(b),
                    Arithmetic::Max => a.max(b),
                })
            }
            Number::Negate(of) => of.value(values).map(|value| -value),
            Number::Choose(of) => {
                if of.0.value(values)? {
                    of.1.value(values)
                } else {
                    of.2.value(values)
                }
            }
            Number::ValueOr(of) => of.0.value(values).or_else(|| of.1.value(values)),
        }
    }
}

impl Text {
    pub(crate) fn value<'a>(&'a self, values: &Values<'a>) -> &'a str {
        match self {
            Text::Literal(text) => text,
            Text::Variable(variable) => values.text(*variable),
        }
    }
}

impl Flag {
    pub(crate) fn value(&self, values: &Values<'_>) -> Option<bool> {
        match self {
            Flag::Literal(value) => Some(*value),
            Flag::Variable(variable) => values.flag(*variable),
            Flag::Not(of) => of.value(values).map(|value| !value),
            Flag::And(of) => match of.0.value(values) {
                Some(false) => Some(false),
                left => match of.1.value(values) {
                    Some(false) => Some(false),
                    right => left.and(right),
                },
            },
            Flag::Or(of) => match of.0.value(values) {
                Some(true) => Some(true),
                left => match of.1.value(values) {
                    Some(true) => Some(true),
                    right => left.and(right),
                },
            },
            Flag::Numbers(how, of) => {
                let (a, b) = (of.0.value(values)?, of.1.value(values)?);
                how.of(a.partial_cmp(&b))
            }
            Flag::Texts(how, a, b) => how.of(Some(a.value(values).cmp(b.value(values)))),
            Flag::Same(of) => Some(of.0.value(values)? == of.1.value(values)?),
            Flag::NumberIn(of, list) => {
                let value = of.value(values)?;
                // All of them: one that is unknown could be the one.
                let mut found = false;
                for item in list {
                    found |= item.value(values)? == value;
                }
                Some(found)
            }
            Flag::TextIn(of, list) => {
                let value = of.value(values);
                Some(list.iter().any(|item| item.value(values) == value))
            }
            Flag::StartsWith(a, b) => Some(a.value(values).starts_with(b.value(values))),
            Flag::EndsWith(a, b) => Some(a.value(values).ends_with(b.value(values))),
            Flag::Contains(a, b) => Some(a.value(values).contains(b.value(values))),
            Flag::Known(variable) => {
                Some(values.number(*variable).is_some() || values.flag(*variable).is_some())
            }
            Flag::Choose(of) => {
                if of.0.value(values)? {
                    of.1.value(values)
                } else {
                    of.2.value(values)
                }
            }
            Flag::ValueOr(of) => of.0.value(values).or_else(|| of.1.value(values)),
        }
    }
}
