//! Which path says what.

use std::sync::Arc;

use axum::body::Bytes;
use axum::extract::rejection::{BytesRejection, QueryRejection};
use axum::extract::{DefaultBodyLimit, Path, Query, State};
use axum::http::{HeaderMap, HeaderName, Method, StatusCode, Uri, header};
use axum::response::{Html, IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use serde::{Deserialize, Serialize};

use crate::control::{self, ControlError};
use crate::error::ApiError;
use crate::model::{DecisionView, EndpointStatus, PoolStatus};
use crate::{ControlPlane, page};

type Plane = State<Arc<dyn ControlPlane>>;

/// A page that may load nothing, from anywhere, and be shown in no other.
const PAGE_POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// Bytes of a change that is asked for; all of it are a few words.
const MAX_PATCH: usize = 16 << 10;

pub(crate) fn router(plane: Arc<dyn ControlPlane>) -> Router {
    Router::new()
        .route("/", get(index))
        .route("/healthz", get(healthz))
        .route("/readyz", get(readyz))
        .route("/metrics", get(metrics))
        .route("/api/v1/status", get(status))
        .route("/api/v1/endpoints", get(endpoints))
        .route("/api/v1/endpoints/{id}", get(endpoint).patch(patch_endpoint))
        .route("/api/v1/pools/{name}", get(pool).patch(patch_pool))
        .route("/api/v1/decisions", get(decisions))
        .layer(DefaultBodyLimit::max(MAX_PATCH))
        .fallback(unknown_path)
        .method_not_allowed_fallback(wrong_method)
        .with_state(plane)
}

/// What every answer carries: figures of now, not to be kept or guessed at.
const FRESH: [(HeaderName, &str); 2] =
    [(header::CACHE_CONTROL, "no-store"), (header::X_CONTENT_TYPE_OPTIONS, "nosniff")];

async fn index(State(plane): Plane) -> impl IntoResponse {
    let html = page::render(&plane.status(), &plane.decisions(page::DECISIONS_SHOWN));
    (FRESH, [(header::CONTENT_SECURITY_POLICY, PAGE_POLICY)], Html(html))
}

async fn healthz() -> impl IntoResponse {
    (FRESH, "ok")
}

#[derive(Deserialize)]
struct ReadyQuery {
    pool: Option<String>,
}

async fn readyz(
    State(plane): Plane,
    query: Result<Query<ReadyQuery>, QueryRejection>,
) -> Result<Response, ApiError> {
    let Query(ReadyQuery { pool }) = query.map_err(|rejection| ApiError {
        status: StatusCode::BAD_REQUEST,
        code: "invalid_query",
        param: Some("pool"),
        message: format!("the query must be ?pool=NAME: {}", rejection.body_text()),
    })?;
    let readiness = plane.ready();
    let body = readiness.body(pool.as_deref()).ok_or_else(|| ApiError {
        status: StatusCode::NOT_FOUND,
        code: "unknown_pool",
        param: Some("pool"),
        message: format!("no pool is called {:?}", pool.unwrap_or_default()),
    })?;
    let status = if body.ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    Ok((status, FRESH, Json(body)).into_response())
}

async fn metrics(State(plane): Plane) -> impl IntoResponse {
    (FRESH, [(header::CONTENT_TYPE, forebay_metrics::CONTENT_TYPE)], plane.metrics())
}

async fn status(State(plane): Plane) -> impl IntoResponse {
    (FRESH, Json(plane.status()))
}

#[derive(Serialize)]
struct EndpointList {
    endpoints: Vec<EndpointStatus>,
}

async fn endpoints(State(plane): Plane) -> impl IntoResponse {
    let endpoints = plane.status().pools.into_iter().flat_map(|pool| pool.endpoints).collect();
    (FRESH, Json(EndpointList { endpoints }))
}

async fn endpoint(State(plane): Plane, Path(id): Path<String>) -> Result<Response, ApiError> {
    let mut all = plane.status().pools.into_iter().flat_map(|pool| pool.endpoints);
    let found: Option<EndpointStatus> = all.find(|endpoint| endpoint.id == id);
    let found = found.ok_or_else(|| ApiError::control(ControlError::Unknown, "endpoint", &id))?;
    Ok((FRESH, Json(found)).into_response())
}

async fn pool(State(plane): Plane, Path(name): Path<String>) -> Result<Response, ApiError> {
    let found: Option<PoolStatus> = plane.status().pools.into_iter().find(|pool| pool.name == name);
    let found = found.ok_or_else(|| ApiError::control(ControlError::Unknown, "pool", &name))?;
    Ok((FRESH, Json(found)).into_response())
}

async fn patch_endpoint(
    State(plane): Plane,
    Path(id): Path<String>,
    headers: HeaderMap,
    body: Result<Bytes, BytesRejection>,
) -> Result<Response, ApiError> {
    let patch = control::endpoint_patch(&body_of(&headers, body)?)?;
    let changed = plane.patch_endpoint(&id, &patch);
    let changed = changed.map_err(|error| ApiError::control(error, "endpoint", &id))?;
    Ok((FRESH, Json(changed)).into_response())
}

async fn patch_pool(
    State(plane): Plane,
    Path(name): Path<String>,
    headers: HeaderMap,
    body: Result<Bytes, BytesRejection>,
) -> Result<Response, ApiError> {
    let patch = control::pool_patch(&body_of(&headers, body)?)?;
    let changed = plane.patch_pool(&name, &patch);
    let changed = changed.map_err(|error| ApiError::control(error, "pool", &name))?;
    Ok((FRESH, Json(changed)).into_response())
}

/// The body of a change. A browser that was led here by another page says
/// where that page came from; an operator's tool does not.
fn body_of(headers: &HeaderMap, body: Result<Bytes, BytesRejection>) -> Result<Bytes, ApiError> {
    if headers.contains_key(header::ORIGIN) {
        return Err(ApiError {
            status: StatusCode::FORBIDDEN,
            code: "not_from_a_page",
            param: None,
            message: "changes are not taken from web pages (the request has an Origin header)".to_owned(),
        });
    }
    body.map_err(|rejection| ApiError {
        status: rejection.status(),
        code: "invalid_body",
        param: None,
        message: format!("the body cannot be read: {}", rejection.body_text()),
    })
}

#[derive(Deserialize)]
struct DecisionQuery {
    last: Option<usize>,
}

#[derive(Serialize)]
struct DecisionList {
    decisions: Vec<DecisionView>,
}

/// How many decisions are shown when the query does not say.
const DECISIONS_SHOWN: usize = 50;

async fn decisions(
    State(plane): Plane,
    query: Result<Query<DecisionQuery>, QueryRejection>,
) -> Result<Response, ApiError> {
    let Query(DecisionQuery { last }) = query.map_err(|rejection| ApiError {
        status: StatusCode::BAD_REQUEST,
        code: "invalid_query",
        param: Some("last"),
        message: format!("the query must be ?last=N: {}", rejection.body_text()),
    })?;
    let decisions = plane.decisions(last.unwrap_or(DECISIONS_SHOWN));
    Ok((FRESH, Json(DecisionList { decisions })).into_response())
}

async fn unknown_path(uri: Uri) -> ApiError {
    ApiError {
        status: StatusCode::NOT_FOUND,
        code: "unknown_path",
        param: None,
        message: format!(
            "there is no {} here; try /, /healthz, /readyz, /metrics, /api/v1/status, /api/v1/endpoints, \
             /api/v1/pools/NAME or /api/v1/decisions",
            uri.path()
        ),
    }
}

async fn wrong_method(method: Method, uri: Uri) -> impl IntoResponse {
    let path = uri.path();
    let changes = ["/api/v1/endpoints/", "/api/v1/pools/"].iter().any(|start| path.starts_with(start));
    let (words, allow) = if changes { ("GET or PATCH", "GET, HEAD, PATCH") } else { ("GET", "GET, HEAD") };
    let error = ApiError {
        status: StatusCode::METHOD_NOT_ALLOWED,
        code: "method_not_allowed",
        param: None,
        message: format!("{path} cannot be asked with {method}, only with {words}"),
    };
    ([(header::ALLOW, allow)], error)
}
