//! Why a body is refused, in words for the client.

use std::borrow::Cow;

use crate::json::JsonError;

/// A body that cannot be routed. Every one is HTTP 400 with type
/// `invalid_request_error`; the `Display` text is the message.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum BodyError {
    /// Not JSON by RFC 8259, or nested too deeply.
    #[error("the request body is not valid JSON: {what} at byte {at}")]
    NotJson {
        /// Offset into the body.
        at: usize,
        /// What is wrong there.
        what: &'static str,
    },
    /// JSON, but not an object.
    #[error("the request body must be a JSON object")]
    NotObject,
    /// A field that routing needs is absent or null.
    #[error("missing required field '{0}'")]
    Missing(&'static str),
    /// A field that routing reads has an unusable value.
    #[error("field '{field}' must be {expected}")]
    Invalid {
        /// Its name.
        field: &'static str,
        /// What it must be.
        expected: &'static str,
    },
    /// A field that routing reads comes twice; two parsers could read two
    /// different requests.
    #[error("field '{0}' is given more than once")]
    Duplicate(&'static str),
    /// The multipart framing is broken.
    #[error("the multipart request body is not valid: {0}")]
    Multipart(Cow<'static, str>),
}

impl BodyError {
    /// The field the message is about.
    pub fn param(&self) -> Option<&str> {
        match self {
            BodyError::Missing(field) | BodyError::Duplicate(field) | BodyError::Invalid { field, .. } => {
                Some(field)
            }
            BodyError::NotJson { .. } | BodyError::NotObject | BodyError::Multipart(_) => None,
        }
    }
}

impl From<JsonError> for BodyError {
    fn from(e: JsonError) -> BodyError {
        BodyError::NotJson { at: e.at, what: e.what }
    }
}
