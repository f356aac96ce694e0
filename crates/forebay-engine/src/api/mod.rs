//! One file per family of paths.

pub(crate) mod anthropic;
pub(crate) mod info;
pub(crate) mod lora;
pub(crate) mod openai;
mod openai_stream;
pub(crate) mod pooling;
pub(crate) mod responses;

use std::sync::Arc;

use serde_json::{Map, Value, json};

use crate::answer::mix;
use crate::body::Dialect;
use crate::clock::unix_seconds;
use crate::error::ApiError;
use crate::fields::Fields;
use crate::generation::{Generation, Spec};
use crate::shared::Shared;
use crate::tokens::{Turn, content_text, text_tokens};

/// What a real engine puts there; this one says what it is.
pub(crate) const FINGERPRINT: &str = "vllm-0.32.0-forebay";

/// The names that an answer carries, as JSON where they stand in JSON.
#[derive(Clone)]
pub(crate) struct Names {
    /// The request's own id, from the client or drawn.
    pub(crate) request: String,
    /// The model as JSON.
    pub(crate) model: String,
    /// Unix seconds.
    pub(crate) created: u64,
}

impl Names {
    pub(crate) fn new(request: &str, model: &str) -> Names {
        Names { request: request.into(), model: json!(model).to_string(), created: unix_seconds() as u64 }
    }

    /// An id with this prefix, as JSON.
    pub(crate) fn id(&self, prefix: &str) -> String {
        json!(format!("{prefix}{}", self.request)).to_string()
    }
}

/// A request that was understood: what to generate and how to show it.
pub(crate) struct Plan {
    pub(crate) spec: Spec,
    pub(crate) stream: Option<Box<dyn Dialect>>,
    /// Writes the whole answer from the texts.
    pub(crate) whole: Whole,
}

/// Writes a whole answer from the texts of its choices.
pub(crate) type Whole = Box<dyn FnOnce(&Generation, &[String]) -> String + Send>;

/// Which adapter a model name stands for, if it is served at all.
pub(crate) fn resolve(
    shared: &Arc<Shared>,
    model: Option<&str>,
) -> Result<(String, Option<String>), ApiError> {
    let own = &shared.options.model;
    match model {
        None => Ok((own.clone(), None)),
        Some(name) if name == own => Ok((own.clone(), None)),
        Some(name) if shared.adapters().iter().any(|a| a == name) => Ok((name.into(), Some(name.into()))),
        Some(name) => {
            let message = format!("The model `{name}` does not exist. Valid aliases: {own}.");
            Err(ApiError::not_found(message, Some("model")))
        }
    }
}

/// The messages of a conversation, with their tools in front.
pub(crate) fn turns(map: &Map<String, Value>, messages: &[Value]) -> Vec<Turn> {
    let mut turns = Vec::with_capacity(messages.len() + 2);
    if let Some(tools) = map.get("tools").filter(|t| t.as_array().is_some_and(|a| !a.is_empty())) {
        turns.push(Turn { role: "tools".into(), text: tools.to_string() });
    }
    turns.extend(messages.iter().map(|message| {
        let mut text = content_text(message.get("content"));
        if let Some(calls) = message.get("tool_calls").filter(|c| !c.is_null()) {
            text.push_str(&calls.to_string());
        }
        let role = message.get("role").and_then(Value::as_str).unwrap_or("user");
        Turn { role: role.into(), text }
    }));
    turns
}

/// Token ids of a field that is a text, texts, token ids, or lists of token ids.
pub(crate) fn prompts(fields: &mut Fields<'_>, name: &str) -> Vec<Vec<u32>> {
    fn ids(list: &[Value]) -> Option<Vec<u32>> {
        list.iter().map(|id| id.as_u64().and_then(|id| u32::try_from(id).ok())).collect()
    }
    let item = |item: &Value| match item {
        Value::String(text) => Some(text_tokens(text.as_bytes())),
        Value::Array(list) => ids(list),
        _ => None,
    };
    let found = match fields.get(name) {
        None => {
            fields.missing(name);
            return Vec::new();
        }
        Some(Value::String(text)) => Some(vec![text_tokens(text.as_bytes())]),
        Some(Value::Array(list)) if list.first().is_some_and(Value::is_number) => {
            ids(list).map(|ids| vec![ids])
        }
        Some(Value::Array(list)) if !list.is_empty() => list.iter().map(item).collect(),
        Some(_) => None,
    };
    found.unwrap_or_else(|| {
        let message = "Input should be a string, a list of strings, of token ids, or of lists of token ids";
        fields.complain("prompt_type", name, message);
        Vec::new()
    })
}

/// A token limit: whole and not negative.
pub(crate) fn limit(fields: &mut Fields<'_>, name: &str, least: i64) -> Option<u32> {
    let value = fields.integer(name)?;
    if value < least {
        fields.complain(
            "greater_than_equal",
            name,
            &format!("Input should be greater than or equal to {least}"),
        );
    }
    u32::try_from(value.max(0)).ok().or(Some(u32::MAX))
}

/// Sixteen hexadecimal digits that differ for every `n`.
pub(crate) fn hex_id(seed: u64, n: u64) -> String {
    format!("{:016x}", mix(mix(seed.wrapping_add(1)).wrapping_add(n)))
}
