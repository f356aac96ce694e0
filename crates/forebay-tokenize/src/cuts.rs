//! Where a text can be cut so that its parts give the same tokens as the whole.
//!
//! A tokenizer first finds its added tokens in the text, leftmost and longest
//! first, and then treats what lies between two of them on its own: normalising,
//! splitting into words and merging all happen inside one such piece. So a text
//! can be cut behind an added token, if that token is found there whatever comes
//! before and after. It is when
//!
//! - it is looked for in the text as it is, not in the normalised one;
//! - it does not ask for word borders around it, nor begins with white space,
//!   which one before it could take along;
//! - no other such token, nor a second one of its kind, can overlap it: none
//!   contains it, ends with what it begins with, or begins with what it ends with.
//!
//! A part is tokenised together with the token before it, which is then left
//! out: the very beginning of a text is special to some tokenizers, and some
//! tokens take the white space behind them along.

use std::ops::Range;

use tokenizers::AddedToken;

/// A part shorter than this is not worth an entry of its own. Where a text is
/// cut depends only on what comes before, so texts that begin alike are cut alike.
const MIN_SEGMENT: usize = 64;

/// Part of a text.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Segment {
    /// Its bytes, with the token before it.
    pub(crate) range: Range<usize>,
    /// That token's id; `None` at the beginning of the text.
    pub(crate) lead: Option<u32>,
}

/// The tokens behind which a text can be cut.
pub(crate) struct Cuts {
    /// In the order of their bytes; none begins with another.
    tokens: Vec<(Box<str>, u32)>,
    /// Whether a token begins with this byte.
    first: [bool; 256],
}

impl Cuts {
    /// Those of a tokenizer's added tokens that always split.
    pub(crate) fn of(added: impl Iterator<Item = (u32, AddedToken)>) -> Cuts {
        let raw: Vec<(u32, AddedToken)> =
            added.filter(|(_, token)| !token.normalized && !token.content.is_empty()).collect();
        let mut tokens: Vec<(Box<str>, u32)> = raw
            .iter()
            .filter(|(_, token)| {
                !token.single_word
                    && !token.content.starts_with(char::is_whitespace)
                    && raw.iter().all(|(_, other)| !overlap(&token.content, &other.content))
            })
            .map(|(id, token)| (token.content.as_str().into(), *id))
            .collect();
        tokens.sort();
        let mut first = [false; 256];
        tokens.iter().for_each(|(token, _)| first[usize::from(token.as_bytes()[0])] = true);
        Cuts { tokens, first }
    }

    /// The text in parts, in order.
    pub(crate) fn segments(&self, text: &str) -> Vec<Segment> {
        let bytes = text.as_bytes();
        let mut segments = Vec::new();
        let mut at = 0;
        // Where the part begins, and the token before it.
        let (mut begin, mut before) = (0, None::<(usize, u32)>);
        while at < bytes.len() {
            if !self.first[usize::from(bytes[at])] {
                at += 1;
                continue;
            }
            let Some((token, id)) = self.at(&bytes[at..]) else {
                at += 1;
                continue;
            };
            let end = at + token.len();
            if end - begin >= MIN_SEGMENT && end < bytes.len() {
                segments.push(segment(begin, end, before));
                (begin, before) = (end, Some((at, id)));
            }
            at = end;
        }
        if begin < bytes.len() {
            segments.push(segment(begin, bytes.len(), before));
        }
        segments
    }

    /// The token with which `rest` begins. No token begins with another, so
    /// only the last one that is not greater can be it.
    fn at(&self, rest: &[u8]) -> Option<(&str, u32)> {
        let after = self.tokens.partition_point(|(token, _)| token.as_bytes() <= rest);
        let (token, id) = self.tokens.get(after.checked_sub(1)?)?;
        rest.starts_with(token.as_bytes()).then_some((token, *id))
    }
}

fn segment(begin: usize, end: usize, before: Option<(usize, u32)>) -> Segment {
    Segment { range: before.map_or(begin, |(start, _)| start)..end, lead: before.map(|(_, id)| id) }
}

/// Whether an `other` in a text can hide a `token`: it holds it, ends with what
/// the token begins with, or begins with what it ends with. A token of the same
/// text can overlap itself.
fn overlap(token: &str, other: &str) -> bool {
    let (token, other) = (token.as_bytes(), other.as_bytes());
    let meets = |left: &[u8], right: &[u8]| {
        (1..left.len().min(right.len())).any(|n| left[left.len() - n..] == right[..n])
    };
    let holds = other.len() > token.len() && other.windows(token.len()).any(|part| part == token);
    holds || meets(token, other) || meets(other, token)
}

#[cfg(test)]
mod tests;
