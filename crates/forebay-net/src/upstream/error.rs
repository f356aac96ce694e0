//! What can go wrong between us and an engine, and whether it may be tried again.

use std::fmt;

use http::Request;

use super::RequestBody;

/// What went wrong when a request was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SendErrorKind {
    /// No connection could be made: refused, unreachable, unknown name.
    Connect,
    /// No connection within the limit.
    ConnectTimeout,
    /// The connection was closed before it took the request: it can be sent again.
    Unsent,
    /// The connection broke after the request, or a part of it, was sent.
    Reset,
    /// What came back is not HTTP.
    Protocol,
}

/// A request that got no answer.
pub struct SendError {
    /// What went wrong.
    pub kind: SendErrorKind,
    /// The error in words, without any of the request.
    pub message: String,
    /// The request, when nothing of it was sent.
    pub request: Option<Box<Request<RequestBody>>>,
}

impl SendError {
    pub(super) fn new(
        kind: SendErrorKind,
        message: impl fmt::Display,
        request: Option<Request<RequestBody>>,
    ) -> SendError {
        SendError { kind, message: message.to_string(), request: request.map(Box::new) }
    }

    /// An error of hyper for a request that may or may not have been sent.
    pub(super) fn from_hyper(error: &hyper::Error, request: Option<Request<RequestBody>>) -> SendError {
        let kind = match &request {
            Some(_) => SendErrorKind::Unsent,
            None if error.is_parse() => SendErrorKind::Protocol,
            None => SendErrorKind::Reset,
        };
        SendError::new(kind, with_sources(error), request)
    }
}

impl fmt::Debug for SendError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {}", self.kind, self.message)
    }
}

/// The answer broke off.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct AnswerError {
    /// The error in words.
    pub message: String,
}

impl AnswerError {
    pub(super) fn from_hyper(error: &hyper::Error) -> AnswerError {
        AnswerError { message: with_sources(error) }
    }
}

/// An error with its causes, as one line.
pub(super) fn with_sources(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text.push_str(": ");
            text.push_str(&cause_text);
        }
        source = cause.source();
    }
    text
}
