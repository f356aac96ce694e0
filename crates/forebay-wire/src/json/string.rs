//! JSON strings: checking, comparing and decoding.

use super::JsonError;
use super::extent::{Extent, long, short};
use super::unescape::{Decoded, decode_escape};

/// Where a checked string lies in its text.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Str {
    /// Offset of the first byte after the opening quote.
    pub(crate) start: usize,
    /// Offset of the closing quote.
    pub(crate) end: usize,
    /// How many bytes the escapes cost over the decoded text; 0 when there are none.
    escape_cost: usize,
}

impl Str {
    /// Checks the string whose opening quote is at `quote`.
    #[inline]
    pub(super) fn lex(buf: &[u8], quote: usize) -> Result<Str, JsonError> {
        let start = quote + 1;
        let Extent { end, escape_cost, non_ascii } = match short(buf, start) {
            Some(extent) => extent,
            None => long(buf, start)?,
        };
        if non_ascii && let Err(e) = simdutf8::compat::from_utf8(&buf[start..end]) {
            return Err(JsonError { at: start + e.valid_up_to(), what: "a byte that is not UTF-8" });
        }
        Ok(Str { start, end, escape_cost })
    }

    /// Bytes of the decoded text (a surrogate half counts as two).
    pub(crate) fn decoded_len(self) -> usize {
        self.end - self.start - self.escape_cost
    }

    /// True for `""`.
    pub(crate) fn is_empty(self) -> bool {
        self.start == self.end
    }

    /// True when what is written is the text itself.
    pub(crate) fn is_plain(self) -> bool {
        self.escape_cost == 0
    }

    /// The string as written, without its quotes.
    pub(crate) fn raw(self, buf: &[u8]) -> &[u8] {
        buf.get(self.start..self.end).unwrap_or_default()
    }

    /// The decoded text, when it has no escapes or fits into `space`; else
    /// none. For names, which are short.
    pub(crate) fn short<'a>(self, buf: &'a [u8], space: &'a mut [u8; 32]) -> Option<&'a [u8]> {
        if self.is_plain() {
            return Some(self.raw(buf));
        }
        let mut len = 0;
        let mut fits = true;
        self.decode(buf, |run| {
            match space.get_mut(len..len + run.len()) {
                Some(room) => room.copy_from_slice(run),
                None => fits = false,
            }
            len += run.len();
            fits
        });
        if fits { space.get(..len) } else { None }
    }

    /// True when the decoded text is `text`.
    pub(crate) fn is(self, buf: &[u8], text: &[u8]) -> bool {
        if self.is_plain() {
            return self.raw(buf) == text;
        }
        let mut rest = Some(text);
        self.decode(buf, |run| {
            rest = rest.and_then(|r| r.strip_prefix(run));
            rest.is_some()
        });
        rest.is_some_and(<[u8]>::is_empty)
    }

    /// True when the decoded text begins with `prefix`.
    pub(crate) fn starts_with(self, buf: &[u8], prefix: &[u8]) -> bool {
        if self.is_plain() {
            return self.raw(buf).starts_with(prefix);
        }
        let mut rest = prefix;
        let mut same = true;
        self.decode(buf, |run| {
            let n = run.len().min(rest.len());
            same = run[..n] == rest[..n];
            rest = &rest[n..];
            same && !rest.is_empty()
        });
        same && rest.is_empty()
    }

    /// Hands the decoded text on in runs until `sink` returns false. A lone
    /// surrogate becomes the three bytes that UTF-8 would give it, so that
    /// different texts stay different.
    pub(crate) fn decode(self, buf: &[u8], mut sink: impl FnMut(&[u8]) -> bool) {
        let mut rest = self.raw(buf);
        if self.is_plain() {
            sink(rest);
            return;
        }
        while let Some(at) = memchr::memchr(b'\\', rest) {
            if at > 0 && !sink(&rest[..at]) {
                return;
            }
            let Decoded { raw, utf8, len } = decode_escape(&rest[at..]);
            if !sink(&utf8[..len]) {
                return;
            }
            rest = rest.get(at + raw..).unwrap_or_default();
        }
        if !rest.is_empty() {
            sink(rest);
        }
    }

    /// The decoded text; a lone surrogate becomes U+FFFD.
    pub(crate) fn to_text(self, buf: &[u8]) -> String {
        let mut bytes = Vec::with_capacity(self.decoded_len());
        self.decode(buf, |run| {
            bytes.extend_from_slice(run);
            true
        });
        match String::from_utf8(bytes) {
            Ok(text) => text,
            Err(e) => String::from_utf8_lossy(e.as_bytes()).into_owned(),
        }
    }
}
