//! Prompts as completions and embeddings have them: texts and token ids.

use std::ops::Range;

use super::{
    prompt::{Kind, Walk},
    values::Free,
};
use crate::json::{Event, JsonError, Pull, Str, count_u32};

/// What an array of prompts turned out to be.
#[derive(Default)]
pub(super) struct Prompts {
    /// How many prompts it holds.
    pub(super) count: u32,
    /// Where the first one lies, when it is an array of token ids.
    pub(super) ids: Option<Range<usize>>,
}

/// Whether what comes next belongs to the first prompt.
#[derive(Clone, Copy, PartialEq, Eq)]
enum First {
    /// Nothing came yet.
    Awaited,
    /// The array is itself the first prompt, of token ids.
    Ids,
    Over,
}

impl Walk<'_, '_> {
    /// `prompt`, or an `input` of texts: a string, or an array of strings, of
    /// token ids or of arrays of token ids. Only the first prompt is rendered.
    pub(super) fn prompts(&mut self, found: &mut Prompts) -> Result<Kind, JsonError> {
        let first = self.pull.next()?;
        if first != Event::Null {
            self.render.section();
        }
        let start = match first {
            Event::Null => return Ok(Kind::Null),
            Event::String(text) => {
                self.prompt(text);
                return Ok(Kind::String);
            }
            Event::ArrayStart => self.pull.pos() - 1,
            Event::ObjectStart => {
                self.value(first, Free::Arguments)?;
                return Ok(Kind::Other);
            }
            _ => return Ok(Kind::Other),
        };
        let on = self.render.on;
        let mut first = First::Awaited;
        loop {
            let event = self.pull.next()?;
            match event {
                Event::ArrayEnd => break,
                Event::Number(at) => {
                    if first == First::Awaited {
                        first = First::Ids;
                    }
                    self.id(at);
                    continue;
                }
                Event::String(_) | Event::ArrayStart | Event::ObjectStart => {}
                _ => continue,
            }
            found.count = found.count.saturating_add(1);
            self.head.next_unit();
            self.render.on = on && first == First::Awaited;
            match event {
                Event::String(text) => self.prompt(text),
                Event::ArrayStart => {
                    let ids = self.prompt_of_ids()?;
                    if first == First::Awaited {
                        found.ids = ids;
                    }
                }
                event => self.value(event, Free::Arguments)?,
            }
            if first == First::Awaited {
                first = First::Over;
            }
            self.render.on = on && first == First::Ids;
        }
        self.render.on = on;
        if first == First::Ids {
            found.ids = Some(start..self.pull.pos());
        }
        Ok(Kind::Array)
    }

    fn prompt(&mut self, text: Str) {
        self.render.text(self.buf, text);
        self.head.push_text(self.buf, text);
        self.sizes.bytes += text.decoded_len();
    }

    /// One prompt of an array of prompts, given as an array; where it lies, when
    /// it has token ids.
    fn prompt_of_ids(&mut self) -> Result<Option<Range<usize>>, JsonError> {
        let (start, outside) = (self.pull.pos() - 1, self.pull.depth() - 1);
        let ids = self.sizes.ids;
        while self.pull.depth() > outside {
            match self.pull.next()? {
                Event::Number(at) => self.id(at),
                Event::String(text) => {
                    self.render.text(self.buf, text);
                    self.sizes.bytes += text.decoded_len();
                }
                _ => {}
            }
        }
        Ok((self.sizes.ids > ids).then(|| start..self.pull.pos()))
    }

    fn id(&mut self, at: Range<usize>) {
        let id = id_of(&self.buf[at]);
        self.head.push_id(id);
        self.render.id(id);
        self.sizes.ids += 1;
    }
}

/// What is no token id is the engine's to refuse; here it is one that no model has.
fn id_of(number: &[u8]) -> u32 {
    count_u32(number).unwrap_or(u32::MAX)
}

/// The token ids of the array at `span` of a body, as
/// [`Scan::token_ids_span`](super::Scan::token_ids_span) gives it. None when
/// that is no array of whole numbers from 0 to `u32::MAX`.
pub fn token_ids(body: &[u8], span: Range<usize>) -> Option<Vec<u32>> {
    let array = body.get(span)?;
    let mut pull = Pull::new(array);
    if pull.next().ok()? != Event::ArrayStart {
        return None;
    }
    // An id and its comma are two bytes at the least.
    let mut ids = Vec::with_capacity(array.len() / 5);
    loop {
        match pull.next().ok()? {
            Event::Number(at) => ids.push(count_u32(&array[at])?),
            Event::ArrayEnd => break,
            _ => return None,
        }
    }
    pull.end().ok()?;
    Some(ids)
}
