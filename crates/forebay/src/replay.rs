//! `forebay replay`

use std::io::IsTerminal;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use forebay_load::{Finished, GroupsOptions, GroupsTraffic, Live, LoadError, ReplayOptions};
use tokio::sync::watch;

use crate::cli::{Failure, ReplayArgs};
use crate::logging;
use crate::signals::Signals;

/// Sends a trace or a workload and sums up.
pub(crate) fn run(args: ReplayArgs) -> Result<ExitCode, Failure> {
    logging::start(&forebay_config::Log::default());
    crate::files::raise_limit();
    let json = args.json;
    let progress = std::io::stderr().is_terminal();
    let api_key = std::env::var("OPENAI_API_KEY").ok();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(Failure::doing("cannot start"))?;
    runtime.block_on(async {
        let (stop, stopped) = watch::channel(false);
        let live = Arc::new(Live::default());
        let finished = match args.trace {
            Some(trace) => {
                let options = ReplayOptions {
                    trace,
                    limit: args.limit,
                    url: args.url,
                    model: args.model,
                    api_key,
                    speed: args.speed,
                    time_scale: args.time_scale,
                    prompt: args.prompt.into(),
                    vocab: args.vocab,
                    seed: args.seed,
                    max_in_flight: args.max_in_flight,
                    progress,
                    ..ReplayOptions::default()
                };
                until_done(forebay_load::replay(options, live, stopped), &stop).await?
            }
            None => {
                let usual = GroupsTraffic::default();
                let traffic = GroupsTraffic {
                    groups: args.groups.unwrap_or(usual.groups),
                    conversations: args.conversations.unwrap_or(usual.conversations),
                    concurrency: args.max_in_flight.unwrap_or(usual.concurrency),
                    time_scale: args.time_scale,
                    ..usual
                };
                let options = GroupsOptions {
                    url: args.url,
                    model: args.model,
                    api_key,
                    traffic,
                    seed: args.seed,
                    duration: args.seconds.map(seconds).transpose()?,
                    endpoints: args.endpoints,
                    progress,
                    ..GroupsOptions::default()
                };
                until_done(forebay_load::run_groups_traffic(options, live, stopped), &stop).await?
            }
        };
        report(&finished, json)
    })
}

fn seconds(s: f64) -> Result<Duration, Failure> {
    Duration::try_from_secs_f64(s)
        .ok()
        .filter(|d| !d.is_zero())
        .ok_or_else(|| Failure::Usage(format!("--seconds: {s} is not a number above 0")))
}

/// Waits for a run's end; a first signal asks it to stop, a second one ends it.
async fn until_done(
    run: impl Future<Output = Result<Finished, LoadError>>,
    stop: &watch::Sender<bool>,
) -> Result<Finished, Failure> {
    let mut signals = Signals::new().map_err(Failure::doing("cannot wait for signals"))?;
    let mut run = std::pin::pin!(run);
    tokio::select! {
        finished = &mut run => return Ok(finished?),
        () = signals.next() => {}
    }
    let _ = stop.send(true);
    tokio::select! {
        finished = run => Ok(finished?),
        () = signals.next() => Err(Failure::Failed("ended at once by a second signal".to_owned())),
    }
}

/// Prints a summary; the exit status says whether every request was answered rightly.
pub(crate) fn report(finished: &Finished, json: bool) -> Result<ExitCode, Failure> {
    let summary = &finished.summary;
    if json {
        let text = serde_json::to_string(summary).map_err(Failure::doing("cannot write the summary"))?;
        println!("{text}");
        for remark in &finished.remarks {
            eprintln!("{remark}");
        }
    } else {
        println!("{finished}");
    }
    let wrong = summary.failed + summary.token_mismatches.unwrap_or(0);
    Ok(if wrong == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
