//! Sends a recorded trace to a live server.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http::Uri;
use indicatif::ProgressBar;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until, timeout};

use crate::call::{Caller, join, set};
use crate::error::{LoadError, positive};
use crate::live::{Kind, Live};
use crate::models::first_model;
use crate::progress::progress_bar;
use crate::prompt::{PromptForm, Prompts};
use crate::summary::{Finished, Slo};
use crate::tally::Tally;
use crate::trace::{self, Trace, TraceRequest};

#[cfg(test)]
#[path = "replay_tests.rs"]
mod tests;

/// A send that is later than this behind the trace's clock is worth a remark.
const LATE: Duration = Duration::from_millis(500);

/// How to replay a trace.
#[derive(Clone, Debug)]
pub struct ReplayOptions {
    /// The trace's file: Mooncake JSON lines or Azure CSV.
    pub trace: PathBuf,
    /// Only its first so many requests.
    pub limit: Option<usize>,
    /// Where to: `http://host:port`, with or without `/v1`.
    pub url: String,
    /// The model to ask for; none asks the server and takes its first one.
    pub model: Option<String>,
    /// Sent as a bearer token, if any.
    pub api_key: Option<String>,
    /// How much faster than recorded the requests are sent, on the wall clock.
    /// None takes `time_scale`: engines that run ten times faster than life
    /// then get ten times the requests, which is the load that was recorded.
    pub speed: Option<f64>,
    /// How much faster than life the engines run; reported times are wall time
    /// × this. 1 for real engines.
    pub time_scale: f64,
    /// How prompts are written.
    pub prompt: PromptForm,
    /// Token ids are drawn from 256 up to this, at least 512. It must not be
    /// larger than the model's vocabulary.
    pub vocab: u32,
    /// Fixes the prompts. Another seed gives prompts that no cache knows.
    pub seed: u64,
    /// Most requests in flight; none leaves that to the trace, as with real
    /// users. With a limit the load is no longer the trace's when it is
    /// reached; the waiting before a send is not part of any reported time.
    pub max_in_flight: Option<usize>,
    /// Wall time for what is in flight to finish, after `stop`.
    pub grace: Duration,
    /// What goodput is measured by.
    pub slo: Slo,
    /// The gateway's policy, for the summary.
    pub policy: Option<String>,
    /// Show a progress bar, if standard error is a terminal.
    pub progress: bool,
}

impl Default for ReplayOptions {
    fn default() -> ReplayOptions {
        ReplayOptions {
            trace: PathBuf::new(),
            limit: None,
            url: String::new(),
            model: None,
            api_key: None,
            speed: None,
            time_scale: 1.0,
            prompt: PromptForm::Ids,
            vocab: 32_000,
            seed: 1,
            max_in_flight: None,
            grace: Duration::from_secs(60),
            slo: Slo::default(),
            policy: None,
            progress: true,
        }
    }
}

struct Run {
    caller: Caller,
    uri: Uri,
    exact_prompts: bool,
    tally: Mutex<Tally>,
    bar: ProgressBar,
}

/// The token ids of the prompt that [`replay`] sends for the request at `index`
/// of its trace, from 0: for who wants to know what a cache can find in them.
///
/// # Errors
/// Options out of range.
pub fn prompt_ids(
    options: &ReplayOptions,
    index: usize,
    request: &TraceRequest,
) -> Result<Vec<u32>, LoadError> {
    Ok(Prompts::new(options.prompt, options.vocab, options.seed)?.ids(index as u64, request))
}

/// Reads the trace and sends it, each request at its recorded time, as a
/// streamed completion of exactly the recorded lengths; then sums up.
///
/// When `stop` is set (or its sender is gone) nothing more is sent, and what is
/// in flight gets `options.grace` to finish. Must be called on a tokio runtime;
/// its tasks run there.
///
/// # Errors
/// Options out of range, a trace that cannot be read, or a server that does not
/// say which models it has: before anything is sent. Requests that fail are
/// counted, not returned.
pub async fn replay(
    options: ReplayOptions,
    live: Arc<Live>,
    mut stop: watch::Receiver<bool>,
) -> Result<Finished, LoadError> {
    let time_scale = positive("time-scale", options.time_scale)?;
    let speed = positive("speed", options.speed.unwrap_or(time_scale))?;
    let prompts = Prompts::new(options.prompt, options.vocab, options.seed)?;
    let slots = match options.max_in_flight {
        Some(0) => return Err(LoadError::Option { name: "max-in-flight", why: "0 is less than 1".into() }),
        Some(n) => Some(Arc::new(Semaphore::new(n.min(Semaphore::MAX_PERMITS)))),
        None => None,
    };
    let uri = join(&options.url, "/v1/completions")?;
    let (give_up, given_up) = watch::channel(false);
    let caller = Caller::new(Arc::clone(&live), options.api_key.as_deref(), given_up)?;
    let Trace { requests, .. } = trace::read(&options.trace, options.limit)?;
    let model = match options.model {
        Some(model) => model,
        None => first_model(&caller, &options.url).await?,
    };
    let run = Arc::new(Run {
        caller,
        uri,
        exact_prompts: options.prompt == PromptForm::Ids,
        tally: Mutex::new(Tally::new(time_scale, options.slo)),
        bar: progress_bar(options.progress, requests.len()),
    });
    live.begin(time_scale);

    let mut sent = JoinSet::new();
    let mut latest = Duration::ZERO;
    let send_all = async {
        let begin = Instant::now();
        for (i, request) in requests.into_iter().enumerate() {
            // Built before it is due: a long prompt takes a millisecond or two.
            let body = Bytes::from(prompts.body(i as u64, &request, &model));
            let wall = request.arrival.as_secs_f64() / speed;
            let due = Duration::try_from_secs_f64(wall).ok().and_then(|wall| begin.checked_add(wall));
            match due {
                Some(due) => sleep_until(due).await,
                None => std::future::pending().await,
            }
            let slot = match &slots {
                // Never closed.
                Some(slots) => Arc::clone(slots).acquire_owned().await.ok(),
                None => {
                    latest = latest.max(due.map_or(Duration::ZERO, |due| due.elapsed()));
                    None
                }
            };
            sent.spawn(send(Arc::clone(&run), i, request, body, slot));
            while sent.try_join_next().is_some() {}
        }
        while sent.join_next().await.is_some() {}
    };
    let stopped = tokio::select! { biased; () = set(&mut stop) => true, () = send_all => false };
    if stopped && timeout(options.grace, async { while sent.join_next().await.is_some() {} }).await.is_err() {
        give_up.send_replace(true);
        while sent.join_next().await.is_some() {}
    }
    run.bar.finish_and_clear();

    let empty = Tally::new(time_scale, options.slo);
    let tally = std::mem::replace(&mut *run.tally.lock().unwrap_or_else(PoisonError::into_inner), empty);
    let mut finished = tally.finish(options.policy);
    if latest > LATE {
        finished.remarks.push(format!(
            "requests were sent up to {:.1} s late: this machine is too slow for speed {speed}",
            latest.as_secs_f64()
        ));
    }
    Ok(finished)
}

async fn send(
    run: Arc<Run>,
    i: usize,
    request: TraceRequest,
    body: Bytes,
    slot: Option<OwnedSemaphorePermit>,
) {
    let record = run.caller.call(run.uri.clone(), body, false).await;
    drop(slot);
    let label = || format!("request {} of the trace", i + 1);
    let mut tally = run.tally.lock().unwrap_or_else(PoisonError::into_inner);
    tally.add(&record, label);
    let prompt = run.exact_prompts.then_some(u64::from(request.input_tokens));
    tally.compare(&record, prompt, u64::from(request.output_tokens), label);
    drop(tally);
    if record.kind != Kind::Done {
        let view = run.caller.live().view();
        run.bar.set_message(format!("{} failed, {} rejected", view.failed, view.rejected));
    }
    run.bar.inc(1);
}
