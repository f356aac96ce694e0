//! Answers of our own that say no.

use std::time::Duration;

use bytes::Bytes;
use forebay_gate::{Refusal, RefuseReason};
use forebay_metrics::{OutcomeLabel, Reject};
use forebay_wire::body::BodyError;
use http::{HeaderValue, Response, StatusCode, header};

/// A refusal or an error, before it takes the shape of the API in use.
#[derive(Debug)]
pub(crate) struct Problem {
    pub(crate) status: StatusCode,
    /// OpenAI's `type`.
    pub(crate) kind: &'static str,
    pub(crate) code: Option<&'static str>,
    pub(crate) param: Option<String>,
    pub(crate) message: String,
    pub(crate) retry_after: Option<Duration>,
    pub(crate) allow: Option<&'static str>,
    /// Close the connection after the answer: what follows on it cannot be trusted or read.
    pub(crate) close: bool,
    pub(crate) outcome: OutcomeLabel,
    /// For `forebay_rejected_total`.
    pub(crate) reject: Option<Reject>,
    /// The request was admitted: its settlement has counted and logged it.
    pub(crate) settled: bool,
}

impl Problem {
    pub(crate) fn new(status: StatusCode, kind: &'static str, message: impl Into<String>) -> Problem {
        Problem {
            status,
            kind,
            code: None,
            param: None,
            message: message.into(),
            retry_after: None,
            allow: None,
            close: false,
            outcome: OutcomeLabel::ClientError,
            reject: None,
            settled: false,
        }
    }

    pub(crate) fn bad_request(message: impl Into<String>) -> Problem {
        Problem::new(StatusCode::BAD_REQUEST, "invalid_request_error", message).rejected(Reject::BadRequest)
    }

    pub(crate) fn body(error: &BodyError) -> Problem {
        let mut problem = Problem::bad_request(error.to_string());
        problem.param = error.param().map(str::to_owned);
        problem
    }

    pub(crate) fn unknown_path(path: &str) -> Problem {
        let mut message = format!("There is no {} here.", printable(path));
        if let Some(meant) = crate::route::meant(path) {
            message.push_str(&format!(" Did you mean {meant}? Then the base URL should end in /v1, once."));
        }
        let mut problem = Problem::new(StatusCode::NOT_FOUND, "invalid_request_error", message);
        problem.code = Some("unknown_url");
        problem.outcome = OutcomeLabel::Unrouted;
        problem.rejected(Reject::UnknownPath)
    }

    pub(crate) fn method(path: &str, allow: &'static str) -> Problem {
        let message = format!("{} takes {allow}.", printable(path));
        let mut problem = Problem::new(StatusCode::METHOD_NOT_ALLOWED, "invalid_request_error", message);
        problem.code = Some("method_not_allowed");
        problem.allow = Some(allow);
        problem.outcome = OutcomeLabel::Unrouted;
        problem.rejected(Reject::MethodNotAllowed)
    }

    pub(crate) fn unknown_model(message: String) -> Problem {
        let mut problem = Problem::new(StatusCode::NOT_FOUND, "invalid_request_error", message);
        problem.code = Some("model_not_found");
        problem.param = Some("model".to_owned());
        problem.outcome = OutcomeLabel::Unrouted;
        problem.rejected(Reject::UnknownModel)
    }

    pub(crate) fn too_large(limit: u64) -> Problem {
        let message = format!("The request body is larger than {limit} bytes.");
        let mut problem = Problem::new(StatusCode::PAYLOAD_TOO_LARGE, "invalid_request_error", message);
        problem.code = Some("request_too_large");
        problem.close = true;
        problem.rejected(Reject::BodyTooLarge)
    }

    pub(crate) fn body_timeout(limit: Duration) -> Problem {
        let message = format!("No byte of the request body came for {limit:?}.");
        let mut problem = Problem::new(StatusCode::REQUEST_TIMEOUT, "invalid_request_error", message);
        problem.code = Some("request_timeout");
        problem.close = true;
        problem.rejected(Reject::BodyTimeout)
    }

    /// The gateway itself is short of something.
    pub(crate) fn short_of(what: &str, reject: Reject) -> Problem {
        let message = format!("The gateway is at its limit of {what}. Try again later.");
        let mut problem = Problem::new(StatusCode::SERVICE_UNAVAILABLE, "service_unavailable_error", message);
        problem.code = Some("gateway_at_limit");
        problem.retry_after = Some(Duration::from_secs(1));
        problem.outcome = OutcomeLabel::Rejected;
        problem.rejected(reject)
    }

    /// The Gate turned the request away.
    pub(crate) fn refusal(refusal: Refusal, model: &str) -> Problem {
        let model = printable(model);
        let (status, kind, code, message, reject) = match refusal.reason {
            RefuseReason::NoneReady | RefuseReason::UnknownPool => (
                StatusCode::SERVICE_UNAVAILABLE,
                "service_unavailable_error",
                "no_endpoint_ready",
                format!("No endpoint for the model \"{model}\" is ready. Try again later."),
                Some(Reject::NotReady),
            ),
            RefuseReason::QueueFull => (
                StatusCode::TOO_MANY_REQUESTS,
                "overloaded_error",
                "overloaded",
                format!(
                    "The pool of the model \"{model}\" is at its limit of requests in flight. Try again later."
                ),
                Some(Reject::QueueFull),
            ),
            RefuseReason::QueueTimeout => (
                StatusCode::TOO_MANY_REQUESTS,
                "overloaded_error",
                "overloaded",
                format!("No endpoint for the model \"{model}\" became free in time. Try again later."),
                Some(Reject::QueueTimeout),
            ),
            RefuseReason::Exhausted => (
                StatusCode::BAD_GATEWAY,
                "upstream_error",
                "upstream_unreachable",
                format!("No endpoint for the model \"{model}\" could be reached."),
                None,
            ),
        };
        let mut problem = Problem::new(status, kind, message);
        problem.code = Some(code);
        problem.retry_after = Some(refusal.retry_after);
        problem.outcome = OutcomeLabel::Rejected;
        problem.reject = reject;
        problem
    }

    /// An engine failed before a byte of its answer could be passed on.
    pub(crate) fn upstream(
        status: StatusCode,
        code: &'static str,
        outcome: OutcomeLabel,
        message: &str,
    ) -> Problem {
        let mut problem = Problem::new(status, "upstream_error", message);
        problem.code = Some(code);
        problem.outcome = outcome;
        problem
    }

    fn rejected(mut self, reject: Reject) -> Problem {
        self.reject = Some(reject);
        self
    }

    /// The answer in the shape of the API that was asked.
    pub(crate) fn into_response(self, anthropic: bool, request_id: &HeaderValue) -> Response<Bytes> {
        let body = if anthropic {
            forebay_wire::error::anthropic(self.anthropic_kind(), &self.message, request_id.to_str().ok())
        } else {
            forebay_wire::error::openai(&self.message, self.kind, self.param.as_deref(), self.code)
        };
        let mut response = Response::new(body);
        *response.status_mut() = self.status;
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        if let Some(after) = self.retry_after {
            // Whole seconds, rounded up, at least one; SDKs ignore zero.
            let seconds = after.as_millis().div_ceil(1000).max(1);
            headers.insert(header::RETRY_AFTER, HeaderValue::from(u64::try_from(seconds).unwrap_or(1)));
        }
        if let Some(allow) = self.allow {
            headers.insert(header::ALLOW, HeaderValue::from_static(allow));
        }
        if self.close {
            headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
        }
        response
    }

    fn anthropic_kind(&self) -> &'static str {
        match self.status.as_u16() {
            401 => "authentication_error",
            403 => "permission_error",
            404 => "not_found_error",
            413 => "request_too_large",
            429 => "rate_limit_error",
            503 => "overloaded_error",
            504 => "timeout_error",
            400..=499 => "invalid_request_error",
            _ => "api_error",
        }
    }
}

/// Client text for an error message: bounded and without control characters.
pub(crate) fn printable(text: &str) -> String {
    const MAX: usize = 120;
    let mut out: String =
        text.chars().take(MAX).map(|c| if c.is_control() { '\u{FFFD}' } else { c }).collect();
    if text.chars().nth(MAX).is_some() {
        out.push('…');
    }
    out
}
