//! The prompt as one text: what a chat template would make of it, less the
//! words that are the template's own.
//!
//! Before every text stands a byte that no UTF-8 text contains and that says what
//! it is, so that prompts of different shape never give the same bytes. The whole
//! grammar:
//!
//! ```text
//! prompt  = *(TOOL json) *message / text / *(id, 4 bytes, little endian)
//! message = MESSAGE role content
//! content = *(TEXT text / MEDIA digest, 8 bytes / KEY key (content / json))
//! json    = STRING text / WORD text / ARRAY *json CLOSE / OBJECT *(KEY key json) CLOSE
//! ```

use xxhash_rust::xxh3::{Xxh3, xxh3_64_with_seed};

use super::blocks::Blocks;
use crate::json::Str;

const MESSAGE: u8 = 0xff;
const TEXT: u8 = 0xfe;
const MEDIA: u8 = 0xfd;
const KEY: u8 = 0xfc;
const STRING: u8 = 0xfb;
const WORD: u8 = 0xfa;
const OBJECT: u8 = 0xf9;
const ARRAY: u8 = 0xf8;
const CLOSE: u8 = 0xf7;
const TOOL: u8 = 0xf6;

/// What the walk over a prompt writes to.
pub(super) struct Render {
    /// False while what is written would be thrown away.
    pub(super) on: bool,
    blocks: Blocks,
}

impl Render {
    /// Nothing rendered yet, of a body of `expected` bytes.
    pub(super) fn new(expected: usize) -> Render {
        Render { on: true, blocks: Blocks::new(expected) }
    }

    /// The hashes of all full blocks, and how many bytes were rendered.
    pub(super) fn finish(self) -> (Vec<u64>, usize) {
        let total = self.blocks.total();
        (self.blocks.into_hashes(), total)
    }

    #[inline]
    fn mark(&mut self, mark: u8) {
        if self.on {
            self.blocks.push_byte(mark);
        }
    }

    /// Parts what comes from what was, if anything was.
    pub(super) fn section(&mut self) {
        if self.blocks.total() > 0 {
            self.mark(MESSAGE);
        }
    }

    /// Begins a message whose role is our own.
    pub(super) fn message(&mut self, role: &str) {
        self.mark(MESSAGE);
        self.raw(role.as_bytes());
    }

    pub(super) fn message_of(&mut self, buf: &[u8], role: Str) {
        self.marked(MESSAGE, buf, role);
    }

    /// Text of a content; none when it is empty, as if it were absent.
    pub(super) fn text(&mut self, buf: &[u8], text: Str) {
        if !text.is_empty() {
            self.marked(TEXT, buf, text);
        }
    }

    /// A prompt that is nothing but text.
    pub(super) fn bare_text(&mut self, buf: &[u8], text: Str) {
        if self.on {
            self.blocks.push_text(buf, text);
        }
    }

    #[inline]
    fn marked(&mut self, mark: u8, buf: &[u8], text: Str) {
        if self.on {
            self.blocks.push_marked(mark, buf, text);
        }
    }

    pub(super) fn tool(&mut self) {
        self.mark(TOOL);
    }

    pub(super) fn key(&mut self, buf: &[u8], key: Str) {
        self.marked(KEY, buf, key);
    }

    pub(super) fn string(&mut self, buf: &[u8], text: Str) {
        self.marked(STRING, buf, text);
    }

    /// A number, a boolean or a null.
    pub(super) fn word(&mut self, word: &[u8]) {
        self.mark(WORD);
        self.raw(word);
    }

    pub(super) fn open(&mut self, object: bool) {
        self.mark(if object { OBJECT } else { ARRAY });
    }

    pub(super) fn close(&mut self) {
        self.mark(CLOSE);
    }

    /// Bytes that come from no JSON string.
    pub(super) fn raw(&mut self, text: &[u8]) {
        if self.on {
            self.blocks.push(text);
        }
    }

    #[inline]
    pub(super) fn id(&mut self, id: u32) {
        if self.on {
            self.blocks.push_word(id.to_le_bytes());
        }
    }

    pub(super) fn media(&mut self, digest: Digest) {
        self.mark(MEDIA);
        self.raw(&digest.0.to_le_bytes());
    }
}

/// XXH3 of a picture, a recording or a file: a chain over all scalars of its
/// value, so that it does not matter whether a URL stands bare or in an object.
#[derive(Clone, Copy, Default)]
pub(super) struct Digest(u64);

impl Digest {
    /// Adds the decoded text of a string.
    pub(super) fn text(&mut self, buf: &[u8], text: Str) {
        if text.is_plain() {
            return self.raw(text.raw(buf));
        }
        let mut hash = Xxh3::with_seed(self.0);
        text.decode(buf, |run| {
            hash.update(run);
            true
        });
        self.0 = hash.digest();
    }

    /// Adds a scalar as written.
    pub(super) fn raw(&mut self, text: &[u8]) {
        self.0 = xxh3_64_with_seed(text, self.0);
    }
}
