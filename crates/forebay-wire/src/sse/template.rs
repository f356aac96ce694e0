//! The shape of the last ordinary event.
//!
//! Token events of one stream differ in nothing but their text. When an event
//! equals the last scanned one outside of its content string, comparing the two
//! ends is enough: an order of magnitude cheaper than a scan, and as exact.

/// Longest part that is remembered, in bytes; a stream with longer ones is scanned.
const MAX_PART: usize = 512;

/// What stood before and after the content of the last ordinary event.
#[derive(Default, Debug)]
pub(super) struct Template {
    bytes: Vec<u8>,
    /// Length of the first part, which ends with the opening quote.
    before: usize,
}

impl Template {
    /// Remembers `data`, whose content string lies at `start..end`.
    pub(super) fn learn(&mut self, data: &[u8], start: usize, end: usize) {
        self.bytes.clear();
        self.before = 0;
        let (Some(before), Some(after)) = (data.get(..start), data.get(end..)) else { return };
        if before.len() <= MAX_PART && after.len() <= MAX_PART {
            self.bytes.extend_from_slice(before);
            self.bytes.extend_from_slice(after);
            self.before = before.len();
        }
    }

    /// Whether `data` carries content, when it has the remembered shape.
    #[inline]
    pub(super) fn content(&self, data: &[u8]) -> Option<bool> {
        if self.bytes.is_empty() {
            return None;
        }
        let (before, after) = self.bytes.split_at(self.before);
        let text = data.strip_prefix(before)?.strip_suffix(after)?;
        is_string(text).then_some(!text.is_empty())
    }
}

/// Whether `text` is the inside of one JSON string: no quote ends it early,
/// and no escape reaches beyond it.
#[inline]
fn is_string(text: &[u8]) -> bool {
    let mut rest = text;
    while let Some(at) = memchr::memchr2(b'"', b'\\', rest) {
        match rest.get(at..at + 2) {
            Some([b'\\', _]) => rest = &rest[at + 2..],
            _ => return false,
        }
    }
    true
}
