//! Where templates and special tokens stand in a model's files.

use minijinja::value::{Value, ValueKind};

use super::error::TemplateError;
use super::messages::{field, items};

/// Settings of `tokenizer_config.json` that name a token which templates may use.
const TOKENS: [&str; 7] =
    ["bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token"];

/// What was found.
pub(super) struct Sources {
    /// The template for every request.
    pub(super) plain: String,
    /// The one for requests with tools, if that is another.
    pub(super) with_tools: Option<String>,
    /// The tokens by the names that templates use.
    pub(super) special: Vec<(String, Value)>,
}

impl Sources {
    pub(super) fn read(config: Option<&str>, jinja: Option<&str>) -> Result<Sources, TemplateError> {
        let config: Value = config.map(serde_json::from_str).transpose()?.unwrap_or_default();
        let mut special = Vec::new();
        if config.kind() == ValueKind::Map {
            for name in TOKENS {
                special.extend(token(&config, name).map(|token| (name.to_owned(), token)));
            }
            // Models may name tokens of their own.
            if let Some(own) =
                field(&config, "extra_special_tokens").filter(|own| own.kind() == ValueKind::Map)
            {
                for name in own.try_iter().into_iter().flatten().filter_map(|key| key.to_str()) {
                    special.extend(token(&own, &name).map(|token| (name.to_string(), token)));
                }
            }
        }
        let (plain, with_tools) = match jinja {
            Some(jinja) => (jinja.to_owned(), None),
            None => texts(&config)?,
        };
        Ok(Sources { plain, with_tools, special })
    }
}

/// A token: a string, or an object with its content.
fn token(config: &Value, name: &str) -> Option<Value> {
    let token = field(config, name)?;
    let token = if token.kind() == ValueKind::Map { field(&token, "content")? } else { token };
    token.as_str().is_some().then_some(token)
}

/// `chat_template`: a text, or `[{"name": …, "template": …}]`.
fn texts(config: &Value) -> Result<(String, Option<String>), TemplateError> {
    let template = config.get_attr("chat_template").unwrap_or_default();
    if let Some(text) = template.as_str() {
        return Ok((text.to_owned(), None));
    }
    let mut plain = None;
    let mut with_tools = None;
    for named in items(&template).into_iter().flatten() {
        let text = field(&named, "template").and_then(|text| text.to_str());
        match field(&named, "name").as_ref().and_then(Value::as_str) {
            Some("default") => plain = text,
            Some("tool_use") => with_tools = text,
            _ => {}
        }
    }
    let plain = plain.ok_or(TemplateError::Absent)?;
    Ok((plain.to_string(), with_tools.map(|text| text.to_string())))
}
