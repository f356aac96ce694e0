//! Prometheus text and OpenMetrics pages, read in one pass.
//!
//! A page comes from an engine, so nothing about it is trusted: lines that
//! cannot be read are passed over, and no line costs more than its length.

mod filter;
mod sample;

pub(crate) use filter::NameFilter;
pub(crate) use sample::unescape;
pub use sample::{Labels, Sample};

use memchr::{memchr, memchr_iter};

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

/// Calls `each` for every line whose name `find` knows, with what it gave and
/// the sample, or none when the line cannot be read. Lines that `filter` rules
/// out cost little more than finding their end.
pub(crate) fn read_found<'a, T>(
    page: &'a [u8],
    filter: &NameFilter,
    mut find: impl FnMut(&'a str) -> Option<T>,
    mut each: impl FnMut(T, Option<Sample<'a>>),
) {
    let mut start = 0;
    for end in memchr_iter(b'\n', page).chain([page.len()]) {
        let mut line = page.get(start..end).unwrap_or_default();
        start = end + 1;
        if line.first().is_some_and(u8::is_ascii_whitespace) {
            line = line.trim_ascii_start();
        }
        if !filter.passes(line) || line.first() == Some(&b'#') {
            continue;
        }
        if let Some((name, tail)) = sample::split_name(line)
            && let Some(found) = find(name)
        {
            each(found, sample::parse(name, tail));
        }
    }
}

#[cfg(test)]
mod tests;
