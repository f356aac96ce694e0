//! Walking values whose shape is free: what is counted of them, and what is
//! rendered.

use super::{prompt::Walk, render::Digest};
use crate::json::{Event, JsonError, Str};

/// What becomes of a field inside a message.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Treat {
    /// Templates do not render it.
    Skip,
    /// Not text: its digest stands for it.
    Media,
    Render,
}

impl Treat {
    pub(super) fn of(buf: &[u8], key: Str) -> Treat {
        match key.short(buf, &mut [0; 32]).unwrap_or_default() {
            b"type" | b"role" | b"id" | b"tool_call_id" | b"tool_use_id" | b"call_id" | b"status"
            | b"encrypted_content" | b"signature" | b"cache_control" | b"detail" => Treat::Skip,
            b"url" | b"image_url" | b"video_url" | b"audio_url" | b"input_audio" | b"image" | b"audio"
            | b"video" | b"source" | b"data" | b"file_data" | b"file" | b"b64_json" | b"image_embeds"
            | b"audio_embeds" => Treat::Media,
            _ => Treat::Render,
        }
    }
}

/// Where everything is rendered, whatever its keys.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Free {
    /// In what a tool is called with.
    Arguments,
    /// Everywhere.
    All,
}

impl Walk<'_, '_> {
    /// A field of a message or of a part, from behind its key. A null is absent.
    pub(super) fn field(&mut self, key: Str) -> Result<(), JsonError> {
        match Treat::of(self.buf, key) {
            Treat::Skip => self.pull.skip_value(),
            Treat::Media => self.media(),
            Treat::Render => match self.pull.next()? {
                Event::Null => Ok(()),
                event => {
                    self.render.key(self.buf, key);
                    let free = if self.holds_arguments(key) { Free::All } else { Free::Arguments };
                    self.value(event, free)
                }
            },
        }
    }

    fn holds_arguments(&self, key: Str) -> bool {
        key.is(self.buf, b"arguments") || key.is(self.buf, b"input")
    }

    /// The value whose first event was `first`. Counts its strings.
    pub(super) fn value(&mut self, first: Event, free: Free) -> Result<(), JsonError> {
        let outside = self.outside(&first);
        let mut event = first;
        // The key of the next value, when that value may yet turn out absent.
        let mut pending = None;
        // As long as more containers than this are open, all is rendered, or
        // nothing is counted.
        let mut all_above = (free == Free::All).then_some(outside);
        let mut quiet_above = None;
        loop {
            match event {
                Event::Key(key) if all_above.is_some() => {
                    if key.is(self.buf, b"cache_control") {
                        self.pull.skip_value()?;
                    } else {
                        self.render.key(self.buf, key);
                        if quiet_above.is_none() && Treat::of(self.buf, key) != Treat::Render {
                            quiet_above = Some(self.pull.depth());
                        }
                    }
                    event = self.pull.next()?;
                    continue;
                }
                Event::Key(key) => match Treat::of(self.buf, key) {
                    Treat::Skip => self.pull.skip_value()?,
                    Treat::Media => self.media()?,
                    Treat::Render => pending = Some(key),
                },
                Event::Null if pending.take().is_some() => {}
                other => {
                    if let Some(key) = pending.take() {
                        self.render.key(self.buf, key);
                        if self.holds_arguments(key) {
                            all_above = Some(self.outside(&other));
                        }
                    }
                    if let Event::String(text) = other
                        && quiet_above.is_none()
                    {
                        self.count(text);
                    }
                    self.write(other);
                }
            }
            let depth = self.pull.depth();
            if depth <= outside {
                return Ok(());
            }
            all_above = all_above.filter(|above| depth > *above);
            quiet_above = quiet_above.filter(|above| depth > *above);
            event = self.pull.next()?;
        }
    }

    /// How many containers are open outside of the value that `first` begins.
    fn outside(&self, first: &Event) -> usize {
        let opened = matches!(first, Event::ObjectStart | Event::ArrayStart);
        self.pull.depth() - usize::from(opened)
    }

    fn write(&mut self, event: Event) {
        match event {
            Event::String(text) if text.starts_with(self.buf, b"data:") => {
                let mut digest = Digest::default();
                digest.text(self.buf, text);
                self.render.media(digest);
            }
            Event::String(text) => self.render.string(self.buf, text),
            Event::Number(at) => self.render.word(&self.buf[at]),
            Event::Bool(true) => self.render.word(b"true"),
            Event::Bool(false) => self.render.word(b"false"),
            Event::Null => self.render.word(b"null"),
            Event::ObjectStart => self.render.open(true),
            Event::ArrayStart => self.render.open(false),
            Event::ObjectEnd | Event::ArrayEnd => self.render.close(),
            Event::Key(_) => {}
        }
    }

    /// A value that is no text. A null is absent.
    pub(super) fn media(&mut self) -> Result<(), JsonError> {
        if !self.render.on {
            return self.pull.skip_value();
        }
        let outside = self.pull.depth();
        let mut digest = Digest::default();
        loop {
            match self.pull.next()? {
                Event::Null if self.pull.depth() == outside => return Ok(()),
                Event::String(text) => digest.text(self.buf, text),
                Event::Number(at) => digest.raw(&self.buf[at]),
                Event::Bool(word) => digest.raw(&[u8::from(word)]),
                _ => {}
            }
            if self.pull.depth() <= outside {
                self.render.media(digest);
                return Ok(());
            }
        }
    }

    /// The definitions of tools. Templates render them as JSON, so what they
    /// cost is their length.
    pub(super) fn tools(&mut self) -> Result<(), JsonError> {
        let (bytes, start) = (self.sizes.bytes, self.pull.pos());
        match if self.render.on { self.pull.next()? } else { Event::Null } {
            Event::Null if !self.render.on => self.pull.skip_value()?,
            Event::Null => {}
            Event::ArrayStart => loop {
                match self.pull.next()? {
                    Event::ArrayEnd => break,
                    tool => {
                        self.render.tool();
                        self.value(tool, Free::All)?;
                    }
                }
            },
            tool => {
                self.render.tool();
                self.value(tool, Free::All)?;
            }
        }
        self.sizes.bytes = bytes + (self.pull.pos() - start);
        Ok(())
    }
}
