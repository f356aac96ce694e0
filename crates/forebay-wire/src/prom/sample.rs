//! One line of a page.

use std::borrow::Cow;

use memchr::memchr2;

/// One sample: a name, labels and a value.
#[derive(Clone, Copy, Debug)]
pub struct Sample<'a> {
    /// The series' name, with `_total`, `_bucket` and the like.
    pub name: &'a str,
    /// Its labels.
    pub labels: Labels<'a>,
    /// Its value; NaN and infinities as the page has them.
    pub value: f64,
}

impl<'a> Sample<'a> {
    /// The value of the label `name`, unescaped.
    pub fn label(&self, name: &str) -> Option<Cow<'a, str>> {
        self.labels.pairs().find(|(key, _)| *key == name).map(|(_, value)| unescape(value))
    }
}

/// The labels of a sample as the page has them; read when asked for.
#[derive(Clone, Copy, Debug)]
pub struct Labels<'a> {
    raw: &'a [u8],
}

impl<'a> Labels<'a> {
    /// The text between the braces.
    pub fn raw(&self) -> &'a [u8] {
        self.raw
    }

    /// Names and unescaped values, as far as they can be read. Bytes that are
    /// not UTF-8 become U+FFFD.
    pub fn iter(&self) -> impl Iterator<Item = (&'a str, Cow<'a, str>)> + use<'a> {
        self.pairs().map(|(name, value)| (name, unescape(value)))
    }

    /// As [`iter`](Self::iter), with the values still escaped.
    pub(crate) fn pairs(&self) -> impl Iterator<Item = (&'a str, &'a [u8])> + use<'a> {
        let mut rest = self.raw;
        std::iter::from_fn(move || {
            rest = rest.trim_ascii_start();
            rest = rest.strip_prefix(b",").unwrap_or(rest).trim_ascii_start();
            let (name, tail) = split_name(rest)?;
            let tail = tail.trim_ascii_start().strip_prefix(b"=")?.trim_ascii_start().strip_prefix(b"\"")?;
            let end = closing_quote(tail)?;
            rest = &tail[end + 1..];
            Some((name, &tail[..end]))
        })
    }
}

/// Which bytes may be part of a name.
const IN_NAME: [bool; 256] = {
    let mut table = [false; 256];
    let mut b = 0;
    while b < 128 {
        table[b] = (b as u8).is_ascii_alphanumeric() || b == b'_' as usize || b == b':' as usize;
        b += 1;
    }
    table
};

/// Splits a leading metric or label name off.
pub(super) fn split_name(line: &[u8]) -> Option<(&str, &[u8])> {
    let line = line.trim_ascii_start();
    let end = line.iter().position(|&b| !IN_NAME[usize::from(b)]).unwrap_or(line.len());
    if line.first().is_none_or(u8::is_ascii_digit) {
        return None;
    }
    let (name, tail) = line.split_at(end);
    std::str::from_utf8(name).ok().filter(|n| !n.is_empty()).map(|n| (n, tail))
}

/// The sample called `name` whose line goes on with `tail`.
pub(super) fn parse<'a>(name: &'a str, tail: &'a [u8]) -> Option<Sample<'a>> {
    let mut rest = tail.trim_ascii_start();
    let mut raw: &[u8] = b"";
    if let Some(inside) = rest.strip_prefix(b"{") {
        let end = closing_brace(inside)?;
        raw = &inside[..end];
        rest = &inside[end + 1..];
    } else if rest.len() == tail.len() {
        // Without labels a space must part the name from the value.
        return None;
    }
    let rest = rest.trim_ascii_start();
    let end = rest.iter().position(u8::is_ascii_whitespace).unwrap_or(rest.len());
    // Rust and Prometheus spell floats alike, NaN and Inf in any case included.
    let value = std::str::from_utf8(&rest[..end]).ok()?.parse().ok()?;
    Some(Sample { name, labels: Labels { raw }, value })
}

/// Offset of the brace that ends the labels: the first one outside of quotes.
fn closing_brace(text: &[u8]) -> Option<usize> {
    let mut pos = 0;
    loop {
        let at = pos + memchr2(b'"', b'}', text.get(pos..)?)?;
        if text[at] == b'}' {
            return Some(at);
        }
        pos = at + 1;
        pos += closing_quote(&text[pos..])? + 1;
    }
}

/// Offset of the first quote without a backslash before it.
fn closing_quote(text: &[u8]) -> Option<usize> {
    let mut pos = 0;
    loop {
        let at = pos + memchr2(b'"', b'\\', text.get(pos..)?)?;
        if text[at] == b'"' {
            return Some(at);
        }
        pos = at + 2;
    }
}

/// A label value without its escapes: `\\`, `\"` and `\n`; others stay as they are.
pub(crate) fn unescape(raw: &[u8]) -> Cow<'_, str> {
    if memchr::memchr(b'\\', raw).is_none() {
        return String::from_utf8_lossy(raw);
    }
    let mut out = Vec::with_capacity(raw.len());
    let mut rest = raw;
    while let Some((&b, tail)) = rest.split_first() {
        rest = tail;
        let plain = match (b, tail.first()) {
            (b'\\', Some(b'n')) => b'\n',
            (b'\\', Some(&c @ (b'\\' | b'"'))) => c,
            _ => {
                out.push(b);
                continue;
            }
        };
        out.push(plain);
        rest = &tail[1..];
    }
    Cow::Owned(String::from_utf8_lossy(&out).into_owned())
}
