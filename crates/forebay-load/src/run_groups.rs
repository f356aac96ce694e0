//! Plays the "groups" workload.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use http::Uri;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until, timeout};

use crate::call::{Caller, join, set};
use crate::chat;
use crate::conversation::system_prompts;
use crate::error::LoadError;
use crate::groups::{GroupsPlan, GroupsTraffic};
use crate::ideal::Ideal;
use crate::live::{Kind, Live};
use crate::models::first_model;
use crate::progress::progress_bar;
use crate::summary::{Finished, Slo};
use crate::tally::Tally;

#[cfg(test)]
#[path = "run_groups_tests.rs"]
mod tests;

/// Width of the windows in which endpoints' shares are counted.
const WINDOW: Duration = Duration::from_secs(10);

/// How to play the "groups" workload.
#[derive(Clone, Debug)]
pub struct GroupsOptions {
    /// Where to: `http://host:port`, with or without `/v1`.
    pub url: String,
    /// The model to ask for; none asks the server and takes its first one.
    pub model: Option<String>,
    /// Sent as a bearer token, if any.
    pub api_key: Option<String>,
    /// What to send.
    pub traffic: GroupsTraffic,
    /// Fixes everything that is drawn.
    pub seed: u64,
    /// Wall time after which no new request is started; none: only the number
    /// of conversations ends it.
    pub duration: Option<Duration>,
    /// Wall time that requests in flight get to finish after that, or after
    /// `stop`. They count; one that is still not done then counts as failed.
    pub grace: Duration,
    /// What goodput is measured by.
    pub slo: Slo,
    /// The gateway's policy, for the summary.
    pub policy: Option<String>,
    /// Endpoints behind the URL, for `busiest_share`; those that answered if
    /// not given, which overlooks one that got nothing.
    pub endpoints: Option<usize>,
    /// Show a progress bar, if standard error is a terminal.
    pub progress: bool,
}

impl Default for GroupsOptions {
    fn default() -> GroupsOptions {
        GroupsOptions {
            url: String::new(),
            model: None,
            api_key: None,
            traffic: GroupsTraffic::default(),
            seed: 1,
            duration: None,
            grace: Duration::from_secs(60),
            slo: Slo::default(),
            policy: None,
            endpoints: None,
            progress: false,
        }
    }
}

struct Run {
    caller: Caller,
    uri: Uri,
    model: String,
    plan: GroupsPlan,
    traffic: GroupsTraffic,
    system_prompts: Vec<String>,
    /// The conversation that begins next.
    next: AtomicU64,
    sums: Mutex<(Tally, Ideal)>,
    bar: indicatif::ProgressBar,
}

/// Plays all conversations, or as many as begin before `options.duration` is
/// over or `stop` is set (or its sender is gone); then sums up.
///
/// The summary has `ideal_prefix_hit`, and `busiest_share` and `windows` where
/// answers name their endpoint. A conversation ends early when one of its
/// requests does not end well. Must be called on a tokio runtime; its tasks run
/// there.
///
/// # Errors
/// Options out of range, or a server that does not say which models it has:
/// before anything is sent. Requests that fail are counted, not returned.
pub async fn run_groups_traffic(
    options: GroupsOptions,
    live: Arc<Live>,
    mut stop: watch::Receiver<bool>,
) -> Result<Finished, LoadError> {
    let traffic = options.traffic;
    let plan = GroupsPlan::new(&traffic, options.seed)?;
    let (give_up, given_up) = watch::channel(false);
    let caller = Caller::new(Arc::clone(&live), options.api_key.as_deref(), given_up)?;
    let uri = join(&options.url, "/v1/chat/completions")?;
    let model = match options.model {
        Some(model) => model,
        None => first_model(&caller, &options.url).await?,
    };
    live.begin(traffic.time_scale);
    let begin = Instant::now();
    let tally = Tally::new(traffic.time_scale, options.slo).with_windows(begin, WINDOW, options.endpoints);
    let turns = traffic.turns as u64;
    let requests = usize::try_from(traffic.conversations.saturating_mul(turns)).unwrap_or(usize::MAX);
    let run = Arc::new(Run {
        caller,
        uri,
        model,
        plan,
        system_prompts: system_prompts(traffic.groups, traffic.system_prompt_bytes, options.seed),
        next: AtomicU64::new(0),
        sums: Mutex::new((tally, Ideal::default())),
        bar: progress_bar(options.progress, requests),
        traffic,
    });

    let (closing, closed) = watch::channel(false);
    let mut loops = JoinSet::new();
    let most = usize::try_from(run.traffic.conversations).unwrap_or(usize::MAX);
    for _ in 0..run.traffic.concurrency.min(most) {
        loops.spawn(keep_conversing(Arc::clone(&run), closed.clone()));
    }
    let end = options.duration.and_then(|d| begin.checked_add(d));
    let over = async {
        match end {
            Some(end) => tokio::select! { () = set(&mut stop) => {}, () = sleep_until(end) => {} },
            None => set(&mut stop).await,
        }
    };
    let ended = tokio::select! {
        () = async { while loops.join_next().await.is_some() {} } => true,
        () = over => false,
    };
    if !ended {
        closing.send_replace(true);
        let finished = async { while loops.join_next().await.is_some() {} };
        if timeout(options.grace, finished).await.is_err() {
            give_up.send_replace(true);
            while loops.join_next().await.is_some() {}
        }
    }
    run.bar.finish_and_clear();

    let empty = (Tally::new(run.traffic.time_scale, options.slo), Ideal::default());
    let sums = std::mem::replace(&mut *run.sums.lock().unwrap_or_else(PoisonError::into_inner), empty);
    let (tally, ideal) = sums;
    let mut finished = tally.finish(options.policy);
    finished.summary.ideal_prefix_hit = ideal.hit();
    Ok(finished)
}

async fn keep_conversing(run: Arc<Run>, closing: watch::Receiver<bool>) {
    loop {
        let index = run.next.fetch_add(1, Ordering::Relaxed);
        if index >= run.traffic.conversations || *closing.borrow() {
            return;
        }
        converse(&run, index, &closing).await;
    }
}

async fn converse(run: &Run, index: u64, closing: &watch::Receiver<bool>) {
    let conversation = run.plan.conversation(index);
    let system = run.system_prompts.get(conversation.group).map_or("", String::as_str);
    let mut answers: Vec<String> = Vec::new();
    for turn in 0..conversation.questions.len() {
        if *closing.borrow() {
            return;
        }
        let questions = &conversation.questions[..=turn];
        let asked = questions.iter().map(String::as_str);
        let body = chat::body(&run.model, system, asked, &answers, run.traffic.answer_tokens);
        let record = run.caller.call(run.uri.clone(), body, true).await;
        {
            let mut sums = run.sums.lock().unwrap_or_else(PoisonError::into_inner);
            let (tally, ideal) = &mut *sums;
            tally.add(&record, || format!("turn {} of conversation {index}", turn + 1));
            if let (Kind::Done, Some(usage)) = (record.kind, record.usage) {
                ideal.add(conversation.group, system, questions, &answers, usage.prompt_tokens);
            }
        }
        run.bar.inc(1);
        if record.kind != Kind::Done {
            return;
        }
        answers.push(record.text);
    }
}
