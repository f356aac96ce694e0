//! Sending a request to the picked endpoint and waiting for its first byte.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;

use bytes::Bytes;
use forebay_core::{EndKind, Failure};
use forebay_gate::RepickReason;
use forebay_metrics::{OutcomeLabel, Retry};
use forebay_net::upstream::{Answer, RequestBody, SendError, SendErrorKind};
use forebay_wire::body::Api;
use forebay_wire::signals::denies_model;
use forebay_wire::sse::{ModelEditor, rewrite_model_json};
use http::{HeaderValue, Request, StatusCode, Uri, Version, header};

use crate::endpoint::Endpoint;
use crate::model_route::Route;
use crate::naming::Naming;
use crate::problem::Problem;
use crate::relay::{Relay, Stopped};
use crate::settle::Settle;
use crate::timer::Timer;
use crate::watching::Watching;

/// What SGLang says of an adapter that it does not have.
const NOT_LOADED: &[u8] = b"LoRA adapters are not loaded";
/// Bytes of a refusal that are looked at for it.
const MAX_REFUSAL: usize = 16 << 10;
/// The largest unstreamed answer in which an alias is put back.
const MAX_EDITED: usize = 16 << 20;

/// A request ready to be sent to any endpoint of its pool.
pub(crate) struct Outgoing {
    /// As the client sent it, without hop-by-hop fields and without a host; the
    /// target and the host are set for each endpoint. None while it is sent.
    pub(crate) request: Option<Box<Request<RequestBody>>>,
    /// Path and query as the client sent them.
    pub(crate) path: String,
    /// The client's host, where the pool wants it kept.
    pub(crate) host: Option<HeaderValue>,
    pub(crate) api: Api,
    pub(crate) stream: bool,
    /// Where endpoints are asked for the model by another name than the client's.
    pub(crate) naming: Option<Box<Naming>>,
    /// The same once more, where an endpoint may say that it does not have the
    /// adapter (any more) and another one has it.
    pub(crate) again: Option<Box<Request<RequestBody>>>,
}

/// An answer whose first byte is there.
pub(crate) struct Incoming {
    pub(crate) head: http::response::Parts,
    pub(crate) relay: Box<Relay>,
    pub(crate) endpoint: Option<HeaderValue>,
    /// Prompt tokens that the endpoint was taken to hold.
    pub(crate) held_tokens: u32,
}

/// Sends the request, to another endpoint too if nothing of it could be sent.
pub(crate) async fn forward(
    worker: usize,
    mut outgoing: Outgoing,
    mut settle: Box<Settle>,
    route: &Route,
) -> Result<Incoming, Problem> {
    let timeouts = &route.pool.timeouts;
    let first = if outgoing.stream { timeouts.first_byte } else { timeouts.answer };
    let mut timer = Timer::start(settle.started, timeouts, first);
    let api = outgoing.api;
    let (answer, read) = send(worker, &mut outgoing, &mut settle, route, &mut timer).await?;
    if answer.head.status == StatusCode::SWITCHING_PROTOCOLS {
        // Nobody asked for another protocol: upgrades are not passed on.
        let message = "the engine switched protocols unasked";
        return Err(fail(&mut settle, Failure::Protocol, OutcomeLabel::UpstreamError, message));
    }
    let picked = settle.endpoint().cloned();
    let endpoint = picked.as_ref().and_then(|endpoint| endpoint.name_value.clone());
    let naming = outgoing.naming.as_ref().zip(picked.as_ref());
    let put_back = naming.and_then(|(naming, endpoint)| naming.put_back(endpoint));
    let held_tokens = settle.ticket().map_or(0, |ticket| ticket.held_tokens());
    settle.head(answer.head.status);
    let mut head = answer.head;
    settle.report(&mut head.headers);
    let watching = Watching::new(api, &head.headers);
    let mut relay = Box::new(Relay::new(answer.body, watching, timer, settle));
    relay.take_in(read);
    let edited = match put_back {
        Some(model) if relay.is_events() => {
            relay.edit(ModelEditor::new(model));
            true
        }
        Some(model) if relay.is_json() => {
            edit_whole(&mut relay, model).await.map_err(|s| lost(&mut relay, &s))?
        }
        _ => false,
    };
    if edited {
        head.headers.remove(header::CONTENT_LENGTH);
    }
    // Engines send the head before they have even scheduled the request: it is
    // held until there is a byte to go with it.
    if let Err(stopped) = poll_fn(|cx| relay.poll_first(cx)).await {
        return Err(lost(&mut relay, &stopped));
    }
    if head.status == StatusCode::NOT_FOUND && route.adapter.is_none() {
        let parts = relay.take_ready();
        if let Some(endpoint) = picked.filter(|_| denies_model(&parts.concat())) {
            // Another engine may have come to its address.
            endpoint.model_denied();
        }
        parts.into_iter().for_each(|part| relay.put_ready(part));
    }
    Ok(Incoming { head, relay, endpoint, held_tokens })
}

/// Reads an unstreamed answer whole and puts the requested name back into it.
async fn edit_whole(relay: &mut Relay, model: &str) -> Result<bool, Stopped> {
    let whole = poll_fn(|cx| relay.poll_whole(cx, MAX_EDITED)).await?;
    let parts = relay.take_ready();
    if !whole {
        parts.into_iter().for_each(|part| relay.put_ready(part));
        return Ok(false);
    }
    let body = match parts.as_slice() {
        [only] => only.clone(),
        many => Bytes::from(many.concat()),
    };
    let edited = rewrite_model_json(&body, model).map(Bytes::from);
    let changed = edited.is_some();
    let body = edited.unwrap_or(body);
    relay.set_exact(body.len() as u64);
    relay.put_ready(body);
    Ok(changed)
}

/// The answer broke off before anything of it could be passed on.
fn lost(relay: &mut Relay, stopped: &Stopped) -> Problem {
    fail(relay.settle(), stopped.failure, stopped.label(), &stopped.message)
}

/// The answer, and what of its body was read already.
async fn send(
    worker: usize,
    outgoing: &mut Outgoing,
    settle: &mut Settle,
    route: &Route,
    timer: &mut Timer,
) -> Result<(Answer, Vec<Bytes>), Problem> {
    let mut retries = 0;
    loop {
        let Some(endpoint) = settle.endpoint().cloned() else {
            return Err(Problem::upstream(
                StatusCode::BAD_GATEWAY,
                "upstream_error",
                OutcomeLabel::UpstreamError,
                "The request was already settled.",
            ));
        };
        let error = {
            let request = request_for(&endpoint, outgoing);
            let mut sending = pin!(endpoint.upstream.send(worker, request));
            let result = poll_fn(|cx| match sending.as_mut().poll(cx) {
                Poll::Ready(result) => Poll::Ready(Ok(result)),
                Poll::Pending => timer.poll(cx).map(Err),
            })
            .await;
            match result {
                Ok(Ok(mut answer)) if outgoing.again.is_some() && answer.head.status.is_client_error() => {
                    let (missing, read) = match lacks_adapter(&mut answer, &endpoint, timer).await {
                        Ok(found) => found,
                        Err(stopped) => {
                            return Err(fail(settle, stopped.failure, stopped.label(), &stopped.message));
                        }
                    };
                    if !missing {
                        return Ok((answer, read));
                    }
                    // Adapters are loaded and unloaded between two looks at the list.
                    endpoint.model_missing();
                    let moved = settle.ticket().is_some_and(|t| t.repick(RepickReason::ModelMissing).is_ok());
                    if !moved {
                        return Ok((answer, read));
                    }
                    outgoing.request = outgoing.again.take();
                    settle.proxy().metrics().retried(Retry::ModelMissing);
                    settle.forwarded_again();
                    continue;
                }
                Ok(Ok(answer)) => return Ok((answer, Vec::new())),
                Ok(Err(error)) => error,
                Err(expired) => {
                    let stopped = Stopped::expired(expired);
                    return Err(fail(settle, stopped.failure, stopped.label(), &stopped.message));
                }
            }
        };
        let SendError { kind, message, request } = error;
        if matches!(kind, SendErrorKind::Connect | SendErrorKind::ConnectTimeout) {
            endpoint.connect_failed();
        }
        let (why, label) = match kind {
            SendErrorKind::Connect | SendErrorKind::ConnectTimeout => (RepickReason::Connect, Retry::Connect),
            _ => (RepickReason::Reset, Retry::StaleConnection),
        };
        // Only what was not sent may be sent again.
        let again = match request {
            Some(request) if retries < route.pool.connect_retries => {
                outgoing.request = Some(request);
                settle.ticket().is_some_and(|ticket| ticket.repick(why).is_ok())
            }
            _ => false,
        };
        if !again {
            let (failure, label) = match kind {
                SendErrorKind::Connect | SendErrorKind::Unsent => {
                    (Failure::Connect, OutcomeLabel::UpstreamError)
                }
                SendErrorKind::ConnectTimeout => (Failure::Connect, OutcomeLabel::TimeoutConnect),
                SendErrorKind::Reset => (Failure::Reset, OutcomeLabel::UpstreamError),
                SendErrorKind::Protocol => (Failure::Protocol, OutcomeLabel::UpstreamError),
            };
            return Err(fail(settle, failure, label, &message));
        }
        retries += 1;
        settle.proxy().metrics().retried(label);
        settle.forwarded_again();
    }
}

/// Whether an endpoint says that it does not have the adapter, and what was
/// read of its answer to find that out.
///
/// The status is 404, and from SGLang 400, which can mean much else.
async fn lacks_adapter(
    answer: &mut Answer,
    endpoint: &Endpoint,
    timer: &mut Timer,
) -> Result<(bool, Vec<Bytes>), Stopped> {
    let status = answer.head.status;
    if status != StatusCode::BAD_REQUEST || !endpoint.names_adapters_on_base() {
        return Ok((status == StatusCode::NOT_FOUND, Vec::new()));
    }
    let mut read: Vec<Bytes> = Vec::new();
    while !answer.body.is_end() && read.iter().map(Bytes::len).sum::<usize>() < MAX_REFUSAL {
        let data = poll_fn(|cx| match answer.body.poll_data(cx) {
            Poll::Ready(data) => Poll::Ready(data.transpose().map_err(|e| Stopped::truncated(e.message))),
            Poll::Pending => timer.poll(cx).map(|expired| Err(Stopped::expired(expired))),
        });
        match data.await? {
            Some(data) => read.push(data),
            None => break,
        }
    }
    Ok((memchr::memmem::find(&read.concat(), NOT_LOADED).is_some(), read))
}

/// Settles a failed request and says so to its client. What the engine's
/// error says in detail goes to the log; an address is not the client's business.
fn fail(settle: &mut Settle, failure: Failure, label: OutcomeLabel, message: &str) -> Problem {
    let (status, code, text) = match failure {
        Failure::FirstByteTimeout => {
            (StatusCode::GATEWAY_TIMEOUT, "upstream_timeout", "The model server did not answer in time.")
        }
        Failure::IdleTimeout => {
            (StatusCode::GATEWAY_TIMEOUT, "upstream_timeout", "The model server fell silent in its answer.")
        }
        Failure::TotalTimeout => {
            (StatusCode::GATEWAY_TIMEOUT, "upstream_timeout", "The request took longer than it may.")
        }
        Failure::Connect if label == OutcomeLabel::TimeoutConnect => (
            StatusCode::GATEWAY_TIMEOUT,
            "upstream_timeout",
            "The model server could not be reached in time.",
        ),
        Failure::Connect => {
            (StatusCode::BAD_GATEWAY, "upstream_unreachable", "The model server could not be reached.")
        }
        Failure::Protocol => {
            (StatusCode::BAD_GATEWAY, "upstream_invalid", "The model server's answer was not valid HTTP.")
        }
        _ => (
            StatusCode::BAD_GATEWAY,
            "upstream_closed",
            "The model server closed the connection without an answer.",
        ),
    };
    settle.end(EndKind::Failed(failure), label, status.as_u16(), None, message);
    Problem::upstream(status, code, label, text)
}

/// The request as this endpoint is to get it.
fn request_for(endpoint: &Endpoint, outgoing: &mut Outgoing) -> Box<Request<RequestBody>> {
    let mut request = outgoing.request.take().unwrap_or_default();
    if let Some(naming) = &outgoing.naming {
        *request.body_mut() = RequestBody::new(naming.body(endpoint));
    }
    let path = &outgoing.path;
    let target = if endpoint.upstream.is_h2c() {
        *request.version_mut() = Version::HTTP_2;
        request.headers_mut().remove(header::HOST);
        let host = outgoing.host.as_ref().and_then(|host| host.to_str().ok());
        let authority = host.unwrap_or(&endpoint.authority);
        Uri::try_from(format!("http://{authority}{}{path}", endpoint.path_prefix))
    } else {
        *request.version_mut() = Version::HTTP_11;
        if let Some(host) = outgoing.host.as_ref().or(endpoint.host.as_ref()) {
            request.headers_mut().insert(header::HOST, host.clone());
        }
        if endpoint.path_prefix.is_empty() {
            Uri::try_from(path.as_str())
        } else {
            Uri::try_from(format!("{}{path}", endpoint.path_prefix))
        }
    };
    // Its parts were parts of valid targets, so that the whole is one.
    if let Ok(target) = target {
        *request.uri_mut() = target;
    }
    request
}
