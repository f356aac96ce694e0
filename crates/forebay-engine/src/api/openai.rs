//! `/v1/chat/completions` and `/v1/completions`.

use std::fmt::Write as _;
use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::openai_stream::OpenAiStream;
use super::{FINGERPRINT, Names, Plan, limit, prompts, resolve, turns};
use crate::body::Dialect;
use crate::error::ApiError;
use crate::fields::Fields;
use crate::generation::{Generation, Spec};
use crate::shared::Shared;
use crate::tokens::chat_tokens;

/// Which of the two.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Chat,
    Text,
}

/// vLLM's limit for `/v1/completions` when the request has none.
const TEXT_MAX_TOKENS: u32 = 16;

/// Reads a request.
pub(crate) fn plan(
    shared: &Arc<Shared>,
    kind: Kind,
    request_id: &str,
    map: &Map<String, Value>,
) -> Result<Plan, ApiError> {
    let mut fields = Fields::new(map);
    let model = fields.string("model");
    let messages = match kind {
        Kind::Chat => fields.required_list("messages"),
        Kind::Text => &[],
    };
    if messages.iter().any(|m| !m.is_object()) {
        fields.complain("model_attributes_type", "messages", "Input should be a list of objects");
    }
    let texts = match kind {
        Kind::Chat => Vec::new(),
        Kind::Text => prompts(&mut fields, "prompt"),
    };
    let max_tokens = match limit(&mut fields, "max_completion_tokens", 1) {
        Some(limit) => Some(limit),
        None => limit(&mut fields, "max_tokens", 1),
    };
    let min_tokens = limit(&mut fields, "min_tokens", 0).unwrap_or(0);
    let n = limit(&mut fields, "n", 1).unwrap_or(1);
    let seed = fields.integer("seed").unwrap_or(0) as u64;
    let ignore_eos = fields.boolean("ignore_eos").unwrap_or(false);
    let stream = fields.boolean("stream").unwrap_or(false);
    let options = fields.object("stream_options");
    let temperature = fields.number("temperature");
    let salt = fields.string("cache_salt").map(Into::into);
    fields.finish()?;

    if options.is_some() && !stream {
        let message = "Stream options can only be defined when `stream=True`. (parameter=stream_options)";
        return Err(ApiError::bad_request(message, Some("stream_options")));
    }
    let (model, adapter) = resolve(shared, model)?;
    if let Some(t) = temperature.filter(|t| *t < 0.0) {
        let message =
            format!("temperature must be non-negative, got {t:?}. (parameter=temperature, value={t:?})");
        return Err(ApiError::bad_request(message, Some("temperature")));
    }
    if n > 128 {
        return Err(ApiError::bad_request(format!("n must be at most 128, got {n}."), Some("n")));
    }
    if kind == Kind::Chat && messages.is_empty() {
        let message = "Cannot apply chat template to an empty conversation. Provide at least one message.";
        return Err(ApiError::bad_request(message, None));
    }
    let (prompts, max_tokens) = match kind {
        Kind::Chat => (vec![chat_tokens(&turns(map, messages))], max_tokens),
        Kind::Text => (texts, Some(max_tokens.unwrap_or(TEXT_MAX_TOKENS))),
    };
    let names = Names::new(request_id, &model);
    let flag = |name: &str| options.and_then(|o| o.get(name)).and_then(Value::as_bool).unwrap_or(false);
    let dialect = stream.then(|| {
        let choices = prompts.len() * n as usize;
        let include_usage = flag("include_usage");
        let continuous = include_usage && flag("continuous_usage_stats");
        Box::new(OpenAiStream::new(kind, &names, choices, include_usage, continuous)) as Box<dyn Dialect>
    });
    let spec =
        Spec { prompts, n, max_tokens, min_tokens, ignore_eos, seed, adapter, salt, prefill_only: false };
    let whole = move |generation: &Generation, texts: &[String]| whole(kind, &names, generation, texts);
    Ok(Plan { spec, stream: dialect, whole: Box::new(whole) })
}

/// The whole answer.
fn whole(kind: Kind, names: &Names, generation: &Generation, texts: &[String]) -> String {
    let (id, object) = match kind {
        Kind::Chat => (names.id("chatcmpl-"), "chat.completion"),
        Kind::Text => (names.id("cmpl-"), "text_completion"),
    };
    let Names { model, created, .. } = names;
    let mut out =
        format!(r#"{{"id":{id},"object":"{object}","created":{created},"model":{model},"choices":["#);
    for (index, text) in texts.iter().enumerate() {
        let finish = generation.finish(index).as_str();
        let (comma, text) = (if index > 0 { "," } else { "" }, json!(text));
        let _ = match kind {
            Kind::Chat => write!(
                out,
                r#"{comma}{{"index":{index},"message":{{"role":"assistant","content":{text},"refusal":null,"annotations":null,"audio":null,"function_call":null,"reasoning":null}},"logprobs":null,"finish_reason":"{finish}","stop_reason":null,"token_ids":null,"routed_experts":null}}"#
            ),
            Kind::Text => write!(
                out,
                r#"{comma}{{"index":{index},"text":{text},"logprobs":null,"finish_reason":"{finish}","stop_reason":null,"token_ids":null,"prompt_logprobs":null,"prompt_token_ids":null,"routed_experts":null}}"#
            ),
        };
    }
    let tokens = generation.tokens();
    let created = match kind {
        Kind::Chat => tokens.created.to_string(),
        Kind::Text => "null".into(),
    };
    let _ = write!(
        out,
        r#"],"service_tier":null,"system_fingerprint":"{FINGERPRINT}","usage":{{"prompt_tokens":{},"total_tokens":{},"completion_tokens":{},"prompt_tokens_details":{{"cached_tokens":{},"created_cache_tokens":{created},"multimodal_tokens":null}},"completion_tokens_details":null}}"#,
        tokens.prompt,
        tokens.prompt + tokens.output,
        tokens.output,
        tokens.cached
    );
    out.push_str(match kind {
        Kind::Chat => {
            r#","prompt_logprobs":null,"prompt_token_ids":null,"prompt_text":null,"kv_transfer_params":null,"ec_transfer_params":null,"metrics":null}"#
        }
        Kind::Text => r#","kv_transfer_params":null,"ec_transfer_params":null,"metrics":null}"#,
    });
    out
}
