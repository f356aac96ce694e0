//! One streamed request from send to end.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use forebay_core::Usage;
use forebay_net::client::{Body, Client, ClientOptions};
use http::{HeaderMap, Request, StatusCode, Uri, header};
use http_body_util::{BodyExt, Full};
use tokio::sync::watch;
use tokio::time::Instant;

use crate::answer::{AnswerReader, clip};
use crate::error::LoadError;
use crate::live::{Kind, Live};

/// Everything about one request, in wall time.
#[derive(Debug)]
pub(crate) struct Record {
    pub(crate) kind: Kind,
    /// Why it did not end well; empty when it did.
    pub(crate) why: String,
    pub(crate) started: Instant,
    pub(crate) ended: Instant,
    pub(crate) ttft: Option<Duration>,
    /// From the first to the last event with text.
    pub(crate) streaming: Duration,
    /// Output tokens: as stated, or else counted by events.
    pub(crate) tokens: u64,
    pub(crate) usage: Option<Usage>,
    pub(crate) states_cached: bool,
    pub(crate) endpoint: Option<String>,
    pub(crate) text: String,
}

/// Sends requests of one run.
#[derive(Clone)]
pub(crate) struct Caller {
    client: Client,
    live: Arc<Live>,
    authorization: Option<http::HeaderValue>,
    /// Set when the run will wait no longer for what is in flight.
    give_up: watch::Receiver<bool>,
}

/// Resolves when `flag` is set, or nobody is left who could set it.
pub(crate) async fn set(flag: &mut watch::Receiver<bool>) {
    let _ = flag.wait_for(|set| *set).await;
}

impl Caller {
    pub(crate) fn new(
        live: Arc<Live>,
        api_key: Option<&str>,
        give_up: watch::Receiver<bool>,
    ) -> Result<Caller, LoadError> {
        let authorization = match api_key {
            None => None,
            Some(key) => {
                let mut value = http::HeaderValue::from_str(&format!("Bearer {key}")).map_err(|_| {
                    LoadError::Option { name: "api key", why: "it has bytes that no header can have".into() }
                })?;
                value.set_sensitive(true);
                Some(value)
            }
        };
        let options = ClientOptions {
            connect_timeout: Duration::from_secs(5),
            max_idle_per_host: 1_024,
            ..ClientOptions::default()
        };
        Ok(Caller { client: Client::new(options), live, authorization, give_up })
    }

    pub(crate) fn client(&self) -> &Client {
        &self.client
    }

    pub(crate) fn authorization(&self) -> Option<&http::HeaderValue> {
        self.authorization.as_ref()
    }

    pub(crate) fn live(&self) -> &Live {
        &self.live
    }

    /// Sends `body` and reads the answer to its end.
    pub(crate) async fn call(&self, uri: Uri, body: Bytes, keep_text: bool) -> Record {
        let started = Instant::now();
        let in_flight = self.live.sending();
        let mut progress = Progress { reader: AnswerReader::new(keep_text), endpoint: None };
        let mut give_up = self.give_up.clone();
        let result = tokio::select! {
            result = self.exchange(uri, body, started, &mut progress) => result,
            () = set(&mut give_up) => Err("it was not finished when the run ended".into()),
        };
        let ended = Instant::now();
        drop(in_flight);

        let answer = progress.reader.finish(ended);
        let (kind, why) = match result {
            Err(why) => (Kind::Failed, why),
            Ok(Some((status, why))) if matches!(status.as_u16(), 429 | 503) => (Kind::Rejected, why),
            Ok(Some((_, why))) => (Kind::Failed, why),
            Ok(None) => match answer.error {
                Some(why) => (Kind::Failed, why),
                None if !answer.done => (Kind::Failed, "the stream ended without [DONE]".into()),
                None => (Kind::Done, String::new()),
            },
        };
        self.live.ended(kind);
        let tokens = answer.usage.map_or(answer.events, |u| u.completion_tokens);
        self.live.more_tokens(tokens.saturating_sub(answer.events));
        let streaming = match (answer.first, answer.last) {
            (Some(first), Some(last)) => last - first,
            _ => Duration::ZERO,
        };
        Record {
            kind,
            why,
            started,
            ended,
            ttft: answer.first.map(|first| first - started),
            streaming,
            tokens,
            usage: answer.usage,
            states_cached: answer.states_cached,
            endpoint: progress.endpoint,
            text: answer.text,
        }
    }

    /// Gives the status and message of an answer other than 200, if it was one.
    async fn exchange(
        &self,
        uri: Uri,
        body: Bytes,
        started: Instant,
        progress: &mut Progress,
    ) -> Result<Option<(StatusCode, String)>, String> {
        let mut request = Request::new(Full::new(body));
        *request.method_mut() = http::Method::POST;
        *request.uri_mut() = uri;
        let headers = request.headers_mut();
        headers.insert(header::CONTENT_TYPE, http::HeaderValue::from_static("application/json"));
        headers.insert(header::ACCEPT, http::HeaderValue::from_static("text/event-stream"));
        if let Some(value) = &self.authorization {
            headers.insert(header::AUTHORIZATION, value.clone());
        }
        let response = self.client.send(request).await.map_err(|e| e.to_string())?;
        progress.endpoint = endpoint(response.headers());
        let status = response.status();
        let mut body = response.into_body();
        if status != StatusCode::OK {
            return Ok(Some((status, format!("{status}: {}", message(body).await))));
        }
        let mut seen_first = false;
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(|e| e.to_string())?;
            if let Some(data) = frame.data_ref() {
                let now = Instant::now();
                let tokens = progress.reader.feed(data, now);
                if tokens > 0 {
                    self.live.more_tokens(tokens);
                    if !seen_first {
                        seen_first = true;
                        self.live.first_token(now - started);
                    }
                }
            }
        }
        Ok(None)
    }
}

/// What is known of an answer, also when the exchange is given up.
struct Progress {
    reader: AnswerReader,
    endpoint: Option<String>,
}

fn endpoint(headers: &HeaderMap) -> Option<String> {
    Some(headers.get("x-forebay-endpoint")?.to_str().ok()?.to_owned())
}

/// The start of an error body.
async fn message(body: Body) -> String {
    match body.read_whole(64 << 10).await {
        Ok(body) => clip(String::from_utf8_lossy(&body).trim()).to_owned(),
        Err(error) => error.to_string(),
    }
}

/// The full URL of `path` under a base such as `http://host:8000`, with or
/// without `/v1` at its end.
pub(crate) fn join(base: &str, path: &str) -> Result<Uri, LoadError> {
    let trimmed = base.trim_end_matches('/');
    let trimmed = trimmed.strip_suffix("/v1").unwrap_or(trimmed);
    let bad = |why: String| LoadError::Option { name: "url", why: format!("\"{base}\": {why}") };
    let uri: Uri = format!("{trimmed}{path}").parse().map_err(|e| bad(format!("{e}")))?;
    match uri.scheme_str() {
        Some("http") => Ok(uri),
        Some("https") => Err(bad("https is not supported here, use http".into())),
        _ => Err(bad("it must look like http://host:8000".into())),
    }
}
