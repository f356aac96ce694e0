//! The scanner itself: one event at a time, no recursion.

use std::ops::Range;

use super::{JsonError, Str, number};

/// Deepest nesting that is accepted. Engines stop earlier (Python at about
/// 1,000, serde_json at 128), real bodies stay under 20.
pub(super) const MAX_DEPTH: usize = 512;

/// What the scanner met.
// The tag fills a word: were it a byte, the rest would be copied from the byte
// behind it on, and the processor would wait for words that it wrote in halves.
#[repr(u64)]
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Event {
    ObjectStart,
    ObjectEnd,
    ArrayStart,
    ArrayEnd,
    /// A key; its value follows.
    Key(Str),
    String(Str),
    /// A number, as written.
    Number(Range<usize>),
    Bool(bool),
    Null,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Expect {
    Value,
    /// After `[`.
    ValueOrEnd,
    /// After `{`.
    KeyOrEnd,
    /// After a value inside a container.
    CommaOrEnd,
    /// After the top-level value.
    Nothing,
}

/// A scan of one JSON text.
#[derive(Clone)]
pub(crate) struct Pull<'a> {
    buf: &'a [u8],
    pos: usize,
    depth: usize,
    /// One bit per open container, set for objects.
    objects: [u64; MAX_DEPTH / 64],
    expect: Expect,
}

impl<'a> Pull<'a> {
    /// A scanner at the start of `buf`.
    pub(crate) fn new(buf: &'a [u8]) -> Pull<'a> {
        Pull { buf, pos: 0, depth: 0, objects: [0; MAX_DEPTH / 64], expect: Expect::Value }
    }

    /// A scanner before the key at `pos` of a top-level object.
    pub(crate) fn at_key(buf: &'a [u8], pos: usize) -> Pull<'a> {
        let mut pull = Pull { pos, depth: 1, expect: Expect::KeyOrEnd, ..Pull::new(buf) };
        pull.objects[0] = 1;
        pull
    }

    /// A scanner before the value at `pos` of a top-level object's key.
    pub(crate) fn at_value(buf: &'a [u8], pos: usize) -> Pull<'a> {
        Pull { expect: Expect::Value, ..Pull::at_key(buf, pos) }
    }

    /// True when a null comes next.
    pub(crate) fn null_is_next(&self) -> bool {
        let mut rest = self.buf.get(self.pos..).unwrap_or_default();
        while let [b' ' | b'\n' | b'\t' | b'\r', behind @ ..] = rest {
            rest = behind;
        }
        rest.starts_with(b"null")
    }

    /// How many containers are open.
    pub(crate) fn depth(&self) -> usize {
        self.depth
    }

    /// Offset of the first byte that has not been read.
    pub(crate) fn pos(&self) -> usize {
        self.pos
    }

    #[inline]
    fn skip_space(&mut self) -> Option<u8> {
        loop {
            match self.buf.get(self.pos) {
                Some(b' ' | b'\n' | b'\t' | b'\r') => self.pos += 1,
                Some(&b) => return Some(b),
                None => return None,
            }
        }
    }

    fn fail<T>(&self, what: &'static str) -> Result<T, JsonError> {
        Err(JsonError { at: self.pos, what })
    }

    fn in_object(&self) -> bool {
        self.depth.checked_sub(1).is_some_and(|d| self.objects[d / 64] >> (d % 64) & 1 == 1)
    }

    /// The next event.
    ///
    /// # Errors
    /// The text is not JSON, is nested too deeply, or ended before its value did.
    #[inline]
    pub(crate) fn next(&mut self) -> Result<Event, JsonError> {
        let mut byte = self.skip_space();
        if self.expect == Expect::CommaOrEnd {
            let object = self.in_object();
            match byte {
                Some(b',') => {
                    self.pos += 1;
                    byte = self.skip_space();
                    if object {
                        return self.key(byte);
                    }
                }
                Some(b'}') if object => return Ok(self.close(Event::ObjectEnd)),
                Some(b']') if !object => return Ok(self.close(Event::ArrayEnd)),
                _ => return self.fail(if object { "no ',' or '}' here" } else { "no ',' or ']' here" }),
            }
        } else if self.expect == Expect::KeyOrEnd {
            if byte == Some(b'}') {
                return Ok(self.close(Event::ObjectEnd));
            }
            return self.key(byte);
        } else if self.expect == Expect::ValueOrEnd && byte == Some(b']') {
            return Ok(self.close(Event::ArrayEnd));
        } else if self.expect == Expect::Nothing {
            return self.fail("something after the end of the value");
        }
        self.value(byte)
    }

    #[inline]
    fn key(&mut self, byte: Option<u8>) -> Result<Event, JsonError> {
        if byte != Some(b'"') {
            return self.fail("no key in quotes here");
        }
        let key = Str::lex(self.buf, self.pos)?;
        self.pos = key.end + 1;
        if self.skip_space() != Some(b':') {
            return self.fail("no ':' after a key");
        }
        self.pos += 1;
        self.expect = Expect::Value;
        Ok(Event::Key(key))
    }

    #[inline]
    fn value(&mut self, byte: Option<u8>) -> Result<Event, JsonError> {
        let event = match byte {
            Some(b'"') => {
                let text = Str::lex(self.buf, self.pos)?;
                self.pos = text.end + 1;
                Event::String(text)
            }
            Some(b'{') => return self.open(true),
            Some(b'[') => return self.open(false),
            Some(b'-' | b'0'..=b'9') => {
                let start = self.pos;
                self.pos = number::lex(self.buf, start)?;
                Event::Number(start..self.pos)
            }
            Some(b't') => self.word(b"true", Event::Bool(true))?,
            Some(b'f') => self.word(b"false", Event::Bool(false))?,
            Some(b'n') => self.word(b"null", Event::Null)?,
            Some(_) => return self.fail("no value here"),
            None => return self.fail("the end before the value is complete"),
        };
        self.expect = self.after_value();
        Ok(event)
    }

    fn after_value(&self) -> Expect {
        if self.depth == 0 { Expect::Nothing } else { Expect::CommaOrEnd }
    }

    fn word(&mut self, word: &[u8], event: Event) -> Result<Event, JsonError> {
        if self.buf.get(self.pos..).is_some_and(|rest| rest.starts_with(word)) {
            self.pos += word.len();
            return Ok(event);
        }
        self.fail("no value here")
    }

    fn open(&mut self, object: bool) -> Result<Event, JsonError> {
        if self.depth == MAX_DEPTH {
            return self.fail("nesting deeper than 512 levels");
        }
        let bit = 1u64 << (self.depth % 64);
        let word = &mut self.objects[self.depth / 64];
        *word = if object { *word | bit } else { *word & !bit };
        self.depth += 1;
        self.pos += 1;
        let (expect, event) = if object {
            (Expect::KeyOrEnd, Event::ObjectStart)
        } else {
            (Expect::ValueOrEnd, Event::ArrayStart)
        };
        self.expect = expect;
        Ok(event)
    }

    fn close(&mut self, event: Event) -> Event {
        self.pos += 1;
        self.depth -= 1;
        self.expect = self.after_value();
        event
    }

    /// Passes over the value that comes next.
    ///
    /// # Errors
    /// As [`Pull::next`].
    pub(crate) fn skip_value(&mut self) -> Result<(), JsonError> {
        let outside = self.depth;
        match self.next()? {
            Event::ObjectStart | Event::ArrayStart => self.skip_to_depth(outside),
            _ => Ok(()),
        }
    }

    /// Passes over everything until only `depth` containers are open.
    ///
    /// # Errors
    /// As [`Pull::next`].
    pub(crate) fn skip_to_depth(&mut self, depth: usize) -> Result<(), JsonError> {
        while self.depth > depth {
            self.next()?;
        }
        Ok(())
    }

    /// Checks that only white space follows the top-level value.
    ///
    /// # Errors
    /// Something else follows.
    pub(crate) fn end(&mut self) -> Result<(), JsonError> {
        match self.skip_space() {
            None => Ok(()),
            Some(_) => self.fail("something after the end of the value"),
        }
    }
}
