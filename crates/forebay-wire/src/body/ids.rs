//! Prompts as completions and embeddings have them: texts and token ids.

use std::ops::Range;

use super::{
    prompt::{Kind, Walk},
    values::Shape,
};
use crate::json::{Event, JsonError, Pull, Str, count_at};

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
                self.value(first, Shape::Message)?;
                return Ok(Kind::Other);
            }
            _ => return Ok(Kind::Other),
        };
        let on = self.render.on;
        let mut first = First::Awaited;
        loop {
            let ids = self.sizes.ids;
            let event = self.ids()?;
            if first == First::Awaited && self.sizes.ids > ids {
                first = First::Ids;
            }
            match event {
                Event::ArrayEnd => break,
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
                event => self.value(event, Shape::Message)?,
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
        self.render.bare_text(self.buf, text);
        self.head.push_text(self.buf, text);
        self.sizes.bytes += text.decoded_len();
    }

    /// One prompt of an array of prompts, given as an array; where it lies, when
    /// it begins with a token id.
    fn prompt_of_ids(&mut self) -> Result<Option<Range<usize>>, JsonError> {
        let (start, outside) = (self.pull.pos() - 1, self.pull.depth() - 1);
        let before = self.sizes.ids;
        let mut event = self.ids()?;
        let begins = self.sizes.ids > before;
        while self.pull.depth() > outside {
            if let Event::String(text) = event {
                self.render.bare_text(self.buf, text);
                self.sizes.bytes += text.decoded_len();
            }
            event = self.ids()?;
        }
        Ok(begins.then(|| start..self.pull.pos()))
    }

    /// All token ids up to the next event that is none.
    fn ids(&mut self) -> Result<Event, JsonError> {
        loop {
            let event = self.pull.next()?;
            let Event::Number(at) = event else { return Ok(event) };
            let id = id_of(self.buf, at);
            self.head.push_id(id);
            self.render.id(id);
            self.sizes.ids += 1;
        }
    }
}

/// What is no token id is the engine's to refuse; here it is one that no model has.
fn id_of(buf: &[u8], at: Range<usize>) -> u32 {
    count_at(buf, at).unwrap_or(u32::MAX)
}

/// The token ids of the array at `span` of a body, as
/// [`Scan::token_ids_span`](super::Scan::token_ids_span) gives it. None when
/// that is no array of non-negative whole numbers; those beyond `u32::MAX` are
/// clamped, as no model has such.
pub fn token_ids(body: &[u8], span: Range<usize>) -> Option<Vec<u32>> {
    let array = body.get(span)?;
    let mut pull = Pull::new(array);
    if pull.next().ok()? != Event::ArrayStart {
        return None;
    }
    // Most ids and their commas are five bytes or more.
    let mut ids = Vec::with_capacity(array.len() / 5);
    loop {
        match pull.next().ok()? {
            Event::Number(at) => ids.push(count_at(array, at)?),
            Event::ArrayEnd => break,
            _ => return None,
        }
    }
    pull.end().ok()?;
    Some(ids)
}
