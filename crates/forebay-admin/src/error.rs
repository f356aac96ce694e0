//! Errors as the data plane says them: OpenAI-shaped JSON.

use axum::Json;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde_json::json;

use crate::control::ControlError;

/// A refusal of the control API.
#[derive(Debug)]
pub(crate) struct ApiError {
    pub(crate) status: StatusCode,
    pub(crate) code: &'static str,
    pub(crate) param: Option<&'static str>,
    pub(crate) message: String,
}

impl ApiError {
    /// A body that cannot be read or says nothing.
    pub(crate) fn body(message: String) -> ApiError {
        ApiError { status: StatusCode::BAD_REQUEST, code: "invalid_body", param: None, message }
    }

    /// A field of the body that means nothing; `must` says what it must be.
    pub(crate) fn field(field: &'static str, must: String) -> ApiError {
        let message = format!("{field} {must}");
        ApiError { status: StatusCode::BAD_REQUEST, code: "invalid_value", param: Some(field), message }
    }

    /// A change that was not made; `kind` is what it was for, and `name` which.
    pub(crate) fn control(error: ControlError, kind: &'static str, name: &str) -> ApiError {
        match error {
            ControlError::Unknown => ApiError {
                status: StatusCode::NOT_FOUND,
                code: if kind == "pool" { "unknown_pool" } else { "unknown_endpoint" },
                param: None,
                message: format!("there is no {kind} {name:?}"),
            },
            ControlError::Invalid { field, allowed } => {
                ApiError::field(field, format!("must be one of {}", allowed.join(", ")))
            }
        }
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let body = json!({"error": {
            "message": self.message,
            "type": "invalid_request_error",
            "param": self.param,
            "code": self.code,
        }});
        (self.status, Json(body)).into_response()
    }
}
