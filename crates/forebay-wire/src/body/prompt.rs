//! Walking the parts of a body that hold prompt text: their size, the first
//! bytes for the affinity hash, and the blocks for the prefix index.
//!
//! Nothing inside is ever refused for its shape: what a message may look like
//! is the engine's to judge.

use super::{head::Head, render::Render, values::Shape};
use crate::json::{Event, JsonError, Pull, Str};

/// What was met while walking.
#[derive(Default)]
pub(super) struct Sizes {
    /// Decoded bytes of text.
    pub(super) bytes: usize,
    /// Token ids.
    pub(super) ids: usize,
}

/// What a value turned out to be, for the caller to judge.
#[derive(PartialEq, Eq)]
pub(super) enum Kind {
    Null,
    String,
    Array,
    Other,
}

/// One walk over `buf`, adding to a head, to sizes and to what is rendered.
pub(super) struct Walk<'w, 'a> {
    pub(super) buf: &'a [u8],
    pub(super) pull: &'w mut Pull<'a>,
    pub(super) head: &'w mut Head,
    pub(super) sizes: &'w mut Sizes,
    pub(super) render: &'w mut Render,
}

/// Where a content stands.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Level {
    Message,
    /// Inside a part: the result of a tool.
    Part,
}

impl Walk<'_, '_> {
    /// `messages`, or an `input` of items: an array of objects with `content`.
    /// A string stands for one message of the user.
    pub(super) fn messages(&mut self) -> Result<Kind, JsonError> {
        match self.pull.next()? {
            Event::Null => return Ok(Kind::Null),
            Event::String(text) => {
                self.head.next_unit();
                self.render.message("user");
                self.text(text, Level::Message);
                return Ok(Kind::String);
            }
            Event::ArrayStart => {}
            Event::ObjectStart => {
                self.pull.skip_to_depth(self.pull.depth() - 1)?;
                return Ok(Kind::Other);
            }
            _ => return Ok(Kind::Other),
        }
        let outside = self.pull.depth() - 1;
        loop {
            self.head.next_unit();
            match self.pull.next()? {
                Event::ArrayEnd => return Ok(Kind::Array),
                Event::ObjectStart => self.message()?,
                Event::String(text) => {
                    self.render.message("");
                    self.text(text, Level::Message);
                }
                Event::ArrayStart => self.pull.skip_to_depth(outside + 1)?,
                _ => {}
            }
        }
    }

    /// The keys of one message. Its role is rendered first, wherever it stands.
    fn message(&mut self) -> Result<(), JsonError> {
        let mut begun = false;
        while let Event::Key(key) = self.pull.next()? {
            if key.is(self.buf, b"role") {
                if begun { self.pull.skip_value()? } else { self.role()? }
            } else {
                if !begun {
                    self.role_ahead()?;
                }
                if key.is(self.buf, b"content") {
                    let first = self.pull.next()?;
                    self.content(first, Level::Message)?;
                } else {
                    self.field(key)?;
                }
            }
            begun = true;
        }
        if !begun {
            self.render.message("");
        }
        Ok(())
    }

    fn role(&mut self) -> Result<(), JsonError> {
        match self.pull.next()? {
            Event::String(role) => {
                self.render.message_of(self.buf, role);
                return Ok(());
            }
            Event::ObjectStart | Event::ArrayStart => self.pull.skip_to_depth(self.pull.depth() - 1)?,
            _ => {}
        }
        self.render.message("");
        Ok(())
    }

    /// The role of a message that began with another key, from behind that key.
    fn role_ahead(&mut self) -> Result<(), JsonError> {
        if !self.render.on {
            return Ok(());
        }
        let mut ahead = self.pull.clone();
        ahead.skip_value()?;
        while let Event::Key(key) = ahead.next()? {
            if !key.is(self.buf, b"role") {
                ahead.skip_value()?;
            } else if let Event::String(role) = ahead.next()? {
                self.render.message_of(self.buf, role);
                return Ok(());
            } else {
                break;
            }
        }
        self.render.message("");
        Ok(())
    }

    /// The instructions that stand before all messages, as a message of the
    /// system; none when they are empty.
    pub(super) fn system(&mut self) -> Result<(), JsonError> {
        match self.pull.next()? {
            Event::String(text) if text.is_empty() => Ok(()),
            first @ (Event::String(_) | Event::ObjectStart | Event::ArrayStart) => {
                self.render.message("system");
                self.content(first, Level::Message)
            }
            _ => Ok(()),
        }
    }

    /// What was begun by `first`: a string or an array of parts.
    fn content(&mut self, first: Event, level: Level) -> Result<(), JsonError> {
        match first {
            Event::String(text) => self.text(text, level),
            Event::ObjectStart => self.value(first, Shape::Message)?,
            Event::ArrayStart => self.parts(level)?,
            _ => {}
        }
        Ok(())
    }

    fn parts(&mut self, level: Level) -> Result<(), JsonError> {
        loop {
            match self.pull.next()? {
                Event::ArrayEnd => return Ok(()),
                Event::ObjectStart => self.part(level)?,
                Event::String(text) => self.text(text, level),
                first @ Event::ArrayStart => self.value(first, Shape::Message)?,
                _ => {}
            }
        }
    }

    /// The keys of one content part.
    fn part(&mut self, level: Level) -> Result<(), JsonError> {
        while let Event::Key(key) = self.pull.next()? {
            if key.is(self.buf, b"text") {
                match self.pull.next()? {
                    Event::String(text) => self.text(text, level),
                    first @ (Event::ObjectStart | Event::ArrayStart) => self.value(first, Shape::Message)?,
                    _ => {}
                }
            } else if level == Level::Message && key.is(self.buf, b"content") {
                let first = self.pull.next()?;
                if first != Event::Null {
                    self.render.key(self.buf, key);
                    self.content(first, Level::Part)?;
                }
            } else {
                self.field(key)?;
            }
        }
        Ok(())
    }

    fn text(&mut self, text: Str, level: Level) {
        self.render.text(self.buf, text);
        match level {
            Level::Message => {
                self.head.push_text(self.buf, text);
                self.sizes.bytes += text.decoded_len();
            }
            Level::Part => self.count(text),
        }
    }

    /// Counts a string, unless it is a file in disguise.
    pub(super) fn count(&mut self, text: Str) {
        if !text.starts_with(self.buf, b"data:") {
            self.sizes.bytes += text.decoded_len();
        }
    }
}
