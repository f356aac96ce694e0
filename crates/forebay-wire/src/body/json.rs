//! The scan of a JSON body.

use std::ops::Range;

use xxhash_rust::xxh3::Xxh3Default;

use super::{
    Api, BodyError, Scan,
    fields::Field,
    head::Head,
    ids::Prompts,
    order::Order,
    prompt::{Kind, Sizes, Walk},
    render::Render,
    values::Shape,
};
use crate::json::{Event, Pull, Str, count_u32};

/// Longest model name that is accepted, in bytes: the longest path.
pub(super) const MAX_MODEL: usize = 4096;

/// Checks that `body` is one JSON object and finds what routing needs in it.
/// One pass, no tree; the work is in proportion to the length of the body.
///
/// A leading byte order mark is refused, nesting beyond 512 levels as well. A
/// lone surrogate escape is legal JSON and accepted. A null field is absent.
///
/// # Errors
/// The body is not JSON, or a field that routing reads is missing, of a wrong
/// type or given twice.
pub fn scan_json(api: Api, body: &[u8]) -> Result<Scan, BodyError> {
    let mut reader = Reader::new(api, body);
    if reader.pull.next()? != Event::ObjectStart {
        return Err(BodyError::NotObject);
    }
    while let Event::Key(key) = reader.pull.next()? {
        let mut space = [0; 32];
        match key.short(body, &mut space).and_then(|name| Field::read_by(api, name)) {
            Some(field) => reader.field(field)?,
            None => reader.pull.skip_value()?,
        }
    }
    reader.pull.end()?;
    reader.finish()
}

struct Reader<'a> {
    api: Api,
    body: &'a [u8],
    pull: Pull<'a>,
    /// Bits of the fields that were met, null or not.
    seen: u32,
    /// Bits of the fields that were met and not null.
    present: u32,
    model: Option<Str>,
    stream: bool,
    n: u32,
    best_of: u32,
    limits: [Option<u32>; 3],
    /// The beginnings of system text, prompt and input: templates put them in
    /// this order, in whatever order their keys stand.
    heads: [Head; 3],
    sizes: Sizes,
    render: Render,
    order: Order,
    prompts: u32,
    /// Where token ids lie, in the prompt and in the input.
    ids: [Option<Range<usize>>; 2],
    user_hash: Option<u64>,
    cache_salt: Option<u64>,
    include_usage: bool,
}

impl<'a> Reader<'a> {
    fn new(api: Api, body: &'a [u8]) -> Reader<'a> {
        Reader {
            api,
            body,
            pull: Pull::new(body),
            seen: 0,
            present: 0,
            model: None,
            stream: false,
            n: 1,
            best_of: 1,
            limits: [None; 3],
            heads: [Head::new(), Head::new(), Head::new()],
            sizes: Sizes::default(),
            render: Render::new(body.len()),
            order: Order::default(),
            prompts: 1,
            ids: [None, None],
            user_hash: None,
            cache_salt: None,
            include_usage: false,
        }
    }

    fn field(&mut self, field: Field) -> Result<(), BodyError> {
        // The salt is the engine's alone, and never a reason to refuse.
        if self.seen & field.bit() != 0 && field != Field::CacheSalt {
            return Err(BodyError::Duplicate(field.name()));
        }
        self.seen |= field.bit();
        match field {
            Field::Model => self.model()?,
            Field::Stream => match self.scalar(field, "a boolean")? {
                Event::Bool(stream) => self.stream = stream,
                Event::Null => {}
                _ => return Err(invalid(field, "a boolean")),
            },
            Field::N => self.n = self.count(field)?.unwrap_or(1).max(1),
            Field::BestOf => self.best_of = self.count(field)?.unwrap_or(1).max(1),
            Field::MaxCompletionTokens => self.limits[0] = self.count(field)?,
            Field::MaxTokens => self.limits[1] = self.count(field)?,
            Field::MaxOutputTokens => self.limits[2] = self.count(field)?,
            Field::Messages => {
                let kind = self.walk(field)?;
                self.judge(field, kind, "an array", &[Kind::Array])?;
            }
            Field::Prompt | Field::Input => self.prompt_or_input(field)?,
            Field::PromptEmbeds => match self.pull.next()? {
                Event::Null => {}
                Event::ObjectStart | Event::ArrayStart => {
                    self.present |= field.bit();
                    self.pull.skip_to_depth(1)?;
                }
                _ => self.present |= field.bit(),
            },
            Field::System | Field::Instructions | Field::Tools => {
                self.walk(field)?;
            }
            Field::User => self.user_hash = self.hash()?,
            Field::CacheSalt => self.cache_salt = self.hash()?,
            Field::StreamOptions => self.stream_options()?,
            Field::Query | Field::Documents | Field::Text1 | Field::Text2 => {
                let on = std::mem::take(&mut self.render.on);
                let mut walk = self.walker(field);
                let first = walk.pull.next()?;
                walk.value(first, Shape::Message)?;
                self.render.on = on;
            }
        }
        Ok(())
    }

    /// Walks over the value of a field that is part of the prompt.
    fn walk(&mut self, field: Field) -> Result<Kind, BodyError> {
        self.render.on = self.order.note(self.api, field, self.body, &self.pull);
        let (api, mut found) = (self.api, Prompts::default());
        let kind = self.walker(field).rendered(api, field, &mut found)?;
        self.prompts = self.prompts.max(found.count);
        if let Some(ids) = self.ids.get_mut(usize::from(field == Field::Input)) {
            *ids = found.ids.or(ids.take());
        }
        Ok(kind)
    }

    fn walker(&mut self, field: Field) -> Walk<'_, 'a> {
        Walk {
            buf: self.body,
            pull: &mut self.pull,
            head: &mut self.heads[field.part()],
            sizes: &mut self.sizes,
            render: &mut self.render,
        }
    }

    /// The hash of a string that may be absent; a value of another type is
    /// passed over.
    fn hash(&mut self) -> Result<Option<u64>, BodyError> {
        let Some(Event::String(text)) = self.any()? else { return Ok(None) };
        let mut hash = Xxh3Default::new();
        text.decode(self.body, |run| {
            hash.update(run);
            true
        });
        Ok(Some(hash.digest()))
    }

    fn model(&mut self) -> Result<(), BodyError> {
        const EXPECTED: &str = "a string that is not empty";
        match self.scalar(Field::Model, EXPECTED)? {
            Event::Null => Ok(()),
            Event::String(model) if model.decoded_len() > MAX_MODEL => {
                Err(invalid(Field::Model, "at most 4096 bytes long"))
            }
            Event::String(model) if !model.is_empty() => {
                self.model = Some(model);
                Ok(())
            }
            _ => Err(invalid(Field::Model, EXPECTED)),
        }
    }

    fn prompt_or_input(&mut self, field: Field) -> Result<(), BodyError> {
        let kind = self.walk(field)?;
        // Where routing does not need the field, its type is the engine's to judge.
        if matches!(self.api, Api::Completions | Api::Responses | Api::Embeddings) {
            self.judge(field, kind, "a string or an array", &[Kind::String, Kind::Array])?;
        }
        Ok(())
    }

    fn judge(
        &mut self,
        field: Field,
        kind: Kind,
        expected: &'static str,
        allowed: &[Kind],
    ) -> Result<(), BodyError> {
        if kind == Kind::Null {
            return Ok(());
        }
        if !allowed.contains(&kind) {
            return Err(invalid(field, expected));
        }
        self.present |= field.bit();
        Ok(())
    }

    /// The next value, which must not be a container.
    fn scalar(&mut self, field: Field, expected: &'static str) -> Result<Event, BodyError> {
        match self.pull.next()? {
            Event::ObjectStart | Event::ArrayStart => Err(invalid(field, expected)),
            event => Ok(event),
        }
    }

    /// The next value; none, and passed over, when it is a container.
    fn any(&mut self) -> Result<Option<Event>, BodyError> {
        match self.pull.next()? {
            Event::ObjectStart | Event::ArrayStart => {
                self.pull.skip_to_depth(1)?;
                Ok(None)
            }
            event => Ok(Some(event)),
        }
    }

    fn count(&mut self, field: Field) -> Result<Option<u32>, BodyError> {
        const EXPECTED: &str = "a non-negative whole number";
        match self.scalar(field, EXPECTED)? {
            Event::Null => Ok(None),
            Event::Number(at) => match count_u32(&self.body[at]) {
                Some(count) => Ok(Some(count)),
                None => Err(invalid(field, EXPECTED)),
            },
            _ => Err(invalid(field, EXPECTED)),
        }
    }

    fn stream_options(&mut self) -> Result<(), BodyError> {
        match self.pull.next()? {
            Event::ObjectStart => {}
            Event::ArrayStart => return Ok(self.pull.skip_to_depth(1)?),
            _ => return Ok(()),
        }
        while let Event::Key(key) = self.pull.next()? {
            if !key.is(self.body, b"include_usage") {
                self.pull.skip_value()?;
                continue;
            }
            match self.pull.next()? {
                Event::ObjectStart | Event::ArrayStart => self.pull.skip_to_depth(2)?,
                event => self.include_usage = event == Event::Bool(true),
            }
        }
        Ok(())
    }

    fn finish(self) -> Result<Scan, BodyError> {
        let has = |field: Field| self.present & field.bit() != 0;
        let Some(model) = self.model else { return Err(BodyError::Missing("model")) };
        let missing = match self.api {
            Api::Chat | Api::Messages | Api::CountTokens if !has(Field::Messages) => Some("messages"),
            Api::Completions if !has(Field::Prompt) && !has(Field::PromptEmbeds) => Some("prompt"),
            Api::Responses if !has(Field::Input) => Some("input"),
            Api::Embeddings if !has(Field::Input) && !has(Field::Messages) => Some("input"),
            _ => None,
        };
        if let Some(field) = missing {
            return Err(BodyError::Missing(field));
        }
        let (text_blocks, rendered_bytes) = self.order.rendered(self.api, self.body, self.render)?.finish();
        Ok(Scan {
            model: model.to_text(self.body),
            model_span: model.start - 1..model.end + 1,
            multipart: false,
            stream: self.stream,
            choices: self.n.max(self.best_of),
            max_output_tokens: self.limits.into_iter().flatten().next(),
            prompt_bytes: self.sizes.bytes,
            prompt_token_ids: self.sizes.ids,
            prompts: self.prompts,
            user_hash: self.user_hash,
            prompt_head_hash: Head::hash(self.heads),
            include_usage: self.include_usage,
            text_blocks,
            rendered_bytes,
            cache_salt: self.cache_salt,
            token_ids_span: self.ids.into_iter().flatten().next(),
        })
    }
}

fn invalid(field: Field, expected: &'static str) -> BodyError {
    BodyError::Invalid { field: field.name(), expected }
}
