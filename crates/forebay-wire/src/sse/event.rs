//! What one event says.

use crate::{
    body::Api,
    json::{Event, JsonError, Pull, Str},
    usage::Counts,
};

/// Which kind of stream is watched.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Dialect {
    /// OpenAI chat and completion chunks, ended by `[DONE]`.
    OpenAi,
    /// OpenAI's typed events: `/v1/responses`, and audio and images.
    Responses,
    /// Anthropic's typed events.
    Anthropic,
}

impl Dialect {
    /// The dialect of the answers of `api`.
    pub const fn of(api: Api) -> Dialect {
        match api {
            Api::Responses | Api::Audio | Api::Images => Dialect::Responses,
            Api::Messages | Api::CountTokens => Dialect::Anthropic,
            _ => Dialect::OpenAi,
        }
    }
}

/// What was found in the data of one event.
#[derive(Default, Debug)]
pub(super) struct Facts {
    /// It carries generated content.
    pub(super) content: bool,
    /// It says that the request failed.
    pub(super) error: bool,
    /// It is the last event.
    pub(super) done: bool,
    /// Reasons to finish that are not null.
    pub(super) finish_reasons: u32,
    /// Its usage replaces what was known, instead of adding to it.
    pub(super) usage: Option<Counts>,
    /// Where the only content string of an event with nothing else of interest
    /// lies, so that the next event of the same shape needs no scan.
    pub(super) plain: Option<Str>,
}

/// Reads the data of one event. What is not JSON says nothing from there on.
pub(super) fn read(dialect: Dialect, data: &[u8], known: Counts) -> Facts {
    let mut scan =
        Scan { dialect, data, pull: Pull::new(data), facts: Facts::default(), counts: known, texts: 0 };
    let whole = scan.top().is_ok();
    let (mut facts, counts) = (scan.facts, scan.counts);
    if counts != known {
        facts.usage = Some(counts);
    }
    let quiet = !facts.error && !facts.done && facts.finish_reasons == 0 && facts.usage.is_none();
    if !(whole && quiet && scan.texts == 1) {
        facts.plain = None;
    }
    facts
}

struct Scan<'a> {
    dialect: Dialect,
    data: &'a [u8],
    pull: Pull<'a>,
    facts: Facts,
    counts: Counts,
    /// How many things that count as content were met, empty ones included.
    texts: u32,
}

impl Scan<'_> {
    fn top(&mut self) -> Result<(), JsonError> {
        if self.pull.next()? != Event::ObjectStart {
            return Ok(());
        }
        let mut is_delta = false;
        let mut delta_content = false;
        while let Event::Key(key) = self.pull.next()? {
            match (key.raw(self.data), self.dialect) {
                (b"error", _) => self.error()?,
                (b"usage", _) => self.usage()?,
                (b"choices", Dialect::OpenAi) => self.choices()?,
                (b"object", Dialect::OpenAi) => {
                    // Old vLLM streams its errors flat: {"object":"error","message":…}.
                    if let Some(object) = self.string()? {
                        self.facts.error |= object.is(self.data, b"error");
                    }
                }
                (b"type", Dialect::Responses | Dialect::Anthropic) => {
                    if let Some(kind) = self.string()? {
                        is_delta = self.kind(kind.raw(self.data));
                    }
                }
                (b"delta", Dialect::Responses) => delta_content = self.content()?,
                (b"delta", Dialect::Anthropic) => delta_content = self.anthropic_delta()?,
                (b"response", Dialect::Responses) | (b"message", Dialect::Anthropic) => self.inner()?,
                _ => self.pull.skip_value()?,
            }
        }
        self.facts.content |= is_delta && delta_content;
        if self.dialect != Dialect::OpenAi && !is_delta {
            self.texts = 0;
        }
        Ok(())
    }

    /// Judges the `type` of a typed event; true when it brings content.
    fn kind(&mut self, kind: &[u8]) -> bool {
        let kind_facts = Facts::of_name(self.dialect, kind);
        self.facts.done |= kind_facts.done;
        self.facts.error |= kind_facts.error;
        kind_facts.content
    }

    /// The next value when it is a string; everything else is passed over.
    fn string(&mut self) -> Result<Option<Str>, JsonError> {
        let outside = self.pull.depth();
        match self.pull.next()? {
            Event::String(text) => Ok(Some(text)),
            Event::ObjectStart | Event::ArrayStart => {
                self.pull.skip_to_depth(outside)?;
                Ok(None)
            }
            _ => Ok(None),
        }
    }

    /// The value of a content field; true when there is content in it.
    fn content(&mut self) -> Result<bool, JsonError> {
        self.texts += 1;
        let outside = self.pull.depth();
        match self.pull.next()? {
            Event::String(text) => {
                self.facts.plain = Some(text);
                Ok(!text.is_empty())
            }
            Event::ObjectStart | Event::ArrayStart => {
                self.texts += 1;
                let first = self.pull.next()?;
                let empty = matches!(first, Event::ObjectEnd | Event::ArrayEnd);
                self.pull.skip_to_depth(outside)?;
                Ok(!empty)
            }
            // A null stands beside the real content (`"content":null` next to tool calls).
            _ => {
                self.texts -= 1;
                Ok(false)
            }
        }
    }

    fn error(&mut self) -> Result<(), JsonError> {
        let outside = self.pull.depth();
        match self.pull.next()? {
            Event::Null | Event::Bool(false) => {}
            Event::String(text) => self.facts.error |= !text.is_empty(),
            Event::ObjectStart | Event::ArrayStart => {
                self.facts.error = true;
                self.pull.skip_to_depth(outside)?;
            }
            _ => self.facts.error = true,
        }
        Ok(())
    }

    fn usage(&mut self) -> Result<(), JsonError> {
        // Chunks and Responses state the whole each time; Anthropic spreads it
        // over the first and the last event.
        let mut counts = if self.dialect == Dialect::Anthropic { self.counts } else { Counts::default() };
        if counts.read(&mut self.pull, self.data)? && counts.usage().is_some() {
            self.counts = counts;
        }
        Ok(())
    }

    fn choices(&mut self) -> Result<(), JsonError> {
        let outside = self.pull.depth();
        match self.pull.next()? {
            Event::ArrayStart => {}
            Event::ObjectStart => return self.pull.skip_to_depth(outside),
            _ => return Ok(()),
        }
        loop {
            match self.pull.next()? {
                Event::ObjectStart => self.choice()?,
                Event::ArrayStart => self.pull.skip_to_depth(outside + 1)?,
                Event::ArrayEnd => return Ok(()),
                _ => {}
            }
        }
    }

    fn choice(&mut self) -> Result<(), JsonError> {
        while let Event::Key(key) = self.pull.next()? {
            match key.raw(self.data) {
                b"delta" => self.chunk_delta()?,
                b"text" => self.facts.content |= self.content()?,
                b"finish_reason" => {
                    if let Some(reason) = self.string()? {
                        self.facts.finish_reasons += 1;
                        self.facts.error |= matches!(reason.raw(self.data), b"abort" | b"error");
                    }
                }
                _ => self.pull.skip_value()?,
            }
        }
        Ok(())
    }

    fn chunk_delta(&mut self) -> Result<(), JsonError> {
        let outside = self.pull.depth();
        match self.pull.next()? {
            Event::ObjectStart => {}
            Event::ArrayStart => return self.pull.skip_to_depth(outside),
            _ => return Ok(()),
        }
        while let Event::Key(key) = self.pull.next()? {
            match key.raw(self.data) {
                b"content" | b"reasoning" | b"reasoning_content" | b"tool_calls" | b"function_call"
                | b"refusal" | b"audio" => self.facts.content |= self.content()?,
                _ => self.pull.skip_value()?,
            }
        }
        Ok(())
    }

    /// `delta` of a content block: its type and one field of text.
    fn anthropic_delta(&mut self) -> Result<bool, JsonError> {
        let outside = self.pull.depth();
        match self.pull.next()? {
            Event::ObjectStart => {}
            Event::ArrayStart => {
                self.pull.skip_to_depth(outside)?;
                return Ok(false);
            }
            _ => return Ok(false),
        }
        let mut content = false;
        while let Event::Key(key) = self.pull.next()? {
            match key.raw(self.data) {
                b"text" | b"thinking" | b"partial_json" => content |= self.content()?,
                b"stop_reason" => self.facts.finish_reasons += u32::from(self.string()?.is_some()),
                _ => self.pull.skip_value()?,
            }
        }
        Ok(content)
    }

    /// The `response` or `message` object of a typed event.
    fn inner(&mut self) -> Result<(), JsonError> {
        let outside = self.pull.depth();
        match self.pull.next()? {
            Event::ObjectStart => {}
            Event::ArrayStart => return self.pull.skip_to_depth(outside),
            _ => return Ok(()),
        }
        while let Event::Key(key) = self.pull.next()? {
            match key.raw(self.data) {
                b"usage" => self.usage()?,
                b"error" => self.error()?,
                _ => self.pull.skip_value()?,
            }
        }
        Ok(())
    }
}

impl Facts {
    /// What the name of a typed event says, from `type` or from the `event:` line.
    pub(super) fn of_name(dialect: Dialect, name: &[u8]) -> Facts {
        let mut facts = Facts::default();
        match (dialect, name) {
            (_, b"error") => facts.error = true,
            (Dialect::Responses, b"response.failed") => (facts.error, facts.done) = (true, true),
            (Dialect::Responses, b"response.completed" | b"response.incomplete" | b"response.cancelled")
            | (Dialect::Anthropic, b"message_stop") => facts.done = true,
            (Dialect::Responses, _) => facts.content = name.ends_with(b".delta"),
            (Dialect::Anthropic, b"content_block_delta") => facts.content = true,
            _ => {}
        }
        facts
    }
}
