//! Structured logs on standard error.

use std::io::IsTerminal;

use forebay_config::{Log, LogFormat};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

/// Starts logging as configured; the environment variable `FOREBAY_LOG` wins
/// (`forebay=debug`). Only Forebay's own messages are logged: a library's
/// might hold what must not be written down.
pub(crate) fn start(log: &Log) {
    let level = log.level.as_str();
    let wanted = std::env::var("FOREBAY_LOG").ok();
    let crates = [
        "forebay",
        "forebay_proxy",
        "forebay_net",
        "forebay_fleet",
        "forebay_admin",
        "forebay_engine",
        "forebay_load",
        "forebay_live",
    ];
    let own = crates.map(|name| format!("{name}={level}")).join(",");
    let filter = EnvFilter::try_new(wanted.unwrap_or_else(|| format!("off,{own}")))
        .unwrap_or_else(|_| EnvFilter::new(format!("off,{own}")));
    let base = tracing_subscriber::registry().with(filter);
    let colour = std::io::stderr().is_terminal();
    // A second start in one process keeps the first.
    let _ = match log.format {
        LogFormat::Json => base
            .with(tracing_subscriber::fmt::layer().json().flatten_event(true).with_writer(std::io::stderr))
            .try_init(),
        LogFormat::Text => base
            .with(
                tracing_subscriber::fmt::layer()
                    .with_ansi(colour)
                    .with_target(false)
                    .with_writer(std::io::stderr),
            )
            .try_init(),
    };
}
