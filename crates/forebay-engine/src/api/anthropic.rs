//! `/v1/messages` and `/v1/messages/count_tokens`.

use std::sync::Arc;

use bytes::Bytes;
use serde_json::{Map, Value, json};

use super::{Names, Plan, limit, resolve, turns};
use crate::answer::FinishReason;
use crate::body::{Dialect, Out, Token};
use crate::error::ApiError;
use crate::fields::Fields;
use crate::generation::{Generation, Spec, Tokens};
use crate::shared::Shared;
use crate::tokens::{Turn, chat_tokens, content_text};

/// The prompt of a request.
fn prompt(map: &Map<String, Value>, messages: &[Value]) -> Vec<u32> {
    let mut conversation = turns(map, messages);
    if let Some(system) = map.get("system").filter(|s| !s.is_null()) {
        conversation.insert(0, Turn { role: "system".into(), text: content_text(Some(system)) });
    }
    chat_tokens(&conversation)
}

/// Reads a request for an answer.
pub(crate) fn plan(
    shared: &Arc<Shared>,
    request_id: &str,
    map: &Map<String, Value>,
) -> Result<Plan, ApiError> {
    let mut fields = Fields::new(map);
    let model = fields.string("model");
    let messages = fields.required_list("messages");
    if fields.get("max_tokens").is_none() {
        fields.missing("max_tokens");
    }
    let max_tokens = limit(&mut fields, "max_tokens", 1);
    let stream = fields.boolean("stream").unwrap_or(false);
    let ignore_eos = fields.boolean("ignore_eos").unwrap_or(false);
    fields.finish()?;
    let (model, adapter) = resolve(shared, model)?;
    let names = Names::new(request_id, &model);
    let spec = Spec {
        prompts: vec![prompt(map, messages)],
        n: 1,
        max_tokens,
        ignore_eos,
        adapter,
        ..Spec::default()
    };
    let dialect = stream.then(|| Box::new(MessagesStream { names: names.clone() }) as Box<dyn Dialect>);
    let whole = move |generation: &Generation, texts: &[String]| {
        let text = json!(texts.first().map(String::as_str).unwrap_or_default());
        format!(
            r#"{{"id":{},"type":"message","role":"assistant","content":[{{"type":"text","text":{text}}}],"model":{},"stop_reason":{},"usage":{}}}"#,
            names.id("chatcmpl-"),
            names.model,
            stop_reason(generation.finish(0)),
            usage(generation.tokens())
        )
    };
    Ok(Plan { spec, stream: dialect, whole: Box::new(whole) })
}

/// The answer of `count_tokens`.
pub(crate) fn count_tokens(shared: &Arc<Shared>, map: &Map<String, Value>) -> Result<String, ApiError> {
    let mut fields = Fields::new(map);
    let model = fields.string("model");
    let messages = fields.required_list("messages");
    fields.finish()?;
    resolve(shared, model)?;
    let n = prompt(map, messages).len();
    Ok(format!(r#"{{"input_tokens":{n},"context_management":{{"original_input_tokens":{n}}}}}"#))
}

fn stop_reason(reason: FinishReason) -> &'static str {
    match reason {
        FinishReason::Stop => "\"end_turn\"",
        FinishReason::Length => "\"max_tokens\"",
        FinishReason::Abort => "\"abort\"",
    }
}

fn usage(tokens: Tokens) -> String {
    // Input tokens are those that were not read from the cache.
    format!(
        r#"{{"input_tokens":{},"output_tokens":{},"cache_creation_input_tokens":0,"cache_read_input_tokens":{}}}"#,
        tokens.prompt - tokens.cached,
        tokens.output,
        tokens.cached
    )
}

struct MessagesStream {
    names: Names,
}

fn event(name: &str, data: &str) -> Bytes {
    format!("event: {name}\ndata: {data}\n\n").into()
}

impl Dialect for MessagesStream {
    fn open(&mut self, generation: &Generation, out: &mut Out) {
        let data = format!(
            r#"{{"type":"message_start","message":{{"id":{},"type":"message","role":"assistant","content":[],"model":{},"stop_reason":null,"stop_sequence":null,"usage":{{"input_tokens":{},"output_tokens":0}}}}}}"#,
            self.names.id("chatcmpl-"),
            self.names.model,
            generation.tokens().prompt
        );
        out.push_back(event("message_start", &data));
        out.push_back(event(
            "content_block_start",
            r#"{"type":"content_block_start","content_block":{"type":"text","text":""},"index":0}"#,
        ));
    }

    fn token(&mut self, token: &Token<'_>, _: &Generation, out: &mut Out) {
        if token.text.is_empty() {
            return;
        }
        let data = format!(
            r#"{{"type":"content_block_delta","delta":{{"type":"text_delta","text":"{}"}},"index":0}}"#,
            token.text
        );
        out.push_back(event("content_block_delta", &data));
    }

    fn close(&mut self, generation: &Generation, out: &mut Out) {
        out.push_back(event("content_block_stop", r#"{"type":"content_block_stop","index":0}"#));
        let data = format!(
            r#"{{"type":"message_delta","delta":{{"stop_reason":{},"stop_sequence":null}},"usage":{}}}"#,
            stop_reason(generation.finish(0)),
            usage(generation.tokens())
        );
        out.push_back(event("message_delta", &data));
        out.push_back(event("message_stop", r#"{"type":"message_stop"}"#));
    }

    fn fail(&mut self, error: &ApiError, out: &mut Out) {
        out.push_back(event("error", &error.anthropic_body()));
    }
}
