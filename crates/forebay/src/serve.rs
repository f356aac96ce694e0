//! `forebay serve`

use std::process::ExitCode;

use crate::check::load;
use crate::cli::{ConfigArgs, Failure};
use crate::gateway::{Drained, Gateway};
use crate::signals::Signals;
use crate::{listening, logging};

/// Runs the gateway until it is told to end.
pub(crate) fn run(options: &ConfigArgs) -> Result<ExitCode, Failure> {
    let config = load(&options.config)?;
    logging::start(&config.log);
    crate::files::raise_limit();
    for lint in forebay_config::warnings(&config) {
        tracing::warn!("{lint}");
    }
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(Failure::doing("cannot start"))?;
    runtime.block_on(async {
        let mut signals = Signals::new().map_err(Failure::doing("cannot wait for signals"))?;
        let file = options.config.display().to_string();
        let mut gateway = Gateway::start(config, Some(file), None)?;
        gateway.serve_admin()?;
        tracing::info!(listen = ?gateway.listen(), admin = %gateway.admin(), "listening");
        listening::gateway(gateway.listen(), gateway.admin());
        signals.next().await;
        let left = gateway.proxy().requests_in_flight();
        tracing::info!(requests = left, "draining; a second signal ends at once");
        let code = tokio::select! {
            drained = gateway.drain() => match drained {
                Drained::Whole => {
                    tracing::info!("drained");
                    ExitCode::SUCCESS
                }
                Drained::Cut { requests, connections } => {
                    tracing::warn!(requests, connections, "drain.limit reached; what was left is cut");
                    ExitCode::FAILURE
                }
            },
            () = signals.next() => {
                tracing::warn!("second signal: ending at once");
                ExitCode::FAILURE
            }
        };
        // The workers may still hold streams; ending the process ends them.
        std::process::exit(i32::from(code != ExitCode::SUCCESS));
    })
}
