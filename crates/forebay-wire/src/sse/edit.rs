//! Putting the requested name where an answer states its model.

use std::ops::Range;

use bytes::Bytes;

use super::frame::{Frame, field, lines};
use crate::json::{Event, JsonError, Pull, push_string};

/// Most bytes of an event that are held back, and looked at, for editing.
const MAX_HELD: usize = 64 * 1024;

/// Rewrites the model's name in the events of a stream as they pass: the
/// top-level `model`, and `model` of a top-level `response` or `message`.
/// Everything else is byte-identical.
///
/// Holds back the bytes of one incomplete event at most, up to 64 KiB; of a
/// larger event only that beginning is edited.
#[derive(Debug)]
pub struct ModelEditor {
    /// The new value, as JSON.
    value: Bytes,
    frame: Frame,
    held: Vec<u8>,
    /// The beginning of the current event has been passed on.
    passing: bool,
}

impl ModelEditor {
    /// An editor that puts `to` in the place of every model name.
    pub fn new(to: &str) -> ModelEditor {
        let mut value = Vec::with_capacity(to.len() + 2);
        push_string(&mut value, to);
        ModelEditor { value: value.into(), frame: Frame::new(), held: Vec::new(), passing: false }
    }

    /// Takes the next bytes of the stream and appends what can be passed on.
    pub fn feed(&mut self, chunk: Bytes, out: &mut Vec<Bytes>) {
        let mut rest = chunk;
        // Bytes at the start of `rest` that pass as they are.
        let mut ready = 0;
        loop {
            let todo = rest.slice(ready..);
            let end = self.frame.next_end(&todo);
            let piece = todo.slice(..end.unwrap_or(todo.len()));
            let complete = end.is_some();
            if self.passing {
                ready += piece.len();
                self.passing = !complete;
            } else if !self.held.is_empty() {
                self.flush(&mut rest, &mut ready, out);
                self.hold(&piece, complete, out);
                rest = rest.slice(piece.len()..);
            } else if complete || piece.len() >= MAX_HELD {
                self.edit_in_place(&mut rest, &mut ready, &piece, out);
                self.passing = !complete;
            } else {
                self.flush(&mut rest, &mut ready, out);
                self.held.extend_from_slice(&piece);
                return;
            }
            if !complete {
                break;
            }
        }
        self.flush(&mut rest, &mut ready, out);
    }

    /// Appends what is still held back: an event without its blank line.
    pub fn finish(&mut self, out: &mut Vec<Bytes>) {
        if !self.held.is_empty() {
            let held = Bytes::from(std::mem::take(&mut self.held));
            self.edit(&held, out);
        }
        self.frame = Frame::new();
        self.passing = false;
    }

    fn flush(&self, rest: &mut Bytes, ready: &mut usize, out: &mut Vec<Bytes>) {
        if *ready > 0 {
            out.push(rest.split_to(*ready));
            *ready = 0;
        }
    }

    /// Adds to the held event; passes it on when it is complete or too large.
    fn hold(&mut self, piece: &Bytes, complete: bool, out: &mut Vec<Bytes>) {
        let room = MAX_HELD.saturating_sub(self.held.len()).min(piece.len());
        self.held.extend_from_slice(&piece[..room]);
        if complete || self.held.len() >= MAX_HELD {
            let held = Bytes::from(std::mem::take(&mut self.held));
            self.edit(&held, out);
            if room < piece.len() {
                out.push(piece.slice(room..));
            }
            self.passing = !complete;
        }
    }

    /// Edits an event that lies in one chunk, at `ready` of `rest`.
    fn edit_in_place(&self, rest: &mut Bytes, ready: &mut usize, event: &Bytes, out: &mut Vec<Bytes>) {
        let mut done = 0;
        for span in models(event).iter() {
            if event[span.clone()] == self.value {
                continue;
            }
            *ready += span.start - done;
            self.flush(rest, ready, out);
            out.push(self.value.clone());
            *rest = rest.slice(span.len()..);
            done = span.end;
        }
        *ready += event.len() - done;
    }

    fn edit(&self, event: &Bytes, out: &mut Vec<Bytes>) {
        let (mut rest, mut ready) = (event.clone(), 0);
        self.edit_in_place(&mut rest, &mut ready, event, out);
        self.flush(&mut rest, &mut ready, out);
    }
}

/// A whole JSON answer with its model replaced by `to`, at the places where
/// [`ModelEditor`] does; none when it states no model there. What follows a
/// top-level model is not looked at.
pub fn rewrite_model_json(body: &[u8], to: &str) -> Option<Vec<u8>> {
    let mut spans = Spans::default();
    find_models(body, &mut spans).ok()?;
    if spans.len == 0 {
        return None;
    }
    let mut out = Vec::with_capacity(body.len() + to.len());
    let mut done = 0;
    for span in spans.iter() {
        out.extend_from_slice(&body[done..span.start]);
        push_string(&mut out, to);
        done = span.end;
    }
    out.extend_from_slice(&body[done..]);
    Some(out)
}

/// The few places of one answer where a model is named, in their order.
#[derive(Default)]
struct Spans {
    at: [Range<usize>; 4],
    len: usize,
}

impl Spans {
    fn push(&mut self, span: Range<usize>) {
        if let Some(place) = self.at.get_mut(self.len) {
            *place = span;
            self.len += 1;
        }
    }

    fn iter(&self) -> impl Iterator<Item = Range<usize>> {
        self.at.iter().take(self.len).cloned()
    }
}

/// Where the event `event` names its model; offsets into it.
fn models(event: &[u8]) -> Spans {
    let event = &event[..event.len().min(MAX_HELD)];
    let mut spans = Spans::default();
    let mut values =
        lines(event).filter_map(|line| field(line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(line), b"data"));
    let (Some(first), second) = (values.next(), values.next()) else { return spans };
    if second.is_none() {
        // What a text that breaks off said before is edited all the same.
        let _ = find_models(first, &mut spans);
        let offset = offset_in(event, first);
        for span in &mut spans.at[..spans.len] {
            *span = span.start + offset..span.end + offset;
        }
        return spans;
    }
    // Data over several lines is joined by line feeds. A string cannot hold
    // one, so every span lies within one line.
    let (mut joined, mut starts) = (Vec::new(), Vec::new());
    for value in lines(event).filter_map(|line| field(line, b"data")) {
        starts.push((joined.len(), offset_in(event, value)));
        joined.extend_from_slice(value);
        joined.push(b'\n');
    }
    let mut found = Spans::default();
    let _ = find_models(&joined, &mut found);
    for span in found.iter() {
        let line = starts.partition_point(|&(start, _)| start <= span.start);
        if let Some(&(start, offset)) = line.checked_sub(1).and_then(|i| starts.get(i)) {
            spans.push(span.start - start + offset..span.end - start + offset);
        }
    }
    spans
}

/// Offset of `part`, a part of `whole`.
fn offset_in(whole: &[u8], part: &[u8]) -> usize {
    (part.as_ptr() as usize).saturating_sub(whole.as_ptr() as usize)
}

fn find_models(json: &[u8], spans: &mut Spans) -> Result<(), JsonError> {
    let mut pull = Pull::new(json);
    if pull.next()? != Event::ObjectStart {
        return Ok(());
    }
    while let Event::Key(key) = pull.next()? {
        if key.is(json, b"model") {
            // An answer with a model of its own has none further in, and the
            // rest of it, which is most of it, need not be looked at.
            if model_value(&mut pull, spans)? {
                return Ok(());
            }
        } else if key.is(json, b"response") || key.is(json, b"message") {
            inner(json, &mut pull, spans)?;
        } else {
            pull.skip_value()?;
        }
    }
    Ok(())
}

fn inner(json: &[u8], pull: &mut Pull<'_>, spans: &mut Spans) -> Result<(), JsonError> {
    let outside = pull.depth();
    match pull.next()? {
        Event::ObjectStart => {}
        Event::ArrayStart => return pull.skip_to_depth(outside),
        _ => return Ok(()),
    }
    while let Event::Key(key) = pull.next()? {
        if key.is(json, b"model") {
            model_value(pull, spans)?;
        } else {
            pull.skip_value()?;
        }
    }
    Ok(())
}

/// Notes the next value when it is a string; returns whether it was.
fn model_value(pull: &mut Pull<'_>, spans: &mut Spans) -> Result<bool, JsonError> {
    let outside = pull.depth();
    match pull.next()? {
        Event::String(text) => {
            spans.push(text.start - 1..text.end + 1);
            return Ok(true);
        }
        Event::ObjectStart | Event::ArrayStart => pull.skip_to_depth(outside)?,
        _ => {}
    }
    Ok(false)
}
