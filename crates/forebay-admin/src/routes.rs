//! Which path says what.

use std::sync::Arc;

use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use axum::http::{HeaderName, Method, StatusCode, Uri, header};
use axum::response::{Html, IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use serde::{Deserialize, Serialize};

use crate::error::ApiError;
use crate::model::{DecisionView, EndpointStatus};
use crate::{StatusSource, page};

type Source = State<Arc<dyn StatusSource>>;

/// A page that may load nothing, from anywhere, and be shown in no other.
const PAGE_POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

pub(crate) fn router(source: Arc<dyn StatusSource>) -> Router {
    Router::new()
        .route("/", get(index))
        .route("/healthz", get(healthz))
        .route("/readyz", get(readyz))
        .route("/metrics", get(metrics))
        .route("/api/v1/status", get(status))
        .route("/api/v1/endpoints", get(endpoints))
        .route("/api/v1/decisions", get(decisions))
        .fallback(unknown_path)
        .method_not_allowed_fallback(wrong_method)
        .with_state(source)
}

/// What every answer carries: figures of now, not to be kept or guessed at.
const FRESH: [(HeaderName, &str); 2] =
    [(header::CACHE_CONTROL, "no-store"), (header::X_CONTENT_TYPE_OPTIONS, "nosniff")];

async fn index(State(source): Source) -> impl IntoResponse {
    let html = page::render(&source.status());
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
    State(source): Source,
    query: Result<Query<ReadyQuery>, QueryRejection>,
) -> Result<Response, ApiError> {
    let Query(ReadyQuery { pool }) = query.map_err(|rejection| ApiError {
        status: StatusCode::BAD_REQUEST,
        code: "invalid_query",
        param: Some("pool"),
        message: format!("the query must be ?pool=NAME: {}", rejection.body_text()),
    })?;
    let readiness = source.ready();
    let body = readiness.body(pool.as_deref()).ok_or_else(|| ApiError {
        status: StatusCode::NOT_FOUND,
        code: "unknown_pool",
        param: Some("pool"),
        message: format!("no pool is called {:?}", pool.unwrap_or_default()),
    })?;
    let status = if body.ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    Ok((status, FRESH, Json(body)).into_response())
}

async fn metrics(State(source): Source) -> impl IntoResponse {
    (FRESH, [(header::CONTENT_TYPE, forebay_metrics::CONTENT_TYPE)], source.metrics())
}

async fn status(State(source): Source) -> impl IntoResponse {
    (FRESH, Json(source.status()))
}

#[derive(Serialize)]
struct EndpointList {
    endpoints: Vec<EndpointStatus>,
}

async fn endpoints(State(source): Source) -> impl IntoResponse {
    let endpoints = source.status().pools.into_iter().flat_map(|pool| pool.endpoints).collect();
    (FRESH, Json(EndpointList { endpoints }))
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
    State(source): Source,
    query: Result<Query<DecisionQuery>, QueryRejection>,
) -> Result<Response, ApiError> {
    let Query(DecisionQuery { last }) = query.map_err(|rejection| ApiError {
        status: StatusCode::BAD_REQUEST,
        code: "invalid_query",
        param: Some("last"),
        message: format!("the query must be ?last=N: {}", rejection.body_text()),
    })?;
    let decisions = source.decisions(last.unwrap_or(DECISIONS_SHOWN));
    Ok((FRESH, Json(DecisionList { decisions })).into_response())
}

async fn unknown_path(uri: Uri) -> ApiError {
    ApiError {
        status: StatusCode::NOT_FOUND,
        code: "unknown_path",
        param: None,
        message: format!(
            "there is no {} here; try /, /healthz, /readyz, /metrics, /api/v1/status, /api/v1/endpoints or /api/v1/decisions",
            uri.path()
        ),
    }
}

async fn wrong_method(method: Method, uri: Uri) -> impl IntoResponse {
    let error = ApiError {
        status: StatusCode::METHOD_NOT_ALLOWED,
        code: "method_not_allowed",
        param: None,
        message: format!("{} cannot be asked with {method}, only with GET", uri.path()),
    };
    ([(header::ALLOW, "GET, HEAD")], error)
}
