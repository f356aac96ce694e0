//! Walking values whose shape is free: what is counted of them, and what is
//! rendered.

use super::{prompt::Walk, render::Digest};
use crate::json::{Event, JsonError, Str};

/// What becomes of a field inside a message.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Treat {
    /// Templates do not render it.
    Skip,
    /// Not text: its digest stands for it.
    Media,
    /// What a model calls a tool with.
    Arguments,
    /// Everything else.
    Render,
}

impl Treat {
    fn of(buf: &[u8], key: Str) -> Treat {
        match key.short(buf, &mut [0; 32]).unwrap_or_default() {
            b"type" | b"role" | b"id" | b"tool_call_id" | b"tool_use_id" | b"call_id" | b"status"
            | b"encrypted_content" | b"signature" | b"cache_control" | b"detail" => Treat::Skip,
            b"url" | b"image_url" | b"video_url" | b"audio_url" | b"input_audio" | b"image" | b"audio"
            | b"video" | b"source" | b"data" | b"file_data" | b"file" | b"b64_json" | b"image_embeds"
            | b"audio_embeds" => Treat::Media,
            b"arguments" | b"input" => Treat::Arguments,
            _ => Treat::Render,
        }
    }

    /// The shape of a value that is rendered.
    fn shape(self) -> Shape {
        if self == Treat::Arguments { Shape::Arguments } else { Shape::Message }
    }
}

/// What a value is, and so what its keys mean.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Shape {
    /// Part of a message: see [`Treat`].
    Message,
    /// What a model calls a tool with: all of it is rendered, and what would
    /// count in a message is counted.
    Arguments,
    /// The definition of a tool: all of it is rendered, nothing counted.
    Tool,
}

impl Walk<'_, '_> {
    /// A field of a message or of a part, from behind its key. A null is absent.
    pub(super) fn field(&mut self, key: Str) -> Result<(), JsonError> {
        match Treat::of(self.buf, key) {
            Treat::Skip => self.pull.skip_value(),
            Treat::Media => self.media(),
            treat => match self.pull.next()? {
                Event::Null => Ok(()),
                event => {
                    self.render.key(self.buf, key);
                    self.value(event, treat.shape())
                }
            },
        }
    }

    /// The value whose first event was `first`.
    pub(super) fn value(&mut self, first: Event, shape: Shape) -> Result<(), JsonError> {
        let outside = self.outside(&first);
        let mut event = first;
        // The key of the next value, when that value may yet turn out absent.
        let mut pending = None;
        // As long as more containers than this are open, all is rendered, or
        // nothing is counted.
        let mut all_above = (shape != Shape::Message).then_some(outside);
        let mut quiet_above = (shape == Shape::Tool).then_some(0);
        loop {
            match event {
                Event::Key(key) if all_above.is_some() => {
                    if key.is(self.buf, b"cache_control") {
                        self.pull.skip_value()?;
                    } else {
                        self.render.key(self.buf, key);
                        if quiet_above.is_none()
                            && matches!(Treat::of(self.buf, key), Treat::Skip | Treat::Media)
                        {
                            quiet_above = Some(self.pull.depth());
                        }
                    }
                    event = self.pull.next()?;
                    continue;
                }
                Event::Key(key) => match Treat::of(self.buf, key) {
                    Treat::Skip => self.pull.skip_value()?,
                    Treat::Media => self.media()?,
                    treat => pending = Some((key, treat)),
                },
                Event::Null if pending.take().is_some() => {}
                other => {
                    if let Some((key, treat)) = pending.take() {
                        self.render.key(self.buf, key);
                        if treat == Treat::Arguments {
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
        let start = self.pull.pos();
        match if self.render.on { self.pull.next()? } else { Event::Null } {
            Event::Null if !self.render.on => self.pull.skip_value()?,
            Event::Null => {}
            Event::ArrayStart => loop {
                match self.pull.next()? {
                    Event::ArrayEnd => break,
                    tool => {
                        self.render.tool();
                        self.value(tool, Shape::Tool)?;
                    }
                }
            },
            tool => {
                self.render.tool();
                self.value(tool, Shape::Tool)?;
            }
        }
        self.sizes.bytes += self.pull.pos() - start;
        Ok(())
    }
}
