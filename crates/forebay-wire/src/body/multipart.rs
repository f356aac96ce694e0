//! The scan of a multipart/form-data body (RFC 7578), as audio and image
//! paths use it. File contents are passed over.

use std::ops::Range;

use memchr::memmem;
use xxhash_rust::xxh3::xxh3_64;

use super::{BodyError, Scan, head::Head, json::MAX_MODEL, render::Render};

const MAX_PARTS: usize = 1000;
const MAX_PART_HEADERS: usize = 16 * 1024;

/// Finds the form fields that routing needs: `model`, `stream`, `n`, `user`
/// and the text of `prompt`.
///
/// # Errors
/// The framing is broken, or one of the fields is missing, unusable or given twice.
pub fn scan_multipart(content_type: &str, body: &[u8]) -> Result<Scan, BodyError> {
    let boundary = boundary(content_type)
        .ok_or_else(|| BodyError::Multipart("the Content-Type has no usable boundary".into()))?;
    let mut fields = Fields::default();
    for_each_part(&boundary, body, |name, value| fields.read(name, value))?;
    fields.finish(body)
}

#[derive(Default)]
struct Fields {
    model: Option<Range<usize>>,
    stream: Option<Range<usize>>,
    n: Option<Range<usize>>,
    user: Option<Range<usize>>,
    prompt: Option<Range<usize>>,
}

impl Fields {
    fn read(&mut self, name: &[u8], value: Range<usize>) -> Result<(), BodyError> {
        let (field, place) = match name {
            b"model" => ("model", &mut self.model),
            b"stream" => ("stream", &mut self.stream),
            b"n" => ("n", &mut self.n),
            b"user" => ("user", &mut self.user),
            b"prompt" => ("prompt", &mut self.prompt),
            _ => return Ok(()),
        };
        if place.replace(value).is_some() {
            return Err(BodyError::Duplicate(field));
        }
        Ok(())
    }

    fn finish(self, body: &[u8]) -> Result<Scan, BodyError> {
        let text = |span: &Option<Range<usize>>| span.clone().and_then(|s| body.get(s)).unwrap_or_default();
        let model_span = self.model.clone().ok_or(BodyError::Missing("model"))?;
        let invalid = |field, expected| BodyError::Invalid { field, expected };
        let model = std::str::from_utf8(text(&self.model))
            .ok()
            .filter(|m| !m.is_empty() && m.len() <= MAX_MODEL)
            .ok_or(invalid("model", "a text of 1 to 4096 bytes"))?;
        // The spellings that form parsers of Python engines take for booleans.
        let stream = match text(&self.stream).to_ascii_lowercase().as_slice() {
            b"" | b"false" | b"0" | b"no" | b"off" | b"f" | b"n" => false,
            b"true" | b"1" | b"yes" | b"on" | b"t" | b"y" => true,
            _ => return Err(invalid("stream", "a boolean")),
        };
        let choices = match text(&self.n) {
            b"" => 1,
            digits if digits.iter().all(u8::is_ascii_digit) => {
                crate::json::count_u32(digits).unwrap_or(1).max(1)
            }
            _ => return Err(invalid("n", "a non-negative whole number")),
        };
        let prompt = text(&self.prompt);
        let mut head = Head::new();
        head.push_raw(prompt);
        let mut render = Render::new(prompt.len());
        render.raw(prompt);
        let (text_blocks, rendered_bytes) = render.finish();
        Ok(Scan {
            model: model.to_owned(),
            model_span,
            multipart: true,
            stream,
            choices,
            max_output_tokens: None,
            prompt_bytes: prompt.len(),
            prompt_token_ids: 0,
            prompts: 1,
            user_hash: self.user.is_some().then(|| xxh3_64(text(&self.user))),
            prompt_head_hash: Head::hash([head]),
            include_usage: false,
            text_blocks,
            rendered_bytes,
            cache_salt: None,
            token_ids_span: None,
        })
    }
}

/// Calls `each` with the name and the place of the value of every field that
/// is not a file.
fn for_each_part(
    boundary: &[u8],
    body: &[u8],
    mut each: impl FnMut(&[u8], Range<usize>) -> Result<(), BodyError>,
) -> Result<(), BodyError> {
    let broken = |what: &'static str| BodyError::Multipart(what.into());
    let delimiter = [b"\r\n--", boundary].concat();
    let finder = memmem::Finder::new(&delimiter);
    // The first delimiter may stand at the very start, without its line break.
    let mut pos = if body.starts_with(&delimiter[2..]) {
        delimiter.len() - 2
    } else {
        finder.find(body).ok_or_else(|| broken("its boundary does not occur"))? + delimiter.len()
    };
    for _ in 0..MAX_PARTS {
        let after = body.get(pos..).unwrap_or_default();
        if after.starts_with(b"--") {
            return Ok(());
        }
        let padding = after.iter().take_while(|b| matches!(b, b' ' | b'\t')).count();
        if after.get(padding..padding + 2) != Some(b"\r\n") {
            return Err(broken("a boundary is not followed by a line end"));
        }
        // The header block starts with the line end, so that a part without
        // headers ends it at once.
        let head_start = pos + padding;
        let window = &body[head_start..body.len().min(head_start + MAX_PART_HEADERS)];
        let head_len =
            memmem::find(window, b"\r\n\r\n").ok_or_else(|| broken("the headers of a part do not end"))?;
        let value_start = head_start + head_len + 4;
        // A value may be empty, so that its delimiter begins in the header's line end.
        let from = value_start - 2;
        let value_end = from + finder.find(&body[from..]).ok_or_else(|| broken("a part does not end"))?;
        pos = value_end + delimiter.len();
        if let Some(name) = field_name(&window[..head_len])? {
            each(&name, value_start..value_end.max(value_start))?;
        }
    }
    Err(broken("it has more than 1000 parts"))
}

/// The field's name from a part's headers; none for files and unnamed parts.
fn field_name(headers: &[u8]) -> Result<Option<Vec<u8>>, BodyError> {
    let mut name = None;
    for line in headers.split(|&b| b == b'\n') {
        let Some(colon) = memchr::memchr(b':', line) else { continue };
        let (key, value) = (line[..colon].trim_ascii(), line[colon + 1..].trim_ascii());
        if key.eq_ignore_ascii_case(b"content-transfer-encoding")
            && ![&b"7bit"[..], b"8bit", b"binary"].iter().any(|plain| value.eq_ignore_ascii_case(plain))
        {
            return Err(BodyError::Multipart("a part has a Content-Transfer-Encoding".into()));
        }
        if !key.eq_ignore_ascii_case(b"content-disposition") {
            continue;
        }
        if parameter(value, b"filename").is_some() || parameter(value, b"filename*").is_some() {
            return Ok(None);
        }
        name = parameter(value, b"name");
    }
    Ok(name)
}

fn boundary(content_type: &str) -> Option<Vec<u8>> {
    let (essence, _) = content_type.split_once(';')?;
    if !essence.trim().eq_ignore_ascii_case("multipart/form-data") {
        return None;
    }
    parameter(content_type.as_bytes(), b"boundary").filter(|b| (1..=70).contains(&b.len()))
}

/// The value of a `; key=value` parameter, quoted or not.
fn parameter(header: &[u8], key: &[u8]) -> Option<Vec<u8>> {
    let mut rest = header;
    loop {
        // To the next semicolon outside of quotes.
        let (mut quoted, mut escaped) = (false, false);
        let next = rest.iter().position(|&b| {
            let end = b == b';' && !quoted;
            quoted ^= b == b'"' && !escaped;
            escaped = b == b'\\' && quoted && !escaped;
            end
        });
        let piece = &rest[..next.unwrap_or(rest.len())];
        if let Some(eq) = memchr::memchr(b'=', piece)
            && piece[..eq].trim_ascii().eq_ignore_ascii_case(key)
        {
            return Some(unquote(piece[eq + 1..].trim_ascii()));
        }
        rest = &rest[next? + 1..];
    }
}

fn unquote(value: &[u8]) -> Vec<u8> {
    let Some(inner) = value.strip_prefix(b"\"").and_then(|v| v.strip_suffix(b"\"")) else {
        return value.to_vec();
    };
    let mut out = Vec::with_capacity(inner.len());
    let mut bytes = inner.iter();
    while let Some(&b) = bytes.next() {
        match b {
            b'\\' => out.extend(bytes.next()),
            _ => out.push(b),
        }
    }
    out
}
