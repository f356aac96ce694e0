//! Errors as the engine's clients see them.

use http::StatusCode;
use serde_json::json;

/// An error answer.
#[derive(Clone, Debug)]
pub(crate) struct ApiError {
    pub(crate) status: StatusCode,
    /// The `type` in the body.
    pub(crate) kind: String,
    pub(crate) message: String,
    pub(crate) param: Option<String>,
}

impl ApiError {
    /// A request that is well formed and cannot be served.
    pub(crate) fn bad_request(message: impl Into<String>, param: Option<&str>) -> ApiError {
        ApiError {
            status: StatusCode::BAD_REQUEST,
            kind: "BadRequestError".into(),
            message: message.into(),
            param: param.map(Into::into),
        }
    }

    /// A body that is not what the path takes.
    pub(crate) fn invalid(message: impl Into<String>, param: Option<String>) -> ApiError {
        ApiError {
            status: StatusCode::BAD_REQUEST,
            kind: "Bad Request".into(),
            message: message.into(),
            param,
        }
    }

    pub(crate) fn not_found(message: impl Into<String>, param: Option<&str>) -> ApiError {
        ApiError {
            status: StatusCode::NOT_FOUND,
            kind: "NotFoundError".into(),
            message: message.into(),
            param: param.map(Into::into),
        }
    }

    /// The queue is full.
    pub(crate) fn busy() -> ApiError {
        ApiError {
            status: StatusCode::SERVICE_UNAVAILABLE,
            kind: "Service Unavailable".into(),
            message: "The engine is currently busy and cannot accept new requests. \
                      Please try again later or on a different instance."
                .into(),
            param: None,
        }
    }

    /// What the API server says when its engine process is gone.
    pub(crate) fn engine_dead() -> ApiError {
        ApiError {
            status: StatusCode::INTERNAL_SERVER_ERROR,
            kind: "InternalServerError".into(),
            message: "EngineCore encountered an issue. See stack trace (above) for the root cause.".into(),
            param: None,
        }
    }

    /// An answer with this status, on command.
    pub(crate) fn injected(status: StatusCode) -> ApiError {
        ApiError {
            status,
            kind: status.canonical_reason().unwrap_or("Unknown").into(),
            message: format!("Fault injected: status {}.", status.as_u16()),
            param: None,
        }
    }

    /// `{"error":{…}}`, the OpenAI shape.
    pub(crate) fn openai_body(&self) -> String {
        let ApiError { status, kind, message, param } = self;
        // Written by hand: the captures fix the order of the keys.
        format!(
            r#"{{"error":{{"message":{},"type":{},"param":{},"code":{}}}}}"#,
            json!(message),
            json!(kind),
            json!(param),
            status.as_u16()
        )
    }

    /// `{"type":"error","error":{…}}`, the Anthropic shape.
    pub(crate) fn anthropic_body(&self) -> String {
        format!(
            r#"{{"type":"error","error":{{"type":{},"message":{}}}}}"#,
            json!(self.kind),
            json!(self.message)
        )
    }

    /// The event in a stream whose head is out. (Its spaces are the original's.)
    pub(crate) fn stream_event(&self) -> String {
        format!(
            "data: {{\"error\": {{\"message\": {}, \"type\": {}, \"param\": {}, \"code\": {}}}}}\n\n",
            json!(self.message),
            json!(self.kind),
            json!(self.param),
            self.status.as_u16()
        )
    }
}
