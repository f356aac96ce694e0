//! Prometheus text and OpenMetrics pages, read in one pass.
//!
//! A page comes from an engine, so nothing about it is trusted: lines that
//! cannot be read are passed over, and no line costs more than its length.

mod sample;
mod vllm;

pub use sample::{Labels, Sample};
pub use vllm::vllm_load;

use memchr::memchr;

/// Calls `each` with every sample of `page`, in order.
pub fn read<'a>(page: &'a [u8], each: impl FnMut(Sample<'a>)) {
    read_named(page, |_| true, each);
}

/// Calls `each` with every sample whose name `wants`; of other lines only the
/// name is looked at.
pub fn read_named<'a>(
    page: &'a [u8],
    mut wants: impl FnMut(&'a str) -> bool,
    mut each: impl FnMut(Sample<'a>),
) {
    let mut rest = page;
    while !rest.is_empty() {
        let end = memchr(b'\n', rest).unwrap_or(rest.len());
        let line = &rest[..end];
        rest = rest.get(end + 1..).unwrap_or_default();
        if line.first() == Some(&b'#') {
            continue;
        }
        if let Some((name, tail)) = sample::split_name(line)
            && wants(name)
            && let Some(sample) = sample::parse(name, tail)
        {
            each(sample);
        }
    }
}

#[cfg(test)]
mod tests;
