//! `forebay replay`

use std::io::IsTerminal;
use std::process::ExitCode;
use std::sync::Arc;

use forebay_load::{Finished, Live, ReplayOptions};
use tokio::sync::watch;

use crate::cli::{Failure, ReplayArgs};
use crate::logging;
use crate::signals::Signals;

/// Sends a trace and sums up.
pub(crate) fn run(args: ReplayArgs) -> Result<ExitCode, Failure> {
    logging::start(&forebay_config::Log::default());
    crate::files::raise_limit();
    let json = args.json;
    let options = ReplayOptions {
        limit: args.limit,
        model: args.model,
        api_key: std::env::var("OPENAI_API_KEY").ok(),
        speed: args.speed,
        time_scale: args.time_scale,
        prompt: args.prompt.into(),
        vocab: args.vocab,
        seed: args.seed,
        max_in_flight: args.max_in_flight,
        progress: std::io::stderr().is_terminal(),
        trace: args.trace,
        url: args.url,
        ..ReplayOptions::default()
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(Failure::doing("cannot start"))?;
    runtime.block_on(async {
        let mut signals = Signals::new().map_err(Failure::doing("cannot wait for signals"))?;
        let (stop, stopped) = watch::channel(false);
        let mut replaying = std::pin::pin!(forebay_load::replay(options, Arc::new(Live::default()), stopped));
        let finished = tokio::select! {
            finished = &mut replaying => finished?,
            () = signals.next() => {
                let _ = stop.send(true);
                tokio::select! {
                    finished = replaying => finished?,
                    () = signals.next() => return Err(Failure::Failed("ended at once by a second signal".to_owned())),
                }
            }
        };
        report(&finished, json)
    })
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
