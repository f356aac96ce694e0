//! `/v1/responses`, for text.

use std::sync::Arc;

use bytes::Bytes;
use serde_json::{Map, Value, json};

use super::{Names, Plan, limit, resolve, turns};
use crate::answer::FinishReason;
use crate::body::{Dialect, Out, Token};
use crate::error::ApiError;
use crate::fields::Fields;
use crate::generation::{Generation, Spec};
use crate::shared::Shared;
use crate::tokens::{Turn, chat_tokens};

/// Reads a request.
pub(crate) fn plan(
    shared: &Arc<Shared>,
    request_id: &str,
    map: &Map<String, Value>,
) -> Result<Plan, ApiError> {
    let mut fields = Fields::new(map);
    let model = fields.string("model");
    let max_tokens = limit(&mut fields, "max_output_tokens", 1);
    let stream = fields.boolean("stream").unwrap_or(false);
    let ignore_eos = fields.boolean("ignore_eos").unwrap_or(false);
    let instructions = fields.string("instructions");
    let mut conversation = match fields.get("input") {
        Some(Value::String(text)) => turns(map, &[json!({"role": "user", "content": text})]),
        Some(Value::Array(items)) => turns(map, items),
        Some(_) => {
            fields.complain("input_type", "input", "Input should be a string or a list");
            Vec::new()
        }
        None => {
            fields.missing("input");
            Vec::new()
        }
    };
    fields.finish()?;
    if let Some(text) = instructions {
        conversation.insert(0, Turn { role: "system".into(), text: text.into() });
    }
    let (model, adapter) = resolve(shared, model)?;
    let names = Names::new(request_id, &model);
    let shape = Shape {
        names,
        max_output_tokens: json!(max_tokens).to_string(),
        temperature: map.get("temperature").and_then(Value::as_f64).unwrap_or(1.0),
        instructions: json!(instructions).to_string(),
    };
    let spec = Spec {
        prompts: vec![chat_tokens(&conversation)],
        n: 1,
        max_tokens,
        ignore_eos,
        adapter,
        ..Spec::default()
    };
    let dialect = stream.then(|| {
        Box::new(ResponsesStream { shape: shape.clone(), sequence: 0, text: String::new() })
            as Box<dyn Dialect>
    });
    let whole = move |generation: &Generation, texts: &[String]| {
        shape.response(Some((generation, texts.first().map(String::as_str).unwrap_or_default())))
    };
    Ok(Plan { spec, stream: dialect, whole: Box::new(whole) })
}

/// What every picture of the response shares.
#[derive(Clone)]
struct Shape {
    names: Names,
    max_output_tokens: String,
    temperature: f64,
    instructions: String,
}

impl Shape {
    fn message_id(&self) -> String {
        self.names.id("msg_")
    }

    /// The output item with its text.
    fn item(&self, text: &str) -> String {
        format!(
            r#"{{"id":{},"content":[{{"annotations":[],"text":{},"type":"output_text","logprobs":null}}],"role":"assistant","status":"completed","type":"message","phase":null}}"#,
            self.message_id(),
            json!(text)
        )
    }

    /// The response object: in progress, or ended with a text.
    fn response(&self, ended: Option<(&Generation, &str)>) -> String {
        let (mut reason, mut output, mut status, mut usage) =
            ("null", String::new(), "in_progress", "null".to_string());
        if let Some((generation, text)) = ended {
            (status, reason) = match generation.finish(0) {
                FinishReason::Stop => ("completed", "null"),
                FinishReason::Length => ("incomplete", r#"{"reason":"max_output_tokens"}"#),
                FinishReason::Abort => ("incomplete", r#"{"reason":"abort"}"#),
            };
            output = self.item(text);
            let t = generation.tokens();
            usage = format!(
                r#"{{"input_tokens":{},"input_tokens_details":{{"cached_tokens":{},"cache_write_tokens":{},"input_tokens_per_turn":[],"cached_tokens_per_turn":[]}},"output_tokens":{},"output_tokens_details":{{"reasoning_tokens":0,"tool_output_tokens":0,"output_tokens_per_turn":[],"tool_output_tokens_per_turn":[]}},"total_tokens":{}}}"#,
                t.prompt,
                t.cached,
                t.created,
                t.output,
                t.prompt + t.output
            );
        }
        let Shape { names, max_output_tokens, temperature, instructions } = self;
        format!(
            r#"{{"id":{},"created_at":{},"incomplete_details":{reason},"instructions":{instructions},"metadata":null,"model":{},"object":"response","output":[{output}],"parallel_tool_calls":true,"temperature":{temperature:?},"tool_choice":"none","tools":[],"top_p":1.0,"background":false,"max_output_tokens":{max_output_tokens},"max_tool_calls":null,"previous_response_id":null,"prompt":null,"reasoning":null,"service_tier":"auto","status":"{status}","text":null,"top_logprobs":null,"truncation":"disabled","usage":{usage},"user":null,"presence_penalty":0.0,"frequency_penalty":0.0,"kv_transfer_params":null,"ec_transfer_params":null,"input_messages":null,"output_messages":null}}"#,
            names.id("resp_"),
            names.created,
            names.model
        )
    }
}

struct ResponsesStream {
    shape: Shape,
    sequence: u32,
    text: String,
}

impl ResponsesStream {
    /// One event; `fields` is what stands before and after the number.
    fn event(&mut self, name: &str, before: &str, after: &str, out: &mut Out) {
        let n = self.sequence;
        self.sequence += 1;
        let event = format!(
            "event: {name}\ndata: {{{before},\"sequence_number\":{n}{after},\"type\":\"{name}\"}}\n\n"
        );
        out.push_back(Bytes::from(event));
    }
}

impl Dialect for ResponsesStream {
    fn begin(&mut self, out: &mut Out) {
        let response = format!(r#""response":{}"#, self.shape.response(None));
        self.event("response.created", &response, "", out);
        self.event("response.in_progress", &response, "", out);
    }

    fn open(&mut self, _: &Generation, out: &mut Out) {
        let id = self.shape.message_id();
        let item = format!(
            r#""item":{{"id":{id},"content":[],"role":"assistant","status":"in_progress","type":"message","phase":null}},"output_index":0"#
        );
        self.event("response.output_item.added", &item, "", out);
        let part = format!(
            r#""content_index":0,"item_id":{id},"output_index":0,"part":{{"annotations":[],"text":"","type":"output_text","logprobs":[]}}"#
        );
        self.event("response.content_part.added", &part, "", out);
    }

    fn token(&mut self, token: &Token<'_>, _: &Generation, out: &mut Out) {
        if token.text.is_empty() {
            return;
        }
        self.text.push_str(token.text);
        let delta = format!(
            r#""content_index":0,"delta":"{}","item_id":{},"logprobs":[],"output_index":0"#,
            token.text,
            self.shape.message_id()
        );
        self.event("response.output_text.delta", &delta, "", out);
    }

    fn close(&mut self, generation: &Generation, out: &mut Out) {
        let (id, text) = (self.shape.message_id(), json!(self.text));
        let place = format!(r#""content_index":0,"item_id":{id},"#);
        let before = format!(r#"{place}"logprobs":[],"output_index":0"#);
        self.event("response.output_text.done", &before, &format!(r#","text":{text}"#), out);
        let part = format!(
            r#"{place}"output_index":0,"part":{{"annotations":[],"text":{text},"type":"output_text","logprobs":null}}"#
        );
        self.event("response.content_part.done", &part, "", out);
        let item = format!(r#""item":{},"output_index":0"#, self.shape.item(&self.text));
        self.event("response.output_item.done", &item, "", out);
        let text = std::mem::take(&mut self.text);
        let response = format!(r#""response":{}"#, self.shape.response(Some((generation, &text))));
        self.event("response.completed", &response, "", out);
    }

    fn fail(&mut self, error: &ApiError, out: &mut Out) {
        out.push_back(error.stream_event().into());
        out.push_back(Bytes::from_static(b"data: [DONE]\n\n"));
    }
}
