//! `continue_final_message`: the text ends where the last message does, so that
//! the model goes on with it.

use minijinja::value::{Value, ValueKind};

use super::error::RenderError;
use super::messages::{Message, field, items};
use crate::python::is_space;

/// What transformers puts behind the last message, to find it in the text.
const TAG: &str = "CONTINUE_FINAL_MESSAGE_TAG ";

/// What to look for in the rendered text.
pub(super) struct End {
    message: String,
}

/// Marks the end of the last message.
///
/// # Errors
/// It has no text; the engine refuses that too.
pub(super) fn mark(conversation: &mut [Message]) -> Result<End, RenderError> {
    let none = RenderError::Refused("no final message to continue");
    let Some(content) = conversation.last_mut().and_then(|last| last.field("content")) else {
        return Err(none);
    };
    let Some(parts) = items(content) else {
        let message = content.as_str().unwrap_or_default().to_owned();
        *content = Value::from(message.clone() + TAG);
        return Ok(End { message });
    };
    // The last part that has a text.
    let mut parts: Vec<Value> = parts.collect();
    let Some((part, message)) = parts.iter_mut().rev().find_map(|part| {
        field(part, "text").and_then(|text| text.as_str().map(str::to_owned)).map(|text| (part, text))
    }) else {
        return Err(none);
    };
    *part = with_text(part, message.clone() + TAG);
    *content = Value::from(parts);
    Ok(End { message })
}

fn with_text(part: &Value, text: String) -> Value {
    debug_assert_eq!(part.kind(), ValueKind::Map);
    let mut text = Some(text);
    let keys = part.try_iter().into_iter().flatten();
    Value::from_pairs(keys.map(|key| {
        let value = match key.as_str() {
            Some("text") => text.take().map(Value::from),
            _ => part.get_item(&key).ok(),
        };
        (key, value.unwrap_or_default())
    }))
}

impl End {
    /// The text up to the end of the message.
    ///
    /// # Errors
    /// The template changed or left out the message; the engine refuses that too.
    pub(super) fn cut(&self, mut text: String) -> Result<String, RenderError> {
        let lost = RenderError::Refused("the final message is not in the text");
        let Some(at) = text.rfind(TAG.trim_end()) else { return Err(lost) };
        if !text.contains(self.message.trim_matches(is_space)) {
            return Err(lost);
        }
        let trimmed = !text[at..].starts_with(TAG);
        text.truncate(at);
        if trimmed {
            // The template took white space off the message; so does transformers.
            text.truncate(text.trim_end_matches(is_space).len());
        }
        Ok(text)
    }
}
