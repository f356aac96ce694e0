//! The events of a streamed chat or completion.

use std::fmt::Write as _;

use bytes::Bytes;

use super::openai::Kind;
use super::{FINGERPRINT, Names};
use crate::body::{Dialect, Out, Token};
use crate::error::ApiError;
use crate::generation::Generation;

/// Writes chunks. What is the same in all of a stream is formatted once, so
/// that a token costs two copies.
pub(super) struct OpenAiStream {
    kind: Kind,
    /// Everything up to the value of `choices`.
    head: String,
    /// The beginning of a token's event, up to its text, for each choice.
    prefixes: Vec<String>,
    /// The rest of an event that ends nothing and has no usage.
    plain: &'static str,
    include_usage: bool,
    continuous: bool,
}

impl OpenAiStream {
    pub(super) fn new(
        kind: Kind,
        names: &Names,
        choices: usize,
        include_usage: bool,
        continuous: bool,
    ) -> OpenAiStream {
        let (id, object) = match kind {
            Kind::Chat => (names.id("chatcmpl-"), "chat.completion.chunk"),
            Kind::Text => (names.id("cmpl-"), "text_completion"),
        };
        let Names { model, created, .. } = names;
        let head = format!(
            r#"data: {{"id":{id},"object":"{object}","created":{created},"model":{model},"choices":["#
        );
        let text = match kind {
            Kind::Chat => r#""delta":{"content":""#,
            Kind::Text => r#""text":""#,
        };
        let prefixes = (0..choices).map(|i| format!(r#"{head}{{"index":{i},{text}"#)).collect();
        let plain = match kind {
            Kind::Chat => "\"},\"logprobs\":null,\"finish_reason\":null,\"token_ids\":null}]}\n\n",
            Kind::Text => {
                "\",\"logprobs\":null,\"finish_reason\":null,\"stop_reason\":null,\"prompt_token_ids\":null,\
                 \"token_ids\":null}]}\n\n"
            }
        };
        OpenAiStream { kind, head, prefixes, plain, include_usage, continuous }
    }

    /// `,"usage":{…}` of one choice so far, when it was asked for.
    fn running_usage(&self, generation: &Generation, produced: u32) -> String {
        if !self.continuous {
            return String::new();
        }
        let prompt = generation.tokens().prompt;
        format!(
            r#","usage":{{"prompt_tokens":{prompt},"total_tokens":{},"completion_tokens":{produced},"completion_tokens_details":null}}"#,
            prompt + produced
        )
    }
}

impl Dialect for OpenAiStream {
    fn open(&mut self, generation: &Generation, out: &mut Out) {
        if self.kind == Kind::Text {
            return;
        }
        let usage = self.running_usage(generation, 0);
        for index in 0..self.prefixes.len() {
            let head = &self.head;
            let event = format!(
                "{head}{{\"index\":{index},\"delta\":{{\"role\":\"assistant\",\"content\":\"\"}},\"logprobs\":null,\
                 \"finish_reason\":null}}]{usage},\"prompt_token_ids\":null,\"prompt_text\":null}}\n\n"
            );
            out.push_back(event.into());
        }
    }

    fn token(&mut self, token: &Token<'_>, generation: &Generation, out: &mut Out) {
        let Some(prefix) = self.prefixes.get(token.choice) else { return };
        let mut event = String::with_capacity(prefix.len() + self.plain.len() + 96);
        event.push_str(prefix);
        event.push_str(token.text);
        if token.last.is_none() && !self.continuous {
            event.push_str(self.plain);
            out.push_back(event.into());
            return;
        }
        let reason = token.last.map_or("null".into(), |reason| format!("\"{}\"", reason.as_str()));
        let stop = if token.last.is_some() { ",\"stop_reason\":null" } else { "" };
        let _ = match self.kind {
            Kind::Chat => {
                write!(event, r#""}},"logprobs":null,"finish_reason":{reason}{stop},"token_ids":null}}]"#)
            }
            Kind::Text => write!(
                event,
                r#"","logprobs":null,"finish_reason":{reason},"stop_reason":null,"prompt_token_ids":null,"token_ids":null}}]"#
            ),
        };
        let produced = generation.choices.get(token.choice).map_or(0, |c| c.produced);
        event.push_str(&self.running_usage(generation, produced));
        if generation.done() && !self.include_usage {
            let _ = write!(event, r#","system_fingerprint":"{FINGERPRINT}""#);
        }
        event.push_str("}\n\n");
        out.push_back(event.into());
    }

    fn close(&mut self, generation: &Generation, out: &mut Out) {
        if self.include_usage {
            let tokens = generation.tokens();
            let created = match self.kind {
                Kind::Chat => format!(r#","created_cache_tokens":{}"#, tokens.created),
                Kind::Text => String::new(),
            };
            let event = format!(
                "{}],\"usage\":{{\"prompt_tokens\":{},\"total_tokens\":{},\"completion_tokens\":{},\
                 \"prompt_tokens_details\":{{\"cached_tokens\":{}{created}}}}},\
                 \"system_fingerprint\":\"{FINGERPRINT}\"}}\n\n",
                self.head,
                tokens.prompt,
                tokens.prompt + tokens.output,
                tokens.output,
                tokens.cached
            );
            out.push_back(event.into());
        }
        out.push_back(Bytes::from_static(b"data: [DONE]\n\n"));
    }

    fn fail(&mut self, error: &ApiError, out: &mut Out) {
        out.push_back(error.stream_event().into());
        out.push_back(Bytes::from_static(b"data: [DONE]\n\n"));
    }
}
