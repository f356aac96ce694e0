//! Walking the parts of a body that hold prompt text: their size, and the
//! first bytes for the affinity hash.
//!
//! Nothing inside is ever refused for its shape: what a message may look like
//! is the engine's to judge, and what is not known is not hashed.

use xxhash_rust::xxh3::xxh3_64;

use crate::json::{Event, JsonError, Pull, Str};

const HEAD: usize = 1024;
/// Between the texts of two messages; no UTF-8 text contains it.
const SEPARATOR: u8 = 0xff;

/// The first bytes of the prompt's text.
pub(super) struct Head {
    bytes: [u8; HEAD],
    len: usize,
    /// A new message began since the last text.
    pending: bool,
}

impl Head {
    pub(super) fn new() -> Head {
        Head { bytes: [0; HEAD], len: 0, pending: false }
    }

    fn is_full(&self) -> bool {
        self.len == HEAD
    }

    fn push(&mut self, run: &[u8]) -> bool {
        let room = &mut self.bytes[self.len..];
        let n = run.len().min(room.len());
        room[..n].copy_from_slice(&run[..n]);
        self.len += n;
        !self.is_full()
    }

    /// Says that the next text belongs to another message or prompt.
    fn next_unit(&mut self) {
        self.pending = self.len > 0;
    }

    pub(super) fn push_text(&mut self, buf: &[u8], text: Str) {
        if self.is_full() || text.is_empty() {
            return;
        }
        if std::mem::take(&mut self.pending) && !self.push(&[SEPARATOR]) {
            return;
        }
        text.decode(buf, |run| self.push(run));
    }

    pub(super) fn push_raw(&mut self, text: &[u8]) {
        self.push(text);
    }

    fn push_id(&mut self, text: &[u8]) {
        if !self.is_full() {
            let id = crate::json::count_u32(text).unwrap_or(u32::MAX);
            self.push(&id.to_le_bytes());
        }
    }

    /// The hash of `heads`, one after the other.
    pub(super) fn hash<const N: usize>(heads: [Head; N]) -> u64 {
        let mut rest = heads.into_iter().filter(|head| head.len > 0);
        let mut all = rest.next().unwrap_or_else(Head::new);
        for head in rest {
            all.push(&[SEPARATOR]);
            all.push(&head.bytes[..head.len]);
        }
        xxh3_64(&all.bytes[..all.len])
    }
}

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

/// Keys whose strings are not prompt text: media, and what templates do not
/// render.
fn is_silent(buf: &[u8], key: Str) -> bool {
    matches!(
        key.short(buf, &mut [0; 32]).unwrap_or_default(),
        b"type"
            | b"role"
            | b"id"
            | b"tool_call_id"
            | b"tool_use_id"
            | b"call_id"
            | b"status"
            | b"url"
            | b"image_url"
            | b"video_url"
            | b"audio_url"
            | b"input_audio"
            | b"image"
            | b"audio"
            | b"video"
            | b"source"
            | b"data"
            | b"file_data"
            | b"file"
            | b"b64_json"
            | b"image_embeds"
            | b"audio_embeds"
            | b"encrypted_content"
            | b"signature"
            | b"cache_control"
            | b"detail"
    )
}

/// One walk over `buf`, adding to a head and to sizes.
pub(super) struct Walk<'w, 'a> {
    pub(super) buf: &'a [u8],
    pub(super) pull: &'w mut Pull<'a>,
    pub(super) head: &'w mut Head,
    pub(super) sizes: &'w mut Sizes,
}

impl Walk<'_, '_> {
    /// `messages`, or an `input` of items: an array of objects with `content`.
    pub(super) fn messages(&mut self) -> Result<Kind, JsonError> {
        match self.pull.next()? {
            Event::Null => return Ok(Kind::Null),
            Event::String(text) => {
                self.head.next_unit();
                self.text(text);
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
                Event::String(text) => self.text(text),
                Event::ArrayStart => self.pull.skip_to_depth(outside + 1)?,
                _ => {}
            }
        }
    }

    /// The keys of one message.
    fn message(&mut self) -> Result<(), JsonError> {
        loop {
            match self.pull.next()? {
                Event::Key(key) if key.is(self.buf, b"content") => self.content()?,
                Event::Key(key) => self.count_field(key)?,
                _ => return Ok(()),
            }
        }
    }

    /// A message's `content`, or a `system` field: a string or an array of parts.
    pub(super) fn content(&mut self) -> Result<(), JsonError> {
        match self.pull.next()? {
            Event::String(text) => self.text(text),
            Event::ObjectStart => self.count_rest(self.pull.depth() - 1)?,
            Event::ArrayStart => loop {
                match self.pull.next()? {
                    Event::ArrayEnd => break,
                    Event::ObjectStart => self.part()?,
                    Event::String(text) => self.text(text),
                    Event::ArrayStart => self.count_rest(self.pull.depth() - 1)?,
                    _ => {}
                }
            },
            _ => {}
        }
        Ok(())
    }

    /// The keys of one content part.
    fn part(&mut self) -> Result<(), JsonError> {
        loop {
            match self.pull.next()? {
                Event::Key(key) if key.is(self.buf, b"text") => match self.pull.next()? {
                    Event::String(text) => self.text(text),
                    Event::ObjectStart | Event::ArrayStart => self.count_rest(self.pull.depth() - 1)?,
                    _ => {}
                },
                Event::Key(key) => self.count_field(key)?,
                _ => return Ok(()),
            }
        }
    }

    /// `prompt`, or an `input` of texts: a string, or an array of strings, of
    /// token ids or of arrays of token ids. Adds the number of prompts to `prompts`.
    pub(super) fn prompts(&mut self, prompts: &mut u32) -> Result<Kind, JsonError> {
        match self.pull.next()? {
            Event::Null => return Ok(Kind::Null),
            Event::String(text) => {
                self.text(text);
                return Ok(Kind::String);
            }
            Event::ArrayStart => {}
            Event::ObjectStart => {
                self.count_rest(self.pull.depth() - 1)?;
                return Ok(Kind::Other);
            }
            _ => return Ok(Kind::Other),
        }
        let outside = self.pull.depth() - 1;
        let mut items = 0u32;
        loop {
            match self.pull.next()? {
                Event::ArrayEnd => break,
                Event::Number(at) => self.id(&self.buf[at]),
                Event::String(text) => {
                    items = items.saturating_add(1);
                    self.head.next_unit();
                    self.text(text);
                }
                Event::ArrayStart => {
                    items = items.saturating_add(1);
                    self.head.next_unit();
                    while self.pull.depth() > outside + 1 {
                        match self.pull.next()? {
                            Event::Number(at) => self.id(&self.buf[at]),
                            Event::String(text) => self.sizes.bytes += text.decoded_len(),
                            _ => {}
                        }
                    }
                }
                Event::ObjectStart => {
                    items = items.saturating_add(1);
                    self.head.next_unit();
                    self.count_rest(outside + 1)?;
                }
                _ => {}
            }
        }
        *prompts = (*prompts).max(items);
        Ok(Kind::Array)
    }

    /// Counts the strings of whatever value comes next.
    pub(super) fn count_value(&mut self) -> Result<(), JsonError> {
        let outside = self.pull.depth();
        match self.pull.next()? {
            Event::String(text) => self.count(text),
            Event::ObjectStart | Event::ArrayStart => self.count_rest(outside)?,
            _ => {}
        }
        Ok(())
    }

    fn count_field(&mut self, key: Str) -> Result<(), JsonError> {
        if is_silent(self.buf, key) { self.pull.skip_value() } else { self.count_value() }
    }

    /// Counts the strings of everything until `depth` containers are open.
    fn count_rest(&mut self, depth: usize) -> Result<(), JsonError> {
        while self.pull.depth() > depth {
            match self.pull.next()? {
                Event::Key(key) if is_silent(self.buf, key) => self.pull.skip_value()?,
                Event::String(text) => self.count(text),
                _ => {}
            }
        }
        Ok(())
    }

    fn text(&mut self, text: Str) {
        self.head.push_text(self.buf, text);
        self.sizes.bytes += text.decoded_len();
    }

    fn count(&mut self, text: Str) {
        if !text.starts_with(self.buf, b"data:") {
            self.sizes.bytes += text.decoded_len();
        }
    }

    fn id(&mut self, text: &[u8]) {
        self.head.push_id(text);
        self.sizes.ids += 1;
    }
}
