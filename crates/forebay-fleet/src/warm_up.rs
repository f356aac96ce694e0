//! Warm-up: small inferences that the gateway itself sends to an endpoint
//! before others may, because an engine compiles and fills its tables with the
//! first ones. It is a kindness and not a test: an endpoint that does not
//! answer them gets in nevertheless, when the time limit is over.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use bytes::Bytes;
use forebay_config::Secret;
use forebay_net::client::{Client, ClientError, ClientOptions, fetch_h2c, json_post};
use http::StatusCode;
use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::task::{AbortHandle, JoinSet};

use crate::key;
use crate::membership::Membership;

/// What one endpoint is sent.
#[derive(Clone, Debug, PartialEq)]
pub struct WarmUpPlan {
    /// Where it is: `http://`, host and port, perhaps a path that every request has in front.
    pub url: String,
    /// The model as the engine names it.
    pub model: String,
    /// How many inferences must be answered.
    pub requests: u32,
    /// How many at once; at least 1.
    pub concurrency: u32,
    /// Whether the endpoint is asked in HTTP/2 with prior knowledge.
    pub h2c: bool,
    /// What the engine wants to be shown by whoever asks.
    pub key: Option<Secret>,
    /// The longest wait for one answer.
    pub request_limit: Duration,
    /// The longest time for everything together.
    pub limit: Duration,
}

impl WarmUpPlan {
    /// So many inferences one after the other, a minute for each at most and
    /// two for all of them.
    pub fn new(url: impl Into<String>, model: impl Into<String>, requests: u32) -> WarmUpPlan {
        WarmUpPlan {
            url: url.into(),
            model: model.into(),
            requests,
            concurrency: 1,
            h2c: false,
            key: None,
            request_limit: Duration::from_secs(60),
            limit: Duration::from_secs(120),
        }
    }
}

/// How a warm-up ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WarmUpEnd {
    /// Every inference was answered.
    Warm,
    /// It was given up: the time limit is over, or the endpoint takes no such
    /// requests.
    GivenUp {
        /// How many were answered.
        answered: u32,
        /// The last failure.
        why: String,
    },
}

/// Where an inference can be asked for. An endpoint that does not know the one
/// is asked at the other.
const PATHS: [&str; 2] = ["/v1/completions", "/v1/chat/completions"];
/// So many answers in a row that say "not like this" end a warm-up: waiting
/// longer would not help.
const REFUSALS: usize = 8;
/// Between two tries after a failure, doubled each time.
const PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);
/// Answers are thrown away; a longer one was still an answer.
const MAX_ANSWER: usize = 256 << 10;

/// The warm-ups that run. They end with the fleet.
pub struct WarmUps<M: Membership> {
    membership: Arc<M>,
    handle: Handle,
    client: Client,
    running: Mutex<BTreeMap<M::Id, AbortHandle>>,
}

impl<M: Membership> WarmUps<M> {
    pub(crate) fn new(membership: Arc<M>, handle: Handle) -> WarmUps<M> {
        let client = Client::new(ClientOptions::default());
        WarmUps { membership, handle, client, running: Mutex::default() }
    }

    /// Sends the endpoint inferences of our own; [`Membership::warmed`] is told
    /// of their end. A warm-up that already runs for it is given up.
    pub fn begin(self: &Arc<Self>, id: M::Id, plan: WarmUpPlan) {
        let all = Arc::clone(self);
        // Held until it is in the map, where it looks for itself at its end.
        let mut running = self.running.lock();
        let task = self.handle.spawn(async move {
            let run = Arc::new(Run::new(plan, all.client.clone()));
            let end = Arc::clone(&run).warm().await;
            let still_wanted = {
                let mut running = all.running.lock();
                let own = running.get(&id).is_some_and(|task| task.id() == tokio::task::id());
                own && running.remove(&id).is_some()
            };
            if still_wanted {
                all.membership.warmed(id, &end);
            }
        });
        if let Some(before) = running.insert(id, task.abort_handle()) {
            before.abort();
        }
    }

    /// Gives the endpoint's warm-up up; nothing is told of it any more, except
    /// what is just being told on the fleet's thread.
    pub fn stop(&self, id: M::Id) {
        if let Some(task) = self.running.lock().remove(&id) {
            task.abort();
        }
    }
}

/// One warm-up.
struct Run {
    plan: WarmUpPlan,
    client: Client,
    /// Inferences that nobody has asked for yet.
    left: AtomicU32,
    answered: AtomicU32,
    /// Which path the next is asked at.
    path: AtomicUsize,
    refusals: AtomicUsize,
    failure: Mutex<String>,
}

/// Why an inference was not answered.
enum Failure {
    /// It may be, later.
    Passing(String),
    /// It will not be, at this path.
    Refused(String),
}

impl Run {
    fn new(plan: WarmUpPlan, client: Client) -> Run {
        Run {
            left: AtomicU32::new(plan.requests),
            answered: AtomicU32::new(0),
            path: AtomicUsize::new(0),
            refusals: AtomicUsize::new(0),
            failure: Mutex::new("no answer in time".to_owned()),
            plan,
            client,
        }
    }

    async fn warm(self: Arc<Self>) -> WarmUpEnd {
        // Dropped with the tasks when the time is over.
        let mut tasks = JoinSet::new();
        for _ in 0..self.plan.concurrency.clamp(1, self.plan.requests.max(1)) {
            tasks.spawn(Arc::clone(&self).ask_all());
        }
        let all = async { while tasks.join_next().await.is_some() {} };
        let _ = tokio::time::timeout(self.plan.limit, all).await;
        let answered = self.answered.load(Relaxed);
        if answered >= self.plan.requests {
            return WarmUpEnd::Warm;
        }
        WarmUpEnd::GivenUp { answered, why: self.failure.lock().clone() }
    }

    /// Asks for one inference after the other until none is left.
    async fn ask_all(self: Arc<Self>) {
        let mut pause = PAUSE;
        while self.take() {
            let Err(failure) = self.ask().await else {
                self.answered.fetch_add(1, Relaxed);
                self.refusals.store(0, Relaxed);
                pause = PAUSE;
                continue;
            };
            self.left.fetch_add(1, Relaxed);
            let why = match failure {
                Failure::Passing(why) => why,
                Failure::Refused(why) => {
                    self.refusals.fetch_add(1, Relaxed);
                    why
                }
            };
            tracing::debug!(url = %self.plan.url, why, "a warm-up request failed");
            *self.failure.lock() = why;
            if self.refusals.load(Relaxed) >= REFUSALS {
                return;
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    fn take(&self) -> bool {
        self.left.fetch_update(Relaxed, Relaxed, |left| left.checked_sub(1)).is_ok()
    }

    async fn ask(&self) -> Result<(), Failure> {
        let at = self.path.load(Relaxed) % PATHS.len();
        let url = format!("{}{}", self.plan.url.trim_end_matches('/'), PATHS[at]);
        let body = body(at, &self.plan.model);
        let limit = self.plan.request_limit;
        let mut request = json_post(body);
        *request.uri_mut() = url.parse().map_err(|_| Failure::Refused(format!("{url} cannot be used")))?;
        key::show(&mut request, self.plan.key.as_ref());
        let answer = match self.plan.h2c {
            true => fetch_h2c(request, limit, MAX_ANSWER).await,
            false => self.client.fetch(request, limit, MAX_ANSWER).await,
        };
        let status = match answer {
            Ok((status, _, _)) => status,
            Err(ClientError::BodyTooLong { .. }) => return Ok(()),
            Err(error) => return Err(Failure::Passing(error.to_string())),
        };
        let why = format!("{} answered {status}", PATHS[at]);
        match status {
            status if status.is_success() => Ok(()),
            StatusCode::NOT_FOUND | StatusCode::METHOD_NOT_ALLOWED | StatusCode::NOT_IMPLEMENTED => {
                // The other path, unless one of the others has moved on already.
                let _ = self.path.compare_exchange(at, (at + 1) % PATHS.len(), Relaxed, Relaxed);
                Err(Failure::Refused(why))
            }
            StatusCode::REQUEST_TIMEOUT | StatusCode::TOO_EARLY | StatusCode::TOO_MANY_REQUESTS => {
                Err(Failure::Passing(why))
            }
            status if status.is_client_error() => Err(Failure::Refused(why)),
            _ => Err(Failure::Passing(why)),
        }
    }
}

/// A request for a few tokens.
fn body(path: usize, model: &str) -> Bytes {
    const TEXT: &str = "warm up";
    let body = match path {
        0 => serde_json::json!({"model": model, "prompt": TEXT, "max_tokens": 8}),
        _ => {
            let messages = [serde_json::json!({"role": "user", "content": TEXT})];
            serde_json::json!({"model": model, "messages": messages, "max_tokens": 8})
        }
    };
    Bytes::from(body.to_string())
}
