//! A scripted model server for this crate's tests.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body::Frame;
use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::AbortHandle;

/// What the server does with one request.
pub(crate) enum Reply {
    /// Streams the asked number of tokens and then usage with `cached` of its
    /// prompt tokens; `more` is added to the true token counts.
    Good { cached: u64, more: u64, endpoint: &'static str },
    /// As `Good`, but the first token waits until the flag is set.
    Held(watch::Receiver<bool>),
    /// A whole answer with this status.
    Status(u16, &'static str),
    /// Exactly these events, then a clean end.
    Events(&'static [&'static str]),
    /// One token, and then the connection breaks.
    Cut,
    /// One token, and then nothing more.
    Hang,
}

/// A request as the server saw it.
pub(crate) struct Seen {
    pub(crate) path: String,
    pub(crate) body: Value,
}

pub(crate) struct FakeServer {
    pub(crate) url: String,
    pub(crate) seen: Arc<Mutex<Vec<Seen>>>,
    accept: AbortHandle,
}

impl Drop for FakeServer {
    fn drop(&mut self) {
        self.accept.abort();
    }
}

impl FakeServer {
    /// `script` is asked with the request's number (from 0, without
    /// `/v1/models`) and body.
    pub(crate) async fn start(script: impl Fn(usize, &Value) -> Reply + Send + Sync + 'static) -> FakeServer {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let seen: Arc<Mutex<Vec<Seen>>> = Arc::default();
        let (script, log) = (Arc::new(script), Arc::clone(&seen));
        let accept = tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                stream.set_nodelay(true).unwrap();
                let (script, log) = (Arc::clone(&script), Arc::clone(&log));
                let service =
                    service_fn(move |request| answer(Arc::clone(&script), Arc::clone(&log), request));
                tokio::spawn(async move {
                    let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
                });
            }
        });
        FakeServer { url, seen, accept: accept.abort_handle() }
    }

    /// The bodies of the requests so far.
    pub(crate) fn bodies(&self) -> Vec<Value> {
        self.seen.lock().unwrap().iter().map(|s| s.body.clone()).collect()
    }
}

async fn answer<S: Fn(usize, &Value) -> Reply>(
    script: Arc<S>,
    log: Arc<Mutex<Vec<Seen>>>,
    request: Request<Incoming>,
) -> Result<Response<Steps>, Infallible> {
    let path = request.uri().path().to_owned();
    let bytes = request.into_body().collect().await.unwrap().to_bytes();
    if path == "/v1/models" {
        let models = json!({"object": "list", "data": [{"id": "tide-7b"}, {"id": "other"}]});
        return Ok(Response::new(Steps::whole(models.to_string())));
    }
    let body: Value = serde_json::from_slice(&bytes).unwrap();
    let number = {
        let mut log = log.lock().unwrap();
        log.push(Seen { path: path.clone(), body: body.clone() });
        log.len() - 1
    };
    let chat = path.ends_with("chat/completions");
    let token = || match chat {
        true => json!({"choices": [{"index": 0, "delta": {"content": " tok"}}]}).to_string(),
        false => json!({"choices": [{"index": 0, "text": " tok"}]}).to_string(),
    };
    let stream = |cached: u64, more: u64| {
        let n = body["max_tokens"].as_u64().unwrap();
        let prompt = body["prompt"].as_array().map_or(100, |ids| ids.len() as u64) + more;
        let usage = json!({"choices": [], "usage": {"prompt_tokens": prompt, "completion_tokens": n + more,
            "prompt_tokens_details": {"cached_tokens": cached}}});
        let mut steps: Vec<Step> = (0..n).map(|_| Step::event(&token())).collect();
        steps.extend([Step::event(&usage.to_string()), Step::event("[DONE]")]);
        steps
    };
    let mut response = Response::new(());
    let steps = match script(number, &body) {
        Reply::Good { cached, more, endpoint } => {
            if !endpoint.is_empty() {
                response.headers_mut().insert("x-forebay-endpoint", endpoint.parse().unwrap());
            }
            stream(cached, more)
        }
        Reply::Held(mut flag) => {
            let wait = async move { drop(flag.wait_for(|set| *set).await) };
            let mut steps = vec![Step::data(": held\n\n"), Step::Wait(Box::pin(wait))];
            steps.extend(stream(0, 0));
            steps
        }
        Reply::Status(status, body) => {
            *response.status_mut() = StatusCode::from_u16(status).unwrap();
            vec![Step::data(body)]
        }
        Reply::Events(events) => events.iter().map(|e| Step::event(e)).collect(),
        // The pause lets the head and the token go out first.
        Reply::Cut => vec![Step::event(&token()), Step::Wait(Box::pin(tokio::task::yield_now())), Step::Cut],
        Reply::Hang => vec![Step::event(&token()), Step::Wait(Box::pin(std::future::pending()))],
    };
    Ok(response.map(|()| Steps(steps.into())))
}

enum Step {
    Data(Bytes),
    Wait(Pin<Box<dyn Future<Output = ()> + Send>>),
    Cut,
}

impl Step {
    fn data(text: &str) -> Step {
        Step::Data(Bytes::copy_from_slice(text.as_bytes()))
    }

    fn event(data: &str) -> Step {
        Step::data(&format!("data: {data}\n\n"))
    }
}

struct Steps(VecDeque<Step>);

impl Steps {
    fn whole(text: String) -> Steps {
        Steps(VecDeque::from([Step::Data(Bytes::from(text))]))
    }
}

impl http_body::Body for Steps {
    type Data = Bytes;
    type Error = std::io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, std::io::Error>>> {
        if let Some(Step::Wait(wait)) = self.0.front_mut() {
            ready!(wait.as_mut().poll(cx));
            self.0.pop_front();
        }
        Poll::Ready(self.0.pop_front().map(|step| match step {
            Step::Data(data) => Ok(Frame::data(data)),
            Step::Wait(_) | Step::Cut => Err(std::io::Error::other("cut")),
        }))
    }
}
