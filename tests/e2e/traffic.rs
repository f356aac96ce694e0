//! Clients that keep asking, and what became of each of their requests.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use forebay_tests::bodies::{CHAT, events};
use forebay_tests::client::Client;
use forebay_tests::{LIMIT, http1};
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::Instant;

/// One request and its end.
#[derive(Clone, Debug)]
pub struct Answer {
    /// Its number, from 0 in the order of starting.
    pub number: usize,
    pub started: Instant,
    pub ended: Instant,
    /// 0 when there was no answer at all.
    pub status: u16,
    /// All of it came.
    pub complete: bool,
    /// What the gateway names in `x-forebay-endpoint`.
    pub endpoint: String,
    /// As the engine counted them; 0 where it said nothing.
    pub prompt: u64,
    pub cached: u64,
    pub output: u64,
}

impl Answer {
    /// Answered, and wholly.
    pub fn is_good(&self) -> bool {
        self.status == 200 && self.complete
    }
}

/// Asks once, on a connection of its own; whatever happens is an answer.
pub async fn ask(addr: SocketAddr, target: &str, body: &[u8]) -> Answer {
    let started = Instant::now();
    let mut answer = Answer {
        number: 0,
        started,
        ended: started,
        status: 0,
        complete: false,
        endpoint: String::new(),
        prompt: 0,
        cached: 0,
        output: 0,
    };
    let mut client = Client::connect(addr).await;
    if client.try_send(&http1::post(target, body)).await.is_ok()
        && let Ok(head) = client.try_head("POST", LIMIT).await
    {
        let response = client.rest(head).await;
        answer.status = response.status();
        answer.complete = response.is_complete();
        answer.endpoint = response.head.get("x-forebay-endpoint").unwrap_or_default().to_string();
        if let Some(usage) = usage(&response.body) {
            let count = |value: &serde_json::Value| value.as_u64().unwrap_or(0);
            answer.prompt = count(&usage["prompt_tokens"]);
            answer.output = count(&usage["completion_tokens"]);
            answer.cached = count(&usage["prompt_tokens_details"]["cached_tokens"]);
        }
    }
    answer.ended = Instant::now();
    answer
}

/// The usage of an answer, streamed or not.
fn usage(body: &[u8]) -> Option<serde_json::Value> {
    let whole = |text: &[u8]| {
        let value: serde_json::Value = serde_json::from_slice(text).ok()?;
        value.get("usage").filter(|usage| usage.is_object()).cloned()
    };
    whole(body).or_else(|| {
        if !body.starts_with(b"data:") || std::str::from_utf8(body).is_err() {
            return None;
        }
        events(body).iter().rev().find_map(|data| whole(data.as_bytes()))
    })
}

/// A streamed chat with usage: `system` and `question`, so many tokens of answer.
pub fn chat(system: &str, question: &str, tokens: u32) -> Vec<u8> {
    serde_json::json!({
        "model": "tide-7b",
        "messages": [{"role": "system", "content": system}, {"role": "user", "content": question}],
        "stream": true,
        "stream_options": {"include_usage": true},
        "max_tokens": tokens,
        "ignore_eos": true,
    })
    .to_string()
    .into_bytes()
}

/// Text of so many bytes that shares no beginning with that of another `seed`.
pub fn text(seed: u64, bytes: usize) -> String {
    let mut dice = crate::common::Dice(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let mut text = format!("{seed:016x} ");
    while text.len() < bytes {
        text.push_str(
            ["alder ", "brook ", "cliff ", "drift ", "eddy ", "fjord ", "gorge ", "haven "][dice.below(8)],
        );
    }
    text.truncate(bytes);
    text
}

/// Clients that each ask one request after the other until told to stop.
pub struct Traffic {
    stop: watch::Sender<bool>,
    clients: JoinSet<()>,
    answers: Arc<Mutex<Vec<Answer>>>,
}

impl Traffic {
    /// `body` makes the request of a number.
    pub fn start(
        addr: SocketAddr,
        clients: usize,
        body: impl Fn(usize) -> Vec<u8> + Send + Sync + 'static,
    ) -> Traffic {
        Traffic::start_at(addr, clients, move |n| (CHAT, body(n)))
    }

    /// As [`Traffic::start`], to a target that also depends on the number.
    pub fn start_at(
        addr: SocketAddr,
        clients: usize,
        request: impl Fn(usize) -> (&'static str, Vec<u8>) + Send + Sync + 'static,
    ) -> Traffic {
        let (stop, stopped) = watch::channel(false);
        let (request, next) = (Arc::new(request), Arc::new(AtomicUsize::new(0)));
        let answers = Arc::new(Mutex::new(Vec::new()));
        let mut all = JoinSet::new();
        for _ in 0..clients {
            let (request, next) = (Arc::clone(&request), Arc::clone(&next));
            let (answers, stopped) = (Arc::clone(&answers), stopped.clone());
            all.spawn(async move {
                while !*stopped.borrow() {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    let (target, body) = request(number);
                    let answer = Answer { number, ..ask(addr, target, &body).await };
                    answers.lock().push(answer);
                }
            });
        }
        Traffic { stop, clients: all, answers }
    }

    /// What has been answered so far.
    pub fn answers(&self) -> Vec<Answer> {
        self.answers.lock().clone()
    }

    /// How much has been answered so far.
    pub fn count(&self) -> usize {
        self.answers.lock().len()
    }

    /// Starts no more, waits for what is under way, and gives all of it.
    pub async fn stop(mut self) -> Vec<Answer> {
        self.stop.send_replace(true);
        while let Some(ended) = self.clients.join_next().await {
            ended.unwrap();
        }
        std::mem::take(&mut self.answers.lock())
    }
}

/// Sends requests 0 to `n` with so many clients at a time and waits for all.
pub async fn send(
    addr: SocketAddr,
    n: usize,
    clients: usize,
    request: impl Fn(usize) -> (&'static str, Vec<u8>) + Send + Sync + 'static,
) -> Vec<Answer> {
    let (request, next) = (Arc::new(request), Arc::new(AtomicUsize::new(0)));
    let mut all = JoinSet::new();
    for _ in 0..clients.min(n) {
        let (request, next) = (Arc::clone(&request), Arc::clone(&next));
        all.spawn(async move {
            let mut answers = Vec::new();
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                if number >= n {
                    return answers;
                }
                let (target, body) = request(number);
                answers.push(Answer { number, ..ask(addr, target, &body).await });
            }
        });
    }
    all.join_all().await.concat()
}

/// Cached over prompt tokens.
pub fn hit<'a>(answers: impl IntoIterator<Item = &'a Answer>) -> f64 {
    let (mut prompt, mut cached) = (0, 0);
    for answer in answers {
        prompt += answer.prompt;
        cached += answer.cached;
    }
    cached as f64 / (prompt as f64).max(1.0)
}
