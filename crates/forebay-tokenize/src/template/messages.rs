//! The messages of a chat body as an engine hands them to its template.
//!
//! The rules are vLLM's: content as a string or as parts, tool calls with their
//! arguments as objects, `developer` as `system` for templates that do not know
//! it. Fields stand in the order in which vLLM has them, because a template may
//! print a whole message.

use minijinja::value::{Value, ValueKind};

use super::ContentFormat;
use super::error::RenderError;

/// Fields of content parts that vLLM knows; others are kept for the template.
const PART_FIELDS: [&str; 18] = [
    "audio_embeds",
    "audio_url",
    "closed",
    "data",
    "file",
    "image_embeds",
    "image_pil",
    "image_url",
    "input_audio",
    "name",
    "prompt_cache_breakpoint",
    "refusal",
    "text",
    "thinking",
    "type",
    "uuid",
    "video_embeds",
    "video_url",
];

/// A line that one client puts before its system text, other for every request;
/// vLLM drops it.
const BILLING_HEADER: &str = "x-anthropic-billing-header";

/// An object whose fields keep their order.
pub(super) type Fields = Vec<(&'static str, Value)>;

/// A message, with what is decided by its role kept at hand.
pub(super) struct Message {
    pub(super) role: String,
    pub(super) fields: Fields,
}

impl Message {
    /// A field of the message.
    pub(super) fn field(&mut self, name: &str) -> Option<&mut Value> {
        self.fields.iter_mut().find(|(key, _)| *key == name).map(|(_, value)| value)
    }

    pub(super) fn into_value(self) -> Value {
        Value::from_pairs(self.fields)
    }
}

/// A field of an object, if it is there and not null.
pub(super) fn field(object: &Value, name: &str) -> Option<Value> {
    object.get_attr(name).ok().filter(|value| !value.is_undefined() && !value.is_none())
}

/// The items of an array.
pub(super) fn items(array: &Value) -> Option<impl Iterator<Item = Value> + use<>> {
    if array.kind() == ValueKind::Seq { array.try_iter().ok() } else { None }
}

/// The conversation of `messages`.
///
/// # Errors
/// What is no message, and contents that are not text.
pub(super) fn conversation(messages: &Value, format: ContentFormat) -> Result<Vec<Message>, RenderError> {
    let messages = items(messages).ok_or(RenderError::Body("messages is no array"))?;
    messages.map(|message| one(&message, format)).collect()
}

fn one(message: &Value, format: ContentFormat) -> Result<Message, RenderError> {
    let role = field(message, "role").ok_or(RenderError::Body("a message without a role"))?;
    let role = role.as_str().ok_or(RenderError::Body("a role that is no text"))?.to_owned();
    let mut content = content(message, &role, format)?;
    if role == "tool" && format == ContentFormat::Parts {
        // Templates expect what a tool answered as one string.
        let texts = content.try_iter().into_iter().flatten().filter_map(|part| field(&part, "text"));
        content = joined(texts);
    }
    let mut fields: Fields = vec![("role", Value::from(&role)), ("content", content)];
    if role == "assistant" {
        if let Some(calls) = field(message, "tool_calls") {
            let calls = items(&calls).ok_or(RenderError::Body("tool_calls is no array"))?;
            let calls = calls.map(|call| tool_call(&call)).collect::<Result<Vec<_>, _>>()?;
            // Without any, templates take the plain way.
            if !calls.is_empty() {
                fields.push(("tool_calls", Value::from(calls)));
            }
        }
        if let Some(reasoning) = field(message, "reasoning").or_else(|| field(message, "reasoning_content")) {
            fields.push(("reasoning", reasoning.clone()));
            fields.push(("reasoning_content", reasoning));
        }
    }
    if role == "tool" {
        fields.extend(given(message, "tool_call_id"));
    }
    for name in ["name", "task"] {
        fields
            .extend(field(message, name).filter(|value| value.as_str().is_some()).map(|value| (name, value)));
    }
    if role == "developer" {
        fields.push(("tools", field(message, "tools").unwrap_or(Value::from(()))));
    }
    Ok(Message { role, fields })
}

/// A field that is there, null or not.
fn given(object: &Value, name: &'static str) -> Option<(&'static str, Value)> {
    object.get_attr(name).ok().filter(|value| !value.is_undefined()).map(|value| (name, value))
}

fn joined(texts: impl Iterator<Item = Value>) -> Value {
    let mut out = String::new();
    for (at, text) in texts.enumerate() {
        if at > 0 {
            out.push('\n');
        }
        out.push_str(text.as_str().unwrap_or_default());
    }
    Value::from(out)
}

fn content(message: &Value, role: &str, format: ContentFormat) -> Result<Value, RenderError> {
    let parts = match field(message, "content") {
        None => Vec::new(),
        Some(text) if text.as_str().is_some() => vec![text],
        Some(parts) => items(&parts).ok_or(RenderError::Body("a content that is no text"))?.collect(),
    };
    let mut texts = Vec::with_capacity(parts.len());
    for part in parts {
        let Some(mut text) = text_of(&part)? else { continue };
        if role == "system" && text.as_str().is_some_and(|text| text.starts_with(BILLING_HEADER)) {
            match text.as_str().and_then(|text| text.split_once('\n')).filter(|(_, rest)| !rest.is_empty()) {
                Some((_, rest)) => text = Value::from(rest),
                None => continue,
            }
        }
        texts.push((text, part));
    }
    Ok(match format {
        ContentFormat::String => joined(texts.into_iter().map(|(text, _)| text)),
        ContentFormat::Parts => {
            texts.into_iter().map(|(text, part)| wrapped(text, &part)).collect::<Vec<Value>>().into()
        }
    })
}

/// A part as an object, with the fields that vLLM does not know.
fn wrapped(text: Value, part: &Value) -> Value {
    let mut fields = vec![(Value::from("type"), Value::from("text")), (Value::from("text"), text)];
    if part.kind() == ValueKind::Map {
        for key in part.try_iter().into_iter().flatten() {
            if key.as_str().is_some_and(|key| !PART_FIELDS.contains(&key)) {
                let value = part.get_item(&key).unwrap_or_default();
                fields.push((key, value));
            }
        }
    }
    Value::from_pairs(fields)
}

/// The text of a part; nothing for one that says null.
fn text_of(part: &Value) -> Result<Option<Value>, RenderError> {
    if part.as_str().is_some() {
        return Ok(Some(part.clone()));
    }
    if field(part, "uuid").is_some() {
        return Err(RenderError::Unsupported("a content part with a uuid"));
    }
    let kind = field(part, "type").ok_or(RenderError::Unsupported("a content part without a type"))?;
    let name = match kind.as_str() {
        Some("text" | "input_text" | "output_text") => "text",
        Some("refusal") => "refusal",
        Some("thinking") => "thinking",
        _ => return Err(RenderError::Unsupported("a content part that is no text")),
    };
    match field(part, name) {
        Some(text) if text.as_str().is_some() => Ok(Some(text)),
        Some(_) => Err(RenderError::Body("a text that is none")),
        None => Ok(None),
    }
}

/// A tool call with its arguments as an object, in the order of vLLM's types.
fn tool_call(call: &Value) -> Result<Value, RenderError> {
    if field(call, "type").is_some_and(|kind| kind.as_str() != Some("function")) {
        return Err(RenderError::Unsupported("a tool call that is no function's"));
    }
    let function = field(call, "function").ok_or(RenderError::Body("a tool call without a function"))?;
    let arguments = match field(&function, "arguments") {
        Some(text) => match text.as_str() {
            // What is no JSON, or no object, counts as an empty one.
            Some(json) => {
                serde_json::from_str(json).ok().filter(|value: &Value| value.kind() == ValueKind::Map)
            }
            None => Some(text).filter(|value| value.kind() == ValueKind::Map),
        },
        None => None,
    };
    let arguments = arguments.unwrap_or_else(|| Value::from_pairs([("", ""); 0]));
    let function =
        ordered(&function, &["arguments", "name"], |name| (name == "arguments").then(|| arguments.clone()));
    Ok(ordered(call, &["id", "function", "type"], |name| (name == "function").then(|| function.clone())))
}

/// An object with `first` of its fields before the others, some of them replaced.
fn ordered(object: &Value, first: &[&str], replaced: impl Fn(&str) -> Option<Value>) -> Value {
    let mut fields = Vec::new();
    for name in first {
        if let Some(value) =
            replaced(name).or_else(|| object.get_attr(name).ok().filter(|v| !v.is_undefined()))
        {
            fields.push((Value::from(*name), value));
        }
    }
    for key in object.try_iter().into_iter().flatten() {
        if key.as_str().is_some_and(|key| !first.contains(&key)) {
            let value = object.get_item(&key).unwrap_or_default();
            fields.push((key, value));
        }
    }
    Value::from_pairs(fields)
}

/// Messages of a developer as the system's, all of the system's in one, for a
/// template that knows no developer.
pub(super) fn without_developer(messages: Vec<Message>) -> Vec<Message> {
    let mut messages = messages;
    for message in messages.iter_mut().filter(|message| message.role == "developer") {
        message.role = "system".to_owned();
        message.fields.retain(|(name, _)| *name != "tools");
        if let Some(role) = message.field("role") {
            *role = Value::from("system");
        }
    }
    let systems = messages.iter().filter(|message| message.role == "system").count();
    let first = messages.first().is_some_and(|message| message.role == "system");
    if systems == usize::from(first) {
        return messages;
    }
    let (systems, mut others): (Vec<Message>, Vec<Message>) =
        messages.into_iter().partition(|message| message.role == "system");
    let mut texts = Vec::new();
    for mut system in systems {
        let Some(content) = system.field("content") else { continue };
        let text = match items(content) {
            Some(parts) => joined(parts.filter_map(|part| field(&part, "text"))),
            None => content.clone(),
        };
        texts.extend(text.as_str().filter(|text| !text.is_empty()).map(str::to_owned));
    }
    let merged = vec![("role", Value::from("system")), ("content", Value::from(texts.join("\n\n")))];
    others.insert(0, Message { role: "system".to_owned(), fields: merged });
    others
}

/// The tools of a body as an engine hands them to its template; `None` without.
///
/// # Errors
/// An empty list, which engines refuse, and tools that are no functions.
pub(super) fn tools(body: &Value) -> Result<Option<Value>, RenderError> {
    let Some(tools) = field(body, "tools") else { return Ok(None) };
    let tools = items(&tools).ok_or(RenderError::Body("tools is no array"))?;
    let tools = tools.map(|tool| one_tool(&tool)).collect::<Result<Vec<_>, _>>()?;
    if tools.is_empty() {
        Err(RenderError::Refused("no tools in tools"))
    } else {
        Ok(Some(Value::from(tools)))
    }
}

fn one_tool(tool: &Value) -> Result<Value, RenderError> {
    if field(tool, "type").is_some_and(|kind| kind.as_str() != Some("function")) {
        return Err(RenderError::Unsupported("a tool that is no function"));
    }
    let function = field(tool, "function").ok_or(RenderError::Body("a tool without a function"))?;
    let deferred = field(tool, "defer_loading");
    let null = || Value::from(());
    let mut fields: Fields = vec![
        ("name", field(&function, "name").ok_or(RenderError::Body("a function without a name"))?),
        ("description", field(&function, "description").unwrap_or_else(null)),
        ("parameters", field(&function, "parameters").unwrap_or_else(null)),
    ];
    fields.extend(field(&function, "strict").map(|strict| ("strict", strict)));
    let inner = field(&function, "defer_loading").or_else(|| deferred.clone());
    fields.extend(inner.map(|deferred| ("defer_loading", deferred)));
    let function = Value::from_pairs(fields);
    let mut fields: Fields = vec![("type", Value::from("function")), ("function", function)];
    fields.extend(deferred.map(|deferred| ("defer_loading", deferred)));
    Ok(Value::from_pairs(fields))
}
