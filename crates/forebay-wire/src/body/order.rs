//! Rendering in the order of a template, in whatever order the keys stand.

use memchr::memmem;

use super::{
    Api,
    fields::Field,
    head::Head,
    ids::Prompts,
    prompt::{Kind, Sizes, Walk},
    render::Render,
};
use crate::json::{JsonError, Pull};

/// Where the fields lie that are rendered, and whether they can be while the
/// body is read for the first time.
#[derive(Default)]
pub(super) struct Order {
    /// Where the values begin, by rank.
    starts: [Option<(Field, usize)>; Field::RANKS],
    /// The highest rank that was met.
    reached: usize,
    /// A second walk is needed.
    again: bool,
}

impl Order {
    /// Notes that `field` comes next; returns whether it can be rendered at once.
    pub(super) fn note(&mut self, api: Api, field: Field, body: &[u8], pull: &Pull) -> bool {
        if pull.null_is_next() {
            return !self.again;
        }
        let (rank, pos) = (field.rank(), pull.pos());
        self.starts[rank] = Some((field, pos));
        self.again |= rank < self.reached || self.expects_more(api, rank, body, pos);
        self.reached = self.reached.max(rank);
        !self.again
    }

    /// True when a field that belongs before `rank` seems to stand behind `pos`:
    /// the SDKs of OpenAI and Anthropic write `tools` and `system` behind
    /// `messages`. Saves rendering twice; a wrong guess costs reading twice.
    fn expects_more(&self, api: Api, rank: usize, body: &[u8], pos: usize) -> bool {
        /// A prompt below this is rendered before its body's end is searched.
        const WORTH: usize = 4096;
        /// How much of the end is searched.
        const END: usize = 64 << 10;
        let end = body.get(pos.max(body.len().saturating_sub(END))..).unwrap_or_default();
        let behind = |field: Field, name: &str| {
            self.starts[field.rank()].is_none()
                && field.is_read_by(api)
                && memmem::find(end, name.as_bytes()).is_some()
        };
        rank >= Field::Messages.rank()
            && body.len() - pos.min(body.len()) >= WORTH
            && (behind(Field::Tools, "\"tools\":")
                || behind(Field::System, "\"system\":")
                || behind(Field::Instructions, "\"instructions\":"))
    }

    /// What `first`, filled while the body was read, would be in the right order.
    ///
    /// # Errors
    /// None in a body that was read to its end.
    pub(super) fn rendered(self, api: Api, body: &[u8], first: Render) -> Result<Render, JsonError> {
        if !self.again {
            return Ok(first);
        }
        let mut render = Render::new(body.len());
        for (field, pos) in self.starts.into_iter().flatten() {
            let mut walk = Walk {
                buf: body,
                pull: &mut Pull::at_value(body, pos),
                head: &mut Head::full(),
                sizes: &mut Sizes::default(),
                render: &mut render,
            };
            walk.rendered(api, field, &mut Prompts::default())?;
        }
        Ok(render)
    }
}

impl Walk<'_, '_> {
    /// The value of a field that is rendered.
    pub(super) fn rendered(
        &mut self,
        api: Api,
        field: Field,
        prompts: &mut Prompts,
    ) -> Result<Kind, JsonError> {
        match field {
            Field::Tools => self.tools()?,
            Field::System | Field::Instructions => self.system()?,
            Field::Messages => return self.messages(),
            _ if api == Api::Responses => return self.messages(),
            _ => return self.prompts(prompts),
        }
        Ok(Kind::Other)
    }
}
