//! Plays the demo's conversations.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use http::Uri;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, sleep_until, timeout};

use crate::call::{Caller, join, set};
use crate::chat;
use crate::conversation::{Conversation, Schedule, system_prompts};
use crate::error::LoadError;
use crate::live::{Kind, Live};
use crate::summary::{Finished, Slo};
use crate::tally::Tally;
use crate::traffic::DemoTraffic;

#[cfg(test)]
#[path = "demo_tests.rs"]
mod tests;

/// How to play the demo's traffic.
#[derive(Clone, Debug)]
pub struct DemoOptions {
    /// Where to: `http://host:port`, with or without `/v1`.
    pub url: String,
    /// The model to ask for.
    pub model: String,
    /// What to send.
    pub traffic: DemoTraffic,
    /// Fixes everything that is drawn.
    pub seed: u64,
    /// Wall time after which no new request is started; none: until told.
    pub duration: Option<Duration>,
    /// Wall time that requests in flight get to finish after that. They count;
    /// one that is still not done then counts as failed.
    pub grace: Duration,
    /// What goodput is measured by.
    pub slo: Slo,
    /// The gateway's policy, for the summary.
    pub policy: Option<String>,
}

impl Default for DemoOptions {
    fn default() -> DemoOptions {
        DemoOptions {
            url: String::new(),
            model: String::new(),
            traffic: DemoTraffic::default(),
            seed: 1,
            duration: None,
            grace: Duration::from_secs(60),
            slo: Slo::default(),
            policy: None,
        }
    }
}

struct Run {
    caller: Caller,
    uri: Uri,
    model: String,
    traffic: DemoTraffic,
    system_prompts: Vec<String>,
    tally: Mutex<Tally>,
}

/// Plays conversations until `stop` is set (or its sender is gone), or
/// `options.duration` is over; then starts no new turn, waits for those in
/// flight, and sums up.
///
/// A conversation ends early when one of its requests does not end well, as
/// there is no answer to go on from. `live` shows the run as it goes. Must be
/// called on a tokio runtime; its tasks run there.
///
/// # Errors
/// Options out of range, before anything is sent. Requests that fail are
/// counted, not returned.
pub async fn run_demo_traffic(
    options: DemoOptions,
    live: Arc<Live>,
    stop: watch::Receiver<bool>,
) -> Result<Finished, LoadError> {
    let schedule = Schedule::new(&options.traffic, options.seed)?;
    let (give_up, given_up) = watch::channel(false);
    let run = Arc::new(Run {
        caller: Caller::new(Arc::clone(&live), None, given_up)?,
        uri: join(&options.url, "/v1/chat/completions")?,
        model: options.model,
        system_prompts: system_prompts(
            options.traffic.system_prompts,
            options.traffic.system_prompt_bytes,
            options.seed,
        ),
        tally: Mutex::new(Tally::new(options.traffic.time_scale, options.slo)),
        traffic: options.traffic,
    });
    live.begin(run.traffic.time_scale);

    let begin = Instant::now();
    let end = options.duration.and_then(|d| begin.checked_add(d));
    let (closing, closed) = watch::channel(false);
    let over = async {
        let mut stop = stop;
        match end {
            Some(end) => tokio::select! { () = set(&mut stop) => {}, () = sleep_until(end) => {} },
            None => set(&mut stop).await,
        }
    };
    let mut conversations = JoinSet::new();
    let start_all = async {
        for conversation in schedule {
            match begin.checked_add(run.traffic.wall(conversation.start)) {
                Some(at) => sleep_until(at).await,
                None => std::future::pending().await,
            }
            conversations.spawn(converse(Arc::clone(&run), conversation, closed.clone()));
            while conversations.try_join_next().is_some() {}
        }
    };
    tokio::select! { biased; () = over => {}, () = start_all => {} }

    closing.send_replace(true);
    let finished = async { while conversations.join_next().await.is_some() {} };
    if timeout(options.grace, finished).await.is_err() {
        give_up.send_replace(true);
        while conversations.join_next().await.is_some() {}
    }
    let tally = Tally::new(run.traffic.time_scale, options.slo);
    let tally = std::mem::replace(&mut *run.tally.lock().unwrap_or_else(PoisonError::into_inner), tally);
    Ok(tally.finish(options.policy))
}

async fn converse(run: Arc<Run>, conversation: Conversation, mut closing: watch::Receiver<bool>) {
    let system = run.system_prompts.get(conversation.system_prompt).map_or("", String::as_str);
    let mut answers: Vec<String> = Vec::new();
    for (i, turn) in conversation.turns.iter().enumerate() {
        tokio::select! {
            biased;
            () = set(&mut closing) => return,
            () = think(run.traffic.wall(turn.think)) => {}
        }
        let questions = conversation.turns.iter().take(i + 1).map(|turn| turn.question.as_str());
        let body = chat::body(&run.model, system, questions, &answers, turn.answer_tokens);
        let record = run.caller.call(run.uri.clone(), body, true).await;
        run.tally
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .add(&record, || format!("turn {} of conversation {}", i + 1, conversation.index));
        if record.kind != Kind::Done {
            return;
        }
        answers.push(record.text);
    }
}

async fn think(wall: Duration) {
    // Even a zero sleep waits for the timer's next tick.
    if !wall.is_zero() {
        sleep(wall).await;
    }
}
