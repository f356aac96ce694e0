//! From a request to the head of its answer.

use std::sync::Arc;

use bytes::Bytes;
use http::header::{ALLOW, CONTENT_TYPE, HeaderValue, RETRY_AFTER, SERVER};
use http::{HeaderMap, Method, Request, Response, StatusCode};
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use hyper::body::{Body as _, Incoming};
use serde_json::{Map, Value};

use crate::api::{anthropic, hex_id, info, lora};
use crate::body::EngineBody;
use crate::conn::ConnState;
use crate::dialect::MetricsDialect;
use crate::error::ApiError;
use crate::fault::Fault;
use crate::fields::parse_object;
use crate::infer::{Call, infer};
use crate::options::EngineOptions;
use crate::orca::Orca;
use crate::shared::Shared;

/// Longest request body.
const MAX_BODY: usize = 64 * 1024 * 1024;

pub(crate) type Answer = Response<EngineBody>;

/// What a path does.
#[derive(Clone, Copy)]
pub(crate) enum Action {
    Health,
    Version,
    Load,
    Loads,
    Models,
    KvSources,
    ResetCache,
    Metrics,
    Chat,
    Text,
    Messages,
    CountTokens,
    Responses,
    Embeddings,
    Score,
    Rerank,
    Tokenize,
    Detokenize,
    LoadAdapter,
    UnloadAdapter,
    Fault,
}

/// The action of a path, and the methods it takes.
fn find(path: &str, options: &EngineOptions) -> Option<(Action, &'static [Method])> {
    let faults = options.faults;
    let (vllm, sglang) = (options.dialect == MetricsDialect::Vllm, options.dialect == MetricsDialect::Sglang);
    const GET: &[Method] = &[Method::GET];
    const BOTH: &[Method] = &[Method::GET, Method::POST];
    const POST: &[Method] = &[Method::POST];
    Some(match path {
        "/health" => (Action::Health, GET),
        "/ping" => (Action::Health, BOTH),
        "/version" if vllm => (Action::Version, GET),
        "/v1/loads" if sglang => (Action::Loads, GET),
        "/load" if vllm => (Action::Load, GET),
        "/metrics" => (Action::Metrics, GET),
        "/kv_event_sources" if vllm => (Action::KvSources, GET),
        "/v1/models" => (Action::Models, GET),
        "/v1/chat/completions" => (Action::Chat, POST),
        "/v1/completions" => (Action::Text, POST),
        "/v1/messages" => (Action::Messages, POST),
        "/v1/messages/count_tokens" => (Action::CountTokens, POST),
        "/v1/responses" => (Action::Responses, POST),
        "/v1/embeddings" => (Action::Embeddings, POST),
        "/v1/score" | "/score" => (Action::Score, POST),
        "/v1/rerank" | "/v2/rerank" | "/rerank" => (Action::Rerank, POST),
        "/tokenize" => (Action::Tokenize, POST),
        "/detokenize" => (Action::Detokenize, POST),
        "/v1/load_lora_adapter" => (Action::LoadAdapter, POST),
        "/v1/unload_lora_adapter" => (Action::UnloadAdapter, POST),
        "/reset_prefix_cache" if faults => (Action::ResetCache, POST),
        "/fault" if faults => (Action::Fault, POST),
        _ => return None,
    })
}

/// Answers one request. Dropping this future, or the body of its answer, stops
/// whatever was generated for it.
pub(crate) async fn respond(shared: Arc<Shared>, conn: Arc<ConnState>, request: Request<Incoming>) -> Answer {
    let given = request.headers().get("x-request-id").cloned();
    let drawn = hex_id(shared.options.seed, shared.next_number());
    let id = given.as_ref().and_then(|id| id.to_str().ok()).unwrap_or(&drawn).to_string();
    let mut answer = dispatch(&shared, &conn, request, &id).await;
    let headers = answer.headers_mut();
    let server = match shared.options.dialect {
        MetricsDialect::Llamacpp => "llama.cpp",
        _ => "forebay-engine",
    };
    headers.insert(SERVER, HeaderValue::from_static(server));
    if let Some(value) = given.or_else(|| HeaderValue::from_str(&id).ok()) {
        headers.insert("x-request-id", value);
    }
    answer
}

async fn dispatch(
    shared: &Arc<Shared>,
    conn: &Arc<ConnState>,
    request: Request<Incoming>,
    id: &str,
) -> Answer {
    let (head, body) = request.into_parts();
    let Some((action, methods)) = find(head.uri.path(), &shared.options) else {
        return json(StatusCode::NOT_FOUND, r#"{"detail":"Not Found"}"#);
    };
    if !methods.contains(&head.method) {
        let mut answer = json(StatusCode::METHOD_NOT_ALLOWED, r#"{"detail":"Method Not Allowed"}"#);
        let allowed = if methods.contains(&Method::GET) { "GET" } else { "POST" };
        answer.headers_mut().insert(ALLOW, HeaderValue::from_static(allowed));
        return answer;
    }
    let text = |action: Action| match action {
        Action::Health => Some((String::new(), "")),
        Action::Version => Some((r#"{"version":"0.32.0"}"#.into(), "application/json")),
        Action::Load => {
            Some((format!(r#"{{"server_load":{}}}"#, shared.stats().in_flight), "application/json"))
        }
        Action::Loads => Some((shared.loads(), "application/json")),
        Action::Models => Some((info::models(shared), "application/json")),
        Action::KvSources => Some((info::kv_sources(shared), "application/json")),
        Action::ResetCache => {
            // The engine answers the same when it could not.
            if !shared.reset_prefix_cache() {
                tracing::warn!("the prefix cache is in use and was not reset");
            }
            Some((String::new(), ""))
        }
        Action::Metrics => Some((shared.metrics_page(), "text/plain; version=1.0.0; charset=utf-8")),
        _ => None,
    };
    if let Some((text, content_type)) = text(action) {
        let mut answer = Response::new(EngineBody::full(text));
        if !content_type.is_empty() {
            answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
        }
        return answer;
    }
    let map = match read(&head.headers, body).await {
        Ok(map) => map,
        Err(error) => return fail(action, &error, None),
    };
    let result = match action {
        Action::CountTokens => anthropic::count_tokens(shared, &map),
        Action::Tokenize => info::tokenize(shared, &map),
        Action::Detokenize => info::untokenize(shared, &map),
        Action::LoadAdapter => lora::load(shared, &map),
        Action::UnloadAdapter => lora::unload(shared, &map),
        Action::Fault => Fault::parse(&map).map(|fault| {
            shared.set_fault(fault);
            format!(r#"{{"fault":"{:?}"}}"#, fault.kind)
        }),
        _ => {
            let orca = Orca::asked(&head.headers);
            return infer(Call { shared, conn, action, id, orca }, &map).await;
        }
    };
    match result {
        // These two answer in plain words, without a type.
        Ok(text) if matches!(action, Action::LoadAdapter | Action::UnloadAdapter) => {
            Response::new(EngineBody::full(text))
        }
        Ok(text) => json(StatusCode::OK, text),
        Err(error) => fail(action, &error, None),
    }
}

/// The JSON object in a request's body.
async fn read(headers: &HeaderMap, body: Incoming) -> Result<Map<String, Value>, ApiError> {
    let content_type = headers.get(CONTENT_TYPE).and_then(|v| v.to_str().ok()).unwrap_or("");
    let media_type = content_type.split(';').next().unwrap_or("").trim();
    let too_long = || ApiError {
        status: StatusCode::PAYLOAD_TOO_LARGE,
        ..ApiError::bad_request(format!("The body is longer than {MAX_BODY} bytes."), None)
    };
    if body.size_hint().lower() > MAX_BODY as u64 {
        return Err(too_long());
    }
    let bytes: Bytes = match Limited::new(body, MAX_BODY).collect().await {
        Ok(body) => body.to_bytes(),
        Err(error) if error.is::<LengthLimitError>() => return Err(too_long()),
        Err(error) => return Err(ApiError::bad_request(format!("The body broke off: {error}"), None)),
    };
    if !media_type.eq_ignore_ascii_case("application/json") {
        let message = "1 validation error:\n  Unsupported Media Type: Only 'application/json' is allowed";
        return Err(ApiError::invalid(message, None));
    }
    parse_object(&bytes)
}

pub(crate) fn fail(action: Action, error: &ApiError, retry_after: Option<u32>) -> Answer {
    let text = match action {
        Action::Messages | Action::CountTokens => error.anthropic_body(),
        _ => error.openai_body(),
    };
    let mut answer = json(error.status, text);
    if let Some(seconds) = retry_after {
        answer.headers_mut().insert(RETRY_AFTER, seconds.into());
    }
    answer
}

pub(crate) fn json(status: StatusCode, text: impl Into<Bytes>) -> Answer {
    json_body(status, EngineBody::full(text))
}

pub(crate) fn json_body(status: StatusCode, body: EngineBody) -> Answer {
    let mut answer = Response::new(body);
    *answer.status_mut() = status;
    answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    answer
}

pub(crate) fn event_stream(body: EngineBody) -> Answer {
    let mut answer = Response::new(body);
    let value = HeaderValue::from_static("text/event-stream; charset=utf-8");
    answer.headers_mut().insert(CONTENT_TYPE, value);
    answer
}
