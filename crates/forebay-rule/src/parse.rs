//! From text to the parser's tree, with the places of its parts.

use cel::common::ast::{IdedExpr, SourceInfo};

use crate::error::{Part, RuleError};
use crate::rule::MAX_EXPRESSION;

/// A parsed expression.
pub(crate) struct Parsed<'a> {
    pub(crate) root: IdedExpr,
    part: Part,
    text: &'a str,
    places: SourceInfo,
}

/// Parses one expression.
pub(crate) fn parse(part: Part, text: &str) -> Result<Parsed<'_>, RuleError> {
    let whole = |message: String| RuleError { part, at: None, message };
    if text.len() > MAX_EXPRESSION {
        return Err(whole(format!("is longer than {MAX_EXPRESSION} bytes")));
    }
    if text.trim().is_empty() {
        return Err(whole("is empty".to_owned()));
    }
    match cel::Env::default().with_optional_support(false).parser().parse_with_source_info(text) {
        Ok((root, places)) => Ok(Parsed { root, part, text, places }),
        Err(errors) => Err(match errors.errors.into_iter().next() {
            Some(first) => {
                let at = match first.pos {
                    (line, column) if line > 0 => {
                        Some((u32::try_from(line).unwrap_or(1), u32::try_from(column).unwrap_or(0).max(1)))
                    }
                    _ => None,
                };
                // It quotes the text, which may have anything in it.
                let message = first.msg.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
                RuleError { part, at, message }
            }
            None => whole("is not an expression".to_owned()),
        }),
    }
}

impl Parsed<'_> {
    /// An error at one part of the expression.
    pub(crate) fn error(&self, at: &IdedExpr, message: String) -> RuleError {
        let at = self.places.offset_for(at.id).map(|(start, _)| self.place(start as usize));
        RuleError { part: self.part, at, message }
    }

    /// Line and column of a place that is counted in bytes.
    fn place(&self, start: usize) -> (u32, u32) {
        let before = self.text.get(..start).unwrap_or(self.text);
        let line = before.matches('\n').count() + 1;
        let column = before.rsplit('\n').next().unwrap_or("").chars().count() + 1;
        (u32::try_from(line).unwrap_or(1), u32::try_from(column).unwrap_or(1))
    }
}
