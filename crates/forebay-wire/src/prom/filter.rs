//! Passing over most of a page without reading its names.

use std::ops::Range;

/// The bytes of a name that are compared: past every engine's prefix, and
/// before the families of histograms part.
const WINDOW: Range<usize> = 8..16;

/// A set of names that may say yes to a name outside of it, but never no to
/// one within.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NameFilter {
    /// One bit for each hash of a window.
    bits: [u64; 4],
    /// Some name is shorter than the window, so nothing can be ruled out.
    open: bool,
}

impl NameFilter {
    /// The filter that lets `names` pass.
    pub(crate) fn new<'n>(names: impl IntoIterator<Item = &'n str>) -> Self {
        let mut filter = Self { bits: [0; 4], open: false };
        for name in names {
            match bit(name.as_bytes()) {
                Some((word, bit)) => filter.bits[word] |= bit,
                None => filter.open = true,
            }
        }
        filter
    }

    /// Whether `line` may begin with one of the names.
    pub(super) fn passes(&self, line: &[u8]) -> bool {
        self.open || bit(line).is_some_and(|(word, bit)| self.bits[word] & bit != 0)
    }
}

/// Word and bit of the window's hash.
fn bit(text: &[u8]) -> Option<(usize, u64)> {
    let window: [u8; 8] = text.get(WINDOW)?.try_into().ok()?;
    // Fibonacci hashing: the top bits of the product depend on every byte.
    let hash = u64::from_le_bytes(window).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56;
    Some((hash as usize >> 6, 1 << (hash & 63)))
}
