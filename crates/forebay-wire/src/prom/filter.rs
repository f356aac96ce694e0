//! Passing over most of a page without reading its names.

use std::ops::Range;

/// The bytes of a name that are compared: past every engine's prefix, and
/// before the families of histograms part.
const WINDOW: Range<usize> = 8..16;

/// The bytes of a name too short for that.
const START: Range<usize> = 0..4;

/// A set of names that may say yes to a name outside of it, but never no to
/// one within.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NameFilter {
    long: Bits,
    short: Bits,
    /// Some name is shorter even than its start, so nothing can be ruled out.
    open: bool,
}

impl NameFilter {
    /// The filter that lets `names` pass.
    pub(crate) fn new<'n>(names: impl IntoIterator<Item = &'n str>) -> Self {
        let mut filter = Self { long: Bits::default(), short: Bits::default(), open: false };
        for name in names.into_iter().map(str::as_bytes) {
            if let Some(window) = name.get(WINDOW) {
                filter.long.insert(window);
            } else if let Some(start) = name.get(START) {
                filter.short.insert(start);
            } else {
                filter.open = true;
            }
        }
        filter
    }

    /// Whether `line` may begin with one of the names.
    pub(super) fn passes(&self, line: &[u8]) -> bool {
        line.get(WINDOW).is_some_and(|window| self.long.has(window))
            || self.open
            || (!self.short.is_empty() && line.get(START).is_some_and(|start| self.short.has(start)))
    }
}

/// One bit for each hash of up to eight bytes.
#[derive(Clone, Copy, Debug, Default)]
struct Bits([u64; 4]);

impl Bits {
    fn insert(&mut self, bytes: &[u8]) {
        let (word, bit) = place(bytes);
        self.0[word] |= bit;
    }

    fn has(&self, bytes: &[u8]) -> bool {
        let (word, bit) = place(bytes);
        self.0[word] & bit != 0
    }

    fn is_empty(&self) -> bool {
        self.0 == [0; 4]
    }
}

/// Word and bit of the hash.
fn place(bytes: &[u8]) -> (usize, u64) {
    let number = match (bytes.first_chunk::<8>(), bytes.first_chunk::<4>()) {
        (Some(eight), _) => u64::from_le_bytes(*eight),
        (None, Some(four)) => u32::from_le_bytes(*four).into(),
        (None, None) => 0,
    };
    // Fibonacci hashing: the top bits of the product depend on every byte.
    let hash = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56;
    (hash as usize >> 6, 1 << (hash & 63))
}
