//! What the fleet tells its owner.

use std::fmt::Debug;
use std::time::Duration;

use forebay_core::EndpointState;
use forebay_metrics::Probe as ProbeLabel;
use forebay_wire::signals::{Dialect, ResidentModel, Signals};
use tokio::time::Instant;

use crate::scrape::ScrapeFailure;
use crate::warm_up::WarmUpEnd;

/// Who wants to know what the fleet finds.
///
/// Every call comes from the fleet's thread and must not block. For one
/// endpoint the calls come in order: a restart or another identity is told
/// before the signals that showed it. All but the first have a body that does
/// nothing.
pub trait Membership: Send + Sync + 'static {
    /// How the owner names an endpoint.
    type Id: Copy + Ord + Debug + Send + Sync + 'static;

    /// The endpoint is `Ready` or `Unready` from now on, or `Starting` again
    /// because its address changed. For one endpoint the calls come in order.
    /// What an operator decided (`Draining`, `Disabled`) is the owner's to
    /// keep above it.
    fn set_state(&self, id: Self::Id, state: EndpointState);

    /// A probe of the endpoint ended, for the metrics.
    fn probed(&self, id: Self::Id, result: ProbeLabel) {
        let _ = (id, result);
    }

    /// How many requests the owner has in flight at the endpoint. An endpoint
    /// with some is asked for its signals often, whatever it said last. Called
    /// every 100 ms for each endpoint without work, so it should be a look-up.
    fn in_flight(&self, id: Self::Id) -> u32 {
        let _ = id;
        0
    }

    /// The endpoint told its load. The request for it was sent at `at`, so the
    /// figures are at most that old; what was sent to the endpoint after `at`
    /// may be missing from them. `signals.gpu` comes from another page and may
    /// be some seconds older.
    fn signals(&self, id: Self::Id, at: Instant, signals: &Signals) {
        let _ = (id, at, signals);
    }

    /// The endpoint's load could not be read; `why` is one of
    /// [`ScrapeFailure::LABELS`]. What it said before is not taken back.
    fn scrape_failed(&self, id: Self::Id, why: &'static str) {
        let _ = (id, why);
    }

    /// The models that the endpoint has now, told whenever they were asked
    /// for, changed or not.
    fn models(&self, id: Self::Id, models: &[ResidentModel]) {
        let _ = (id, models);
    }

    /// The engine began anew: what it held is gone.
    fn restarted(&self, id: Self::Id) {
        let _ = id;
    }

    /// Whether the endpoint serves the model that it should: told when it is
    /// first known and with each change. It is known before the endpoint
    /// becomes ready, where it is both probed and read. Nothing is told of a
    /// target without an expected model.
    fn identity(&self, id: Self::Id, identity: Identity<'_>) {
        let _ = (id, identity);
    }

    /// Which engine answers there: told when it is first found and when it is
    /// another one, only for targets whose dialect was left open.
    fn detected(&self, id: Self::Id, dialect: Dialect) {
        let _ = (id, dialect);
    }

    /// A warm-up that the owner asked for has ended.
    fn warmed(&self, id: Self::Id, end: &WarmUpEnd) {
        let _ = (id, end);
    }

    /// A page of the endpoint was asked for, for the metrics.
    fn scraped(&self, id: Self::Id, scraped: &Scraped) {
        let _ = (id, scraped);
    }
}

/// Whether an endpoint serves the model that it should.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Identity<'a> {
    /// Something else may answer there than before. It is being found out, and
    /// until that is told nothing may be sent there.
    Doubtful,
    /// The expected model is there.
    Matches,
    /// The endpoint answers and does not say which models it has: it is taken
    /// to be what it should be.
    Unlisted,
    /// It serves other models, and not that one: nothing meant for that model
    /// may be sent there.
    Mismatch {
        /// A model that it serves; empty where it only says which it does not.
        found: &'a str,
    },
}

/// One request for one page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scraped {
    /// Which page.
    pub page: PageKind,
    /// What came of it.
    pub result: Result<(), ScrapeFailure>,
    /// From sending the request to having read the page; the wait for a free
    /// place among the requests that run at once is not in it.
    pub took: Duration,
    /// The page's length; 0 when none was read.
    pub bytes: usize,
}

/// The pages that are asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PageKind {
    /// The engine's Prometheus page.
    Metrics,
    /// The engine's load in JSON.
    Loads,
    /// The list of models.
    Models,
    /// The exporter of the node's GPUs.
    Gpu,
    /// A page asked for only to find out which engine answers.
    Detect,
}

impl PageKind {
    /// The name in one word, for metrics.
    pub const fn label(self) -> &'static str {
        match self {
            PageKind::Metrics => "metrics",
            PageKind::Loads => "loads",
            PageKind::Models => "models",
            PageKind::Gpu => "gpu",
            PageKind::Detect => "detect",
        }
    }
}
