//! One request, from its head to the head of its answer.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use forebay_config::OrcaAsk;
use forebay_net::Watch;
use forebay_net::upstream::RequestBody;
use forebay_wire::body::{Api, Scan, scan_json, scan_multipart};
use http::request::Parts;
use http::{HeaderName, HeaderValue, Method, Request, Response, header};
use hyper::body::Incoming;
use tokio::time::Instant;

use crate::forward::{Outgoing, forward};
use crate::headers::{self, BadHead};
use crate::model_route::Route;
use crate::naming::Naming;
use crate::problem::{Problem, printable};
use crate::proxy::{DrainPhase, Proxy};
use crate::read::{ReadError, read, skip};
use crate::reply::{Busy, Reply};
use crate::route::{NoRoute, Target, is_anthropic, route};
use crate::settle::{Asked, Settle};
use crate::{facts, ids, rule};

/// What a request needs to know of the connection it came over.
#[derive(Clone)]
pub(crate) struct Front {
    pub(crate) worker: usize,
    pub(crate) proxy: Arc<Proxy>,
    pub(crate) watch: Watch,
    pub(crate) http1: bool,
}

/// The client left in the middle of its request: there is nobody to answer.
#[derive(Debug, thiserror::Error)]
#[error("the client left in the middle of its request")]
pub(crate) struct ClientGone;

/// Where a request stands when it fails.
enum Stop {
    Problem(Box<Problem>, Option<Arc<Route>>),
    Gone,
}

impl From<Problem> for Stop {
    fn from(problem: Problem) -> Stop {
        Stop::Problem(Box::new(problem), None)
    }
}

/// Answers one request. The head is boxed before anything waits, and the work
/// is boxed as a whole: what a request needs is freed when its answer begins,
/// not kept by the connection while it streams, and nothing large is copied
/// from one stage to the next.
pub(crate) fn handle(
    front: Front,
    request: Request<Incoming>,
) -> Pin<Box<impl Future<Output = Result<Response<Reply>, ClientGone>>>> {
    let (parts, body) = request.into_parts();
    Box::pin(work(front, Box::new(parts), body))
}

async fn work(front: Front, parts: Box<Parts>, body: Incoming) -> Result<Response<Reply>, ClientGone> {
    let started = Instant::now();
    let mut busy = Busy::begin(front.watch.clone(), front.http1);
    let draw = front.proxy.ids.draw();
    let request_id = ids::header_value(parts.headers.get("x-request-id"), draw);
    let anthropic = is_anthropic(parts.uri.path());
    // A length that came after a transfer coding is dropped by the parser
    // unseen; whoever sent both may mean another end of this message than we do.
    let unsure = front.http1 && parts.headers.contains_key(header::TRANSFER_ENCODING);
    let has_body = !http_body::Body::is_end_stream(&body);
    let outcome = answer(&front, parts, body, &mut busy, &request_id, draw, started).await;
    // What was not read of a request cannot be skipped safely: the connection
    // ends with the answer, after the rest was read away.
    let unread = has_body && !busy.is_read();
    if unread {
        busy.linger();
    }
    let mut response = match outcome {
        Ok(Answered::Relay(response)) => response.map(|relay| Reply::relay(relay, busy)),
        Ok(Answered::Whole(response)) => {
            let took = started.elapsed();
            front.proxy.unrouted().request(200, forebay_metrics::OutcomeLabel::Ok, took);
            with_id(response.map(|body| Reply::whole(body, busy)), &request_id)
        }
        Err(Stop::Gone) => return Err(ClientGone),
        Err(Stop::Problem(problem, route)) => {
            refused(&front, &problem, route.as_deref(), &request_id, started.elapsed());
            let response = problem.into_response(anthropic, &request_id);
            with_id(response.map(|body| Reply::whole(body, busy)), &request_id)
        }
    };
    if front.http1 && (unsure || unread || front.proxy.phase() != DrainPhase::Serving) {
        response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    Ok(response)
}

enum Answered {
    Whole(Response<Bytes>),
    Relay(Response<Box<crate::relay::Relay>>),
}

async fn answer(
    front: &Front,
    mut parts: Box<Parts>,
    body: Incoming,
    busy: &mut Busy,
    request_id: &HeaderValue,
    draw: u64,
    started: Instant,
) -> Result<Answered, Stop> {
    let proxy = &front.proxy;
    if front.http1 {
        headers::check_http1(&parts).map_err(bad_head)?;
    }
    let settings = proxy.settings();
    let target = route(&parts.method, parts.uri.path());
    let (api, place) = match (target, proxy.enter()) {
        (Ok(Target::Engine(api)), Some(place)) => (api, place),
        (target, _) => {
            if skip(body, &parts, &settings.limits).await {
                busy.skipped();
            }
            return early(proxy, target, parts.uri.path());
        }
    };
    busy.hold(place);
    let read = match read(body, &settings.limits, &proxy.memory).await {
        Ok(read) => read,
        Err(ReadError::Problem(problem)) => return Err(problem.into()),
        Err(ReadError::Broken) => return Err(Stop::Gone),
    };
    busy.answer();
    let scan = scan(api, &parts, &read.bytes)?;
    // Whoever names a session stays with the part of a split that it drew first.
    let session = facts::session(&scan, &parts.headers, settings.trust_control_headers);
    let Some(route) = proxy.registry().route(&scan.model, session.unwrap_or(draw)) else {
        return Err(unknown_model(proxy, &scan.model).into());
    };
    let on_route = |problem| Stop::Problem(Box::new(problem), Some(Arc::clone(&route)));
    let mut facts =
        facts::of(&scan, api, &read.bytes, &route, &parts.headers, settings.trust_control_headers);
    // Boxed: few pools have a tokenizer, and its wait need not be in every request.
    let rendered = match route.pool.tokens.get() {
        Some(tokens) if facts.prefix.chain.is_empty() || !facts.prefix.exact => {
            Box::pin(facts::render(&mut facts, tokens, &scan, read.bytes.clone(), api, &route)).await
        }
        _ => 0,
    };
    let asked = Instant::now();
    let ruled = rule::ask(proxy, &route, &mut facts);
    let ticket = proxy.live().admit(facts).await;
    let ticket = ticket.map_err(|r| on_route(ruled.refusal(r, &route.pool, &scan.model)))?;
    let took = asked.elapsed();
    if ticket.waited() {
        route.metrics.queue_wait(took);
    } else {
        proxy.metrics().decision(took);
        route.metrics.queue_wait(Duration::ZERO);
    }
    let settle = Box::new(Settle::new(
        Arc::clone(proxy),
        Arc::clone(&route),
        request_id.clone(),
        ticket,
        started,
        Asked { prompt_bytes: prompt_text_bytes(&scan), rendered, answers: facts::answers(&scan, api) },
    ));
    let outgoing = outgoing(&mut parts, read.bytes, &scan, api, &route, request_id);
    let queued = started.elapsed();
    // A failure from here on has been counted by its settlement.
    let incoming = forward(front.worker, outgoing, settle, &route).await.map_err(|mut problem| {
        problem.reject = None;
        problem.settled = true;
        Stop::from(problem)
    })?;
    // The body can be sent no more.
    drop(read.memory);
    let mut head = incoming.head;
    headers::prepare_response(&mut head.headers, request_id);
    if settings.endpoint_header
        && let Some(name) = incoming.endpoint
    {
        head.headers.insert(HeaderName::from_static("x-forebay-endpoint"), name);
    }
    if settings.held_tokens_header {
        let held = HeaderValue::from(incoming.held_tokens);
        head.headers.insert(HeaderName::from_static("x-forebay-held-tokens"), held);
    }
    if settings.server_timing {
        let upstream = started.elapsed().saturating_sub(queued);
        let ms = |d: Duration| d.as_secs_f64() * 1e3;
        let value = format!("gateway;dur={:.3}, upstream;dur={:.3}", ms(queued), ms(upstream));
        if let Ok(value) = HeaderValue::try_from(value) {
            head.headers.append(HeaderName::from_static("server-timing"), value);
        }
    }
    // The version is the client connection's to choose.
    let mut response = Response::new(incoming.relay);
    *response.status_mut() = head.status;
    *response.headers_mut() = head.headers;
    Ok(Answered::Relay(response))
}

/// The answer to a request that is not for an engine, or not now.
fn early(proxy: &Proxy, target: Result<Target<'_>, NoRoute>, path: &str) -> Result<Answered, Stop> {
    match target {
        Ok(Target::Models) => Ok(Answered::Whole(json(proxy.registry().list()))),
        Ok(Target::Model(id)) => model_card(proxy, id),
        Ok(Target::Engine(_)) => {
            Err(Problem::short_of("requests in flight", forebay_metrics::Reject::InflightLimit).into())
        }
        Err(NoRoute::Unknown) => Err(Problem::unknown_path(path).into()),
        Err(NoRoute::Method(allow)) => Err(Problem::method(path, allow).into()),
    }
}

/// Bytes of prompt that the engine's count of prompt tokens can be held
/// against; none when the prompt is not all text.
fn prompt_text_bytes(scan: &Scan) -> usize {
    if scan.prompt_token_ids > 0 || scan.prompts > 1 || scan.multipart { 0 } else { scan.rendered_bytes }
}

fn scan(api: Api, parts: &Parts, body: &[u8]) -> Result<Scan, Problem> {
    let content_type = parts.headers.get(header::CONTENT_TYPE).and_then(|v| v.to_str().ok()).unwrap_or("");
    let multipart =
        content_type.trim_start().get(..10).is_some_and(|start| start.eq_ignore_ascii_case("multipart/"));
    if parts.headers.contains_key(header::CONTENT_ENCODING) {
        let mut problem = Problem::bad_request(
            "A compressed request body cannot be routed; send it without Content-Encoding.",
        );
        problem.status = http::StatusCode::UNSUPPORTED_MEDIA_TYPE;
        return Err(problem);
    }
    let scanned = if multipart { scan_multipart(content_type, body) } else { scan_json(api, body) };
    scanned.map_err(|error| Problem::body(&error))
}

fn outgoing(
    parts: &mut Parts,
    body: Bytes,
    scan: &Scan,
    api: Api,
    route: &Route,
    request_id: &HeaderValue,
) -> Outgoing {
    let naming = Naming::of(route, scan, &body);
    // For an absolute target its authority counts, not the Host field.
    let host = route.pool.preserve_host.then(|| match parts.uri.authority() {
        Some(authority) => HeaderValue::from_str(authority.as_str()).ok(),
        None => parts.headers.get(header::HOST).cloned(),
    });
    let mut headers = std::mem::take(&mut parts.headers);
    headers::prepare_request(&mut headers, request_id, true);
    headers.remove(header::HOST);
    if route.pool.orca_ask != OrcaAsk::None {
        let format = HeaderValue::from_static(route.pool.orca_ask.as_str());
        headers.insert(HeaderName::from_static("endpoint-load-metrics-format"), format);
    }
    let request = |headers, body| {
        let mut request = Box::new(Request::new(RequestBody::new(body)));
        *request.method_mut() = Method::POST;
        *request.headers_mut() = headers;
        request
    };
    let again = route.adapter.is_some().then(|| request(headers.clone(), body.clone()));
    let request = request(headers, body);
    let path = parts.uri.path_and_query().map_or("/", |path| path.as_str()).to_owned();
    Outgoing { request: Some(request), path, host: host.flatten(), api, stream: scan.stream, naming, again }
}

fn bad_head(bad: BadHead) -> Problem {
    let mut problem = match bad {
        BadHead::Host => Problem::bad_request("The request needs exactly one valid Host header."),
        BadHead::UnknownCoding => {
            let mut problem =
                Problem::bad_request("The only transfer coding understood is \"chunked\", once.");
            problem.status = http::StatusCode::NOT_IMPLEMENTED;
            problem
        }
        BadHead::TwoLengths => {
            Problem::bad_request("A request cannot have both Transfer-Encoding and Content-Length.")
        }
    };
    problem.close = true;
    problem
}

fn unknown_model(proxy: &Proxy, model: &str) -> Problem {
    let mut message = format!("The model \"{}\" does not exist here.", printable(model));
    let close = proxy.registry().close_names(model);
    if !close.is_empty() {
        let names: Vec<String> = close.iter().map(|name| format!("\"{name}\"")).collect();
        message.push_str(&format!(" Did you mean {}?", names.join(" or ")));
    }
    Problem::unknown_model(message)
}

fn model_card(proxy: &Proxy, id: &str) -> Result<Answered, Stop> {
    let decoded = percent_decode(id);
    match proxy.registry().card(&decoded) {
        Some(card) => Ok(Answered::Whole(json(card))),
        None => Err(unknown_model(proxy, &decoded).into()),
    }
}

/// `%XX` in a path segment; anything malformed stays as it is.
fn percent_decode(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut i = 0;
    while i < bytes.len() {
        let hex = bytes.get(i + 1..i + 3).and_then(|hex| std::str::from_utf8(hex).ok());
        match hex.and_then(|hex| u8::from_str_radix(hex, 16).ok()) {
            Some(byte) if bytes[i] == b'%' => {
                out.push(byte);
                i += 3;
            }
            _ => {
                out.push(bytes[i]);
                i += 1;
            }
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

fn json(body: Bytes) -> Response<Bytes> {
    let mut response = Response::new(body);
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

fn with_id(mut response: Response<Reply>, request_id: &HeaderValue) -> Response<Reply> {
    response.headers_mut().insert(HeaderName::from_static("x-request-id"), request_id.clone());
    response
}

/// Counts and logs a refusal of our own.
fn refused(front: &Front, problem: &Problem, route: Option<&Route>, id: &HeaderValue, took: Duration) {
    let metrics = front.proxy.metrics();
    if let Some(reject) = problem.reject {
        metrics.rejected(reject);
        let counted = route.map_or(front.proxy.unrouted(), |route| &route.metrics);
        counted.request(problem.status.as_u16(), problem.outcome, took);
    }
    let id = id.to_str().unwrap_or("");
    let (status, outcome, code) =
        (problem.status.as_u16(), problem.outcome.as_str(), problem.code.unwrap_or(""));
    let (pool, model) = route.map_or(("", ""), |route| (&*route.pool.name, &*route.model));
    let ms = (took.as_secs_f64() * 1e6).round() / 1e3;
    // What an engine did wrong was logged when it was settled; this is about
    // refusals of our own: ours to explain when it is our fault, else on request.
    if problem.status.is_server_error() && problem.reject.is_some() {
        tracing::warn!(id, pool, model, outcome, status, code, ms, "request refused");
    } else if front.proxy.settings().access_log && !problem.settled {
        tracing::info!(id, pool, model, outcome, status, code, ms, "request refused");
    } else {
        tracing::debug!(id, pool, model, outcome, status, code, ms, "request refused");
    }
}
