//! What an engine says about itself, and its tokenizer.

use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::{hex_id, resolve, turns};
use crate::clock::unix_seconds;
use crate::dialect::MetricsDialect;
use crate::error::ApiError;
use crate::fields::Fields;
use crate::shared::Shared;
use crate::tokens::{chat_tokens, detokenize, text_tokens};

/// `GET /v1/models`.
pub(crate) fn models(shared: &Arc<Shared>) -> String {
    let own = &shared.options.model;
    let owner = match shared.options.dialect {
        // It names the model again.
        MetricsDialect::Tgi => own,
        other => other.as_str(),
    };
    let mut list = vec![card(own, owner, None, Some(shared.max_model_len), 0)];
    list.extend(shared.adapters().iter().zip(1..).map(|(name, n)| card(name, owner, Some(own), None, n)));
    format!(r#"{{"object":"list","data":[{}]}}"#, list.join(","))
}

fn card(name: &str, owner: &str, parent: Option<&str>, max_model_len: Option<u32>, n: u64) -> String {
    let created = unix_seconds() as u64;
    let permission = hex_id(created, n);
    format!(
        r#"{{"id":{},"object":"model","created":{created},"owned_by":{},"root":{},"parent":{},"max_model_len":{},"permission":[{{"id":"modelperm-{permission}","object":"model_permission","created":{created},"allow_create_engine":false,"allow_sampling":true,"allow_logprobs":true,"allow_search_indices":false,"allow_view":true,"allow_fine_tuning":false,"organization":"*","group":null,"is_blocking":false}}]}}"#,
        json!(name),
        json!(owner),
        json!(name),
        json!(parent),
        json!(max_model_len)
    )
}

/// `GET /kv_event_sources`: where each rank publishes KV events, named as
/// vLLM names what it binds; with an address it would connect there.
pub(crate) fn kv_sources(shared: &Arc<Shared>) -> String {
    let Some(kv) = &shared.kv else { return "{}".into() };
    let topic = String::from_utf8_lossy(&kv.topic);
    format!(
        r#"{{"0":{{"enable_kv_cache_events":true,"publisher":"zmq","endpoint":"tcp://*:{}","replay_endpoint":{},"buffer_steps":{},"hwm":100000,"max_queue_size":100000,"topic":{}}}}}"#,
        kv.address.port(),
        json!(kv.replay.map(|address| format!("tcp://*:{}", address.port()))),
        kv.buffer,
        json!(topic)
    )
}

/// `POST /tokenize`, of a prompt or a conversation.
pub(crate) fn tokenize(shared: &Arc<Shared>, map: &Map<String, Value>) -> Result<String, ApiError> {
    let mut fields = Fields::new(map);
    let model = fields.string("model");
    let prompt = fields.string("prompt");
    let messages = fields.get("messages").map(|_| fields.required_list("messages"));
    if prompt.is_none() && messages.is_none() && fields.get("prompt").is_none() {
        fields.missing("prompt");
    }
    fields.finish()?;
    resolve(shared, model)?;
    let tokens = match messages {
        Some(messages) => chat_tokens(&turns(map, messages)),
        None => text_tokens(prompt.unwrap_or_default().as_bytes()),
    };
    let (count, most) = (tokens.len(), shared.max_model_len);
    Ok(format!(r#"{{"count":{count},"max_model_len":{most},"tokens":{},"token_strs":null}}"#, json!(tokens)))
}

/// `POST /detokenize`.
pub(crate) fn untokenize(shared: &Arc<Shared>, map: &Map<String, Value>) -> Result<String, ApiError> {
    let mut fields = Fields::new(map);
    let model = fields.string("model");
    let list = fields.required_list("tokens");
    let ids: Option<Vec<u32>> = list.iter().map(|v| v.as_u64().and_then(|n| u32::try_from(n).ok())).collect();
    if ids.is_none() {
        fields.complain("int_type", "tokens", "Input should be a list of token ids");
    }
    fields.finish()?;
    resolve(shared, model)?;
    Ok(json!({ "prompt": detokenize(&ids.unwrap_or_default()) }).to_string())
}
