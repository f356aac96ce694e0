//! Where events and lines end.

use memchr::memchr2;

/// Finds the ends of events in a stream that comes in pieces.
///
/// An event ends with the first byte of the line end of a blank line. When
/// that line end is CR LF, the LF is handed out as a piece of its own, so that
/// the pieces do not depend on where the stream was split.
#[derive(Clone, Copy, Debug)]
pub(super) struct Frame {
    /// Nothing of the current line has been seen.
    line_start: bool,
    /// Nothing of the current event has been seen.
    event_start: bool,
    /// The last byte was a CR, so an LF now belongs to it.
    after_cr: bool,
}

impl Frame {
    pub(super) fn new() -> Frame {
        Frame { line_start: true, event_start: true, after_cr: false }
    }

    /// Reads on. Returns how many bytes of `bytes` belong to the event that
    /// ends in them; none when it does not, and then all were read.
    #[inline]
    pub(super) fn next_end(&mut self, bytes: &[u8]) -> Option<usize> {
        let mut pos = 0;
        if std::mem::take(&mut self.after_cr) {
            match bytes.first() {
                Some(b'\n') if self.event_start => return Some(1),
                Some(b'\n') => pos = 1,
                Some(_) => {}
                None => {
                    self.after_cr = true;
                    return None;
                }
            }
        }
        loop {
            let rest = bytes.get(pos..).unwrap_or_default();
            let Some(at) = memchr2(b'\n', b'\r', rest) else {
                if !rest.is_empty() {
                    (self.line_start, self.event_start) = (false, false);
                }
                return None;
            };
            let blank = at == 0 && self.line_start;
            self.line_start = true;
            pos += at + 1;
            let cr = rest[at] == b'\r';
            if blank {
                self.event_start = true;
                self.after_cr = cr;
                return Some(pos);
            }
            self.event_start = false;
            if cr {
                match bytes.get(pos) {
                    Some(b'\n') => pos += 1,
                    Some(_) => {}
                    None => {
                        self.after_cr = true;
                        return None;
                    }
                }
            }
        }
    }
}

/// The lines of an event, without their ends.
pub(super) fn lines(event: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = event;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let end = memchr2(b'\n', b'\r', rest).unwrap_or(rest.len());
        let line = &rest[..end];
        let line_end = if rest[end..].starts_with(b"\r\n") { 2 } else { 1 };
        rest = rest.get(end + line_end..).unwrap_or_default();
        Some(line)
    })
}

/// The value of a line when its field is `name`: what follows the colon,
/// without one leading space.
#[inline]
pub(super) fn field<'a>(line: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
    let rest = line.strip_prefix(name)?;
    match rest {
        [] => Some(rest),
        [b':', b' ', value @ ..] | [b':', value @ ..] => Some(value),
        _ => None,
    }
}

/// The value of the only data line of an event in its usual form, `data:` and
/// one line end or two; none for every other form.
#[inline]
pub(super) fn single_data(event: &[u8]) -> Option<&[u8]> {
    let rest = event.strip_prefix(b"data:")?;
    let rest = rest.strip_prefix(b" ").unwrap_or(rest);
    let end = memchr2(b'\n', b'\r', rest).unwrap_or(rest.len());
    let ends = &rest[end..];
    (ends.len() <= 4 && ends.iter().all(|b| matches!(b, b'\n' | b'\r'))).then(|| &rest[..end])
}
