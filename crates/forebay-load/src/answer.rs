//! Reading one streamed answer: its tokens' times, its text, its usage and how
//! it ended.
//!
//! Deliberately not the gateway's own watcher: what the load generator reports
//! about a gateway should not share the gateway's mistakes, and a conversation
//! needs the text, which the watcher never keeps.

use std::borrow::Cow;

use forebay_core::Usage;
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::time::Instant;

#[cfg(test)]
#[path = "answer_tests.rs"]
mod tests;

/// Longest event that is still read; an engine's are below a few kilobytes.
const MAX_EVENT: usize = 4 << 20;

/// What is known of an answer so far.
#[derive(Debug, Default)]
pub(crate) struct Answer {
    /// Arrival of the first event with text, or of the finish reason when the
    /// whole answer has none (tokens that decode to nothing).
    pub(crate) first: Option<Instant>,
    /// Arrival of the last such event.
    pub(crate) last: Option<Instant>,
    /// Events with text.
    pub(crate) events: u64,
    /// All text, when it was asked for.
    pub(crate) text: String,
    /// As the engine stated it.
    pub(crate) usage: Option<Usage>,
    /// Whether the engine said anything about cached tokens.
    pub(crate) states_cached: bool,
    /// `[DONE]` came.
    pub(crate) done: bool,
    /// The first error: an error event, or something that is no answer.
    pub(crate) error: Option<String>,
}

/// Feeds on the bytes of an event stream, cut anywhere.
pub(crate) struct AnswerReader {
    answer: Answer,
    keep_text: bool,
    /// A line that is not complete yet.
    line: Vec<u8>,
    /// The data lines of an event that is not complete yet.
    data: Vec<u8>,
    /// The event that is not complete yet is named "error".
    named_error: bool,
    /// The last byte was a carriage return: a line feed now belongs to it.
    after_cr: bool,
}

#[derive(Deserialize)]
struct Event<'a> {
    #[serde(default, borrow)]
    choices: Vec<Choice<'a>>,
    #[serde(default)]
    usage: Option<EventUsage>,
    #[serde(default, borrow)]
    error: Option<&'a RawValue>,
    /// "error" in the flat errors of old vLLM.
    #[serde(default, borrow)]
    object: Option<Cow<'a, str>>,
}

#[derive(Deserialize)]
struct Choice<'a> {
    #[serde(default, borrow)]
    delta: Option<Delta<'a>>,
    #[serde(default, borrow)]
    text: Option<Cow<'a, str>>,
    #[serde(default, borrow)]
    finish_reason: Option<Cow<'a, str>>,
}

#[derive(Deserialize)]
struct Delta<'a> {
    #[serde(default, borrow)]
    content: Option<Cow<'a, str>>,
    // Thinking is generated and streamed too, under either name.
    #[serde(default, borrow)]
    reasoning: Option<Cow<'a, str>>,
    #[serde(default, borrow)]
    reasoning_content: Option<Cow<'a, str>>,
}

#[derive(Deserialize)]
struct EventUsage {
    prompt_tokens: u64,
    #[serde(default)]
    completion_tokens: u64,
    #[serde(default)]
    prompt_tokens_details: Option<PromptDetails>,
}

#[derive(Deserialize)]
struct PromptDetails {
    #[serde(default)]
    cached_tokens: Option<u64>,
}

impl AnswerReader {
    pub(crate) fn new(keep_text: bool) -> AnswerReader {
        AnswerReader {
            answer: Answer::default(),
            keep_text,
            line: Vec::new(),
            data: Vec::new(),
            named_error: false,
            after_cr: false,
        }
    }

    /// Takes the next bytes, which arrived at `now`; gives the number of
    /// events with text that they completed.
    pub(crate) fn feed(&mut self, bytes: &[u8], now: Instant) -> u64 {
        let before = self.answer.events;
        let mut rest = bytes;
        if self.after_cr && rest.first() == Some(&b'\n') {
            rest = &rest[1..];
        }
        if !bytes.is_empty() {
            self.after_cr = false;
        }
        while let Some(end) = rest.iter().position(|&b| b == b'\n' || b == b'\r') {
            self.line.extend_from_slice(&rest[..end]);
            let cr = rest[end] == b'\r';
            rest = &rest[end + 1..];
            if cr && rest.first() == Some(&b'\n') {
                rest = &rest[1..];
            } else if cr && rest.is_empty() {
                self.after_cr = true;
            }
            self.end_of_line(now);
        }
        if self.line.len() + self.data.len() + rest.len() > MAX_EVENT {
            self.fail(format!("an event is longer than {MAX_EVENT} bytes"));
            self.line.clear();
            self.data.clear();
        } else {
            self.line.extend_from_slice(rest);
        }
        self.answer.events - before
    }

    /// What was read. An event that lacks only its blank line counts.
    pub(crate) fn finish(mut self, now: Instant) -> Answer {
        for _ in 0..2 {
            self.end_of_line(now);
        }
        self.answer
    }

    fn end_of_line(&mut self, now: Instant) {
        let line = std::mem::take(&mut self.line);
        if line.is_empty() {
            let data = std::mem::take(&mut self.data);
            if std::mem::take(&mut self.named_error) {
                self.fail(format!("error event: {}", clip(&String::from_utf8_lossy(&data))));
            } else if !data.is_empty() {
                self.event(&data, now);
            }
            return;
        }
        if let Some(value) = line.strip_prefix(b"data:") {
            if !self.data.is_empty() {
                self.data.push(b'\n');
            }
            self.data.extend_from_slice(value.strip_prefix(b" ").unwrap_or(value));
        } else if let Some(name) = line.strip_prefix(b"event:") {
            self.named_error = name.trim_ascii() == b"error";
        }
        // Comments and the other fields say nothing here.
    }

    fn event(&mut self, data: &[u8], now: Instant) {
        if data == b"[DONE]" {
            self.answer.done = true;
            return;
        }
        let event: Event<'_> = match serde_json::from_slice(data) {
            Ok(event) => event,
            Err(error) => return self.fail(format!("an event that is not understood ({error})")),
        };
        if event.object.as_deref() == Some("error") || event.error.is_some_and(|e| e.get() != "null") {
            return self.fail(format!("error event: {}", clip(&String::from_utf8_lossy(data))));
        }
        let (mut has_text, mut finished) = (false, false);
        for choice in &event.choices {
            let delta = choice.delta.as_ref();
            let content = choice.text.as_deref().or_else(|| delta.and_then(|d| d.content.as_deref()));
            let thought = delta.and_then(|d| d.reasoning.as_deref().or(d.reasoning_content.as_deref()));
            has_text |= content.is_some_and(|t| !t.is_empty()) || thought.is_some_and(|t| !t.is_empty());
            if let (true, Some(content)) = (self.keep_text, content) {
                self.answer.text.push_str(content);
            }
            match choice.finish_reason.as_deref() {
                Some(reason @ ("abort" | "error")) => {
                    self.fail(format!("the engine gave up (finish_reason \"{reason}\")"));
                }
                Some(_) => finished = true,
                None => {}
            }
        }
        if has_text {
            self.answer.events += 1;
            self.answer.last = Some(now);
        }
        if has_text || finished {
            self.answer.first.get_or_insert(now);
            self.answer.last.get_or_insert(now);
        }
        if let Some(usage) = event.usage {
            let cached = usage.prompt_tokens_details.and_then(|d| d.cached_tokens);
            self.answer.states_cached |= cached.is_some();
            self.answer.usage = Some(Usage {
                prompt_tokens: usage.prompt_tokens,
                cached_tokens: cached.unwrap_or(0),
                completion_tokens: usage.completion_tokens,
                estimated: false,
                cached_known: cached.is_some(),
            });
        }
    }

    fn fail(&mut self, why: String) {
        self.answer.error.get_or_insert(why);
    }
}

/// At most the first 200 characters.
pub(crate) fn clip(text: &str) -> &str {
    text.char_indices().nth(200).map_or(text, |(end, _)| &text[..end])
}
