//! The metrics page of an engine with a load feed of its own: counters, sizes
//! and the user's signals. It is read beside the feed, which never waits for it.

use std::sync::Arc;
use std::time::Duration;

use forebay_core::Time;
use forebay_wire::signals::Signals;
use tokio::task::JoinSet;

use super::ask::Asker;
use super::failure::ScrapeFailure;
use super::follow::Loop;
use super::read::figures;
use crate::membership::{Membership, PageKind};

/// From one reading to the next.
const EVERY: Duration = Duration::from_secs(1);

/// After so many failures in a row what the page said is not true any more.
const LOST_AFTER: u32 = 3;

/// What the page said last, and the reading under way.
#[derive(Default)]
pub(super) struct Counters {
    page: Option<Signals>,
    /// Readings that failed since then.
    failures: u32,
    /// When the next is to begin.
    due: Time,
    /// At most one; it ends with this.
    reading: JoinSet<Result<Signals, ScrapeFailure>>,
}

impl Counters {
    /// The page, unless what it said is too old.
    pub(super) fn page(&self) -> Option<&Signals> {
        self.page.as_ref()
    }

    /// Whether the page cannot be read.
    pub(super) fn is_lost(&self) -> bool {
        self.failures >= LOST_AFTER
    }

    /// Another engine may be there: what was said is not its own.
    pub(super) fn forget(&mut self) {
        *self = Counters::default();
    }

    /// The reading under way; without one it never ends.
    pub(super) async fn read(&mut self) -> Result<Signals, ScrapeFailure> {
        match self.reading.join_next().await {
            Some(Ok(result)) => result,
            Some(Err(_)) => Err(ScrapeFailure::Broken),
            None => std::future::pending().await,
        }
    }
}

impl<M: Membership> Loop<M> {
    /// Begins to read the page, where it is time to.
    pub(super) fn begin_counters(&mut self) {
        let now = self.now();
        let Some(engine) = &self.engine else { return };
        let Some(page) = engine.metrics.clone() else { return };
        if !self.counters.reading.is_empty() || now < self.counters.due {
            return;
        }
        let (given, read) = (Arc::clone(&self.given), figures(&engine.reader));
        let failed = self.counters.failures > 0;
        self.counters.due = now + EVERY;
        self.counters.reading.spawn(async move {
            let _place = given.shared.lanes.enter(failed).await;
            let asker = Asker { shared: &given.shared, id: given.target.id, limit: given.target.timeout };
            asker.read(PageKind::Metrics, &page, read).await
        });
    }

    /// The page was read, or not.
    pub(super) async fn take_counters(&mut self, result: Result<Signals, ScrapeFailure>) {
        match result {
            Ok(page) => {
                // It may forget what was known so far.
                let is_new = self.compare(&page).await;
                self.given.past.lock().keep(page.clone(), is_new);
                self.counters.page = Some(page);
                self.counters.failures = 0;
            }
            Err(failure) => {
                self.counters.failures = self.counters.failures.saturating_add(1);
                if self.counters.failures == LOST_AFTER {
                    self.counters.page = None;
                    let target = &self.given.target;
                    let missing: Vec<&str> =
                        target.custom.iter().map(|signal| signal.metric.as_str()).collect();
                    if missing.is_empty() {
                        tracing::info!(url = %target.url, reason = %failure, "its metrics page cannot be read");
                    } else {
                        tracing::warn!(
                            url = %target.url, ?missing, reason = %failure,
                            "signals stay unknown there: its metrics page cannot be read"
                        );
                    }
                }
            }
        }
    }
}
