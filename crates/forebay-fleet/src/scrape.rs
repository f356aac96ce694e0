//! Scraping: what each endpoint tells of its load, its models and itself.
//!
//! One loop for each endpoint, on the fleet's thread. It asks one page after
//! the other over a connection that is kept, often while the endpoint is busy
//! and seldom while it is idle or fails.

mod ask;
mod counters;
mod detect;
mod engine;
mod failure;
mod fetch;
mod follow;
mod gpu;
mod lanes;
mod nudge;
mod pace;
mod past;
mod read;
mod scrapers;
mod verify;

use std::time::Duration;

use forebay_config::Secret;
use forebay_wire::signals::{CustomSignal, Dialect};

pub use failure::ScrapeFailure;
pub(crate) use nudge::Look;
pub(crate) use scrapers::Scrapers;

/// One endpoint to read signals from.
#[derive(Clone, Debug, PartialEq)]
pub struct ScrapeTarget<Id> {
    /// How the owner names it.
    pub id: Id,
    /// Where it is: `http://`, host and port, perhaps a path that every request has in front.
    pub url: String,
    /// How the engine there tells its load; none to find it out.
    pub dialect: Option<Dialect>,
    /// What the engine wants to be shown by whoever asks. Only the endpoint itself
    /// sees it: no exporter, and no other port of its host.
    pub key: Option<Secret>,
    /// The model that it should serve, as the engine names it; none when that is not to be judged.
    pub model: Option<String>,
    /// Metrics of the user's choice, in addition.
    pub custom: Vec<CustomSignal>,
    /// The Prometheus page, where it is not at the engine's usual place.
    pub metrics_url: Option<String>,
    /// The page of NVIDIA's DCGM exporter on the endpoint's node.
    pub dcgm_url: Option<String>,
    /// The endpoint's GPUs on that page, by index or UUID; all when empty.
    pub gpus: Vec<String>,
    /// Between the requests for the load of an endpoint with work. At least 10 ms.
    pub interval_min: Duration,
    /// The same without work or without an answer.
    pub interval_max: Duration,
    /// Between the requests for what changes seldom: models and GPUs.
    pub slow_interval: Duration,
    /// Longest wait for one whole page.
    pub timeout: Duration,
    /// Whether the endpoint is asked in HTTP/2 with prior knowledge.
    pub h2c: bool,
}

impl<Id> ScrapeTarget<Id> {
    /// The endpoint at `url`, everything else as usual: any engine, asked
    /// every 100 ms while busy and up to every 5 s otherwise, for its models
    /// every 10 s, with a limit of 2 s for each page.
    pub fn new(id: Id, url: impl Into<String>) -> ScrapeTarget<Id> {
        ScrapeTarget {
            id,
            url: url.into(),
            dialect: None,
            key: None,
            model: None,
            custom: Vec::new(),
            metrics_url: None,
            dcgm_url: None,
            gpus: Vec::new(),
            interval_min: Duration::from_millis(100),
            interval_max: Duration::from_secs(5),
            slow_interval: Duration::from_secs(10),
            timeout: Duration::from_secs(2),
            h2c: false,
        }
    }
}
