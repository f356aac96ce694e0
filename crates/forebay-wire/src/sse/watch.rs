//! The observer of a stream.

use forebay_core::Usage;

use super::{
    event::{Dialect, Facts, read},
    frame::{Frame, field, lines, single_data},
    template::Template,
};
use crate::usage::Counts;

/// Largest event that is read, in bytes. Of a larger one only the beginning is
/// looked at.
const MAX_EVENT: usize = 1 << 20;

/// Watches an event stream as it passes, in pieces of any size.
///
/// It never fails and holds at most one incomplete event of up to 1 MiB. What
/// it tells does not depend on where the stream was cut into pieces.
#[derive(Debug)]
pub struct Watcher {
    dialect: Dialect,
    frame: Frame,
    /// The beginning of an event that is not complete.
    carry: Vec<u8>,
    /// The event in `carry` is larger than is read.
    oversize: bool,
    template: Template,
    first_event: bool,
    events: u64,
    tokens: u64,
    finish_reasons: u64,
    counts: Counts,
    done: bool,
    error: bool,
}

impl Watcher {
    /// A watcher at the start of a stream.
    pub fn new(dialect: Dialect) -> Watcher {
        Watcher {
            dialect,
            frame: Frame::new(),
            carry: Vec::new(),
            oversize: false,
            template: Template::default(),
            first_event: true,
            events: 0,
            tokens: 0,
            finish_reasons: 0,
            counts: Counts::default(),
            done: false,
            error: false,
        }
    }

    /// Takes note of the next bytes of the stream.
    #[inline]
    pub fn feed(&mut self, chunk: &[u8]) {
        let mut rest = chunk;
        while let Some(end) = self.frame.next_end(rest) {
            let (event, after) = rest.split_at(end);
            rest = after;
            if self.carry.is_empty() && event.len() <= MAX_EVENT {
                self.event(event, false);
            } else {
                self.hold(event);
                self.end_held();
            }
        }
        if !rest.is_empty() {
            self.hold(rest);
        }
    }

    /// Takes note of the end of the stream: an event without its blank line is
    /// read as it stands.
    pub fn finish(&mut self) {
        if !self.carry.is_empty() {
            self.end_held();
        }
        self.frame = Frame::new();
    }

    /// Events with data, `[DONE]` not counted.
    pub fn events(&self) -> u64 {
        self.events
    }

    /// Events that carry generated content: a lower bound of the generated tokens.
    pub fn tokens(&self) -> u64 {
        self.tokens
    }

    /// Whether an event with generated content has passed.
    pub fn first_token_seen(&self) -> bool {
        self.tokens > 0
    }

    /// Whether any event with data has passed. Comments and empty data do not count.
    pub fn saw_data(&self) -> bool {
        self.events > 0 || self.done
    }

    /// The usage as the engine stated it; the last statement wins.
    pub fn usage(&self) -> Option<Usage> {
        self.counts.usage()
    }

    /// Whether the stream said that it is complete.
    pub fn done(&self) -> bool {
        self.done
    }

    /// Whether the stream said that the request failed: an error object or
    /// event, or a `finish_reason` of "abort" or "error".
    pub fn error(&self) -> bool {
        self.error
    }

    /// How many reasons to finish have passed, one per choice as a rule.
    pub fn finish_reasons_seen(&self) -> u64 {
        self.finish_reasons
    }

    fn hold(&mut self, bytes: &[u8]) {
        let room = MAX_EVENT.saturating_sub(self.carry.len());
        self.oversize |= bytes.len() > room;
        self.carry.extend_from_slice(&bytes[..bytes.len().min(room)]);
    }

    fn end_held(&mut self) {
        let mut event = std::mem::take(&mut self.carry);
        let oversize = std::mem::take(&mut self.oversize);
        self.event(&event, oversize);
        // A stream of small events keeps its small buffer.
        if event.capacity() <= 4096 {
            event.clear();
            self.carry = event;
        }
    }

    /// One event, with its line ends; only its beginning when it is `oversize`.
    #[inline]
    fn event(&mut self, event: &[u8], oversize: bool) {
        if let Some(data) = single_data(event).filter(|_| !oversize) {
            self.first_event = false;
            return self.data(data);
        }
        self.unusual_event(event, oversize);
    }

    fn unusual_event(&mut self, event: &[u8], oversize: bool) {
        let mut event = event;
        if std::mem::take(&mut self.first_event) {
            event = event.strip_prefix(b"\xef\xbb\xbf").unwrap_or(event);
        }
        let mut name: &[u8] = b"";
        let mut first: Option<&[u8]> = None;
        let mut joined: Option<Vec<u8>> = None;
        for line in lines(event) {
            if let Some(value) = field(line, b"data") {
                match (first, &mut joined) {
                    (None, _) => first = Some(value),
                    (Some(_), Some(joined)) => {
                        joined.push(b'\n');
                        joined.extend_from_slice(value);
                    }
                    (Some(first), none) => *none = Some([first, b"\n", value].concat()),
                }
            } else if let Some(value) = field(line, b"event") {
                name = value;
            }
        }
        let data = joined.as_deref().or(first).unwrap_or_default();
        if data.is_empty() {
            return;
        }
        let named = Facts::of_name(self.dialect, name);
        self.done |= named.done;
        self.error |= named.error;
        if oversize {
            // Nothing but content is as large as this.
            self.events += 1;
            self.tokens += 1;
        } else {
            self.data(data);
        }
    }

    #[inline]
    fn data(&mut self, data: &[u8]) {
        if let Some(content) = self.template.content(data) {
            self.events += 1;
            self.tokens += u64::from(content);
            return;
        }
        self.unknown_data(data);
    }

    fn unknown_data(&mut self, data: &[u8]) {
        if data.is_empty() {
            return;
        }
        if data == b"[DONE]" {
            self.done = true;
            return;
        }
        self.events += 1;
        let facts = read(self.dialect, data, self.counts);
        self.tokens += u64::from(facts.content);
        self.finish_reasons += u64::from(facts.finish_reasons);
        self.done |= facts.done;
        self.error |= facts.error;
        if let Some(counts) = facts.usage {
            self.counts = counts;
        }
        if let Some(text) = facts.plain {
            self.template.learn(data, text.start, text.end);
        }
    }
}
