//! What one endpoint is asked for: its load, its models, its GPUs.

use std::sync::Arc;
use std::time::Duration;

use forebay_wire::signals::{Reader, Signals, read_loads, read_models};
use tokio::time::Instant;

use super::ask::{merged, tells};
use super::failure::ScrapeFailure;
use super::fetch::Page;
use super::follow::Loop;
use super::gpu;
use super::nudge::Look;
use super::past::Began;
use crate::membership::{Membership, PageKind};

/// An endpoint with another model is looked at again after this, however
/// seldom the others are: it may be right again, and gets nothing until then.
const WRONG_AGAIN: Duration = Duration::from_secs(5);

/// More models than this are not told.
const MAX_LISTED: usize = 4096;

impl<M: Membership> Loop<M> {
    /// Reads the load feed where there is one, or else the metrics page.
    pub(super) async fn read_load(&mut self) {
        let Some(engine) = self.engine.as_ref() else { return };
        let (loads, metrics) = (engine.loads.clone(), engine.metrics.clone());
        let mut failure = ScrapeFailure::NotSignals;
        if let Some(page) = loads {
            let at = Instant::now();
            match self.ask_loads(&page).await {
                Ok(fed) => return self.take_feed(at, fed).await,
                Err(ScrapeFailure::Status(400..=499)) if metrics.is_some() => self.without_loads(),
                Err(why) if !why.answered() => return self.failed(why),
                Err(why) => failure = why,
            }
        }
        let Some(page) = metrics else { return self.failed(failure) };
        let at = Instant::now();
        match self.ask_metrics(&page).await {
            Ok(mut page) => {
                let is_new = self.compare(&page).await;
                self.add_gpu(&mut page);
                self.told(at, &page);
                self.given.past.lock().keep(page, is_new);
            }
            Err(why) => self.failed(why),
        }
    }

    /// The load was told by its own feed. The rest is added from the metrics
    /// page as it was last read: nothing waits for that.
    async fn take_feed(&mut self, at: Instant, fed: Signals) {
        // Whoever comes back may be somebody else: first who, then what.
        if self.pace.is_failing() {
            self.find_out().await;
        }
        self.begin_counters();
        let mut signals = match self.counters.page() {
            Some(page) => merged(fed, page),
            None => fed,
        };
        if self.counters.is_lost() {
            let wanted = self.given.target.custom.len();
            signals.custom_missing.iter_mut().take(wanted).for_each(|missing| *missing = true);
        }
        self.add_gpu(&mut signals);
        self.told(at, &signals);
    }

    /// Compares a metrics page with the one before, and says what that shows.
    /// Gives whether another process told it.
    pub(super) async fn compare(&mut self, page: &Signals) -> bool {
        let began = self.given.past.lock().began(page);
        let is_new = began != Began::Before;
        if began == Began::AsAnother {
            self.doubt();
        }
        if is_new {
            self.restarted("its metrics began anew");
        }
        // Whoever comes back may be somebody else: first who, then what.
        let look = match is_new || self.pace.is_failing() {
            true => Some(self.read_models().await),
            false => None,
        };
        if self.unlisted
            && !self.is_denied()
            && let Some(expected) = &self.given.target.model
        {
            let (says, verdict) = self.given.past.lock().labels(expected, page);
            self.labels_say = says;
            verdict.into_iter().for_each(|verdict| self.judged(&verdict));
        }
        if let Some(look) = look {
            self.settle_doubt(look);
        }
        let missing = self.given.past.lock().missing(&self.given.target.custom, page);
        if !missing.is_empty() {
            let url = &self.given.target.url;
            tracing::warn!(%url, ?missing, "signals stay unknown there: their metrics are not on its page");
        }
        is_new
    }

    async fn ask_loads(&self, page: &Page) -> Result<Signals, ScrapeFailure> {
        let read = |body: &[u8]| read_loads(body).map_err(|_| ScrapeFailure::NotSignals);
        self.asker().read(PageKind::Loads, page, read).await
    }

    pub(super) async fn ask_metrics(&self, page: &Page) -> Result<Signals, ScrapeFailure> {
        let Some(engine) = self.engine.as_ref() else { return Err(ScrapeFailure::Unknown) };
        self.asker().read(PageKind::Metrics, page, figures(&engine.reader)).await
    }

    /// This version of the engine has no such feed.
    fn without_loads(&mut self) {
        if let Some(engine) = &mut self.engine {
            engine.loads = None;
        }
        self.counters.forget();
    }

    /// Reads which models the endpoint has, and says what a list says of the
    /// expected one.
    pub(super) async fn read_models(&mut self) -> Look {
        let Some(engine) = &self.engine else { return Look::Failed };
        let (dialect, listing, page) = (engine.dialect, engine.listing, engine.models.clone());
        let began = self.now();
        self.models_asked = Some(began);
        let read = move |body: &[u8]| read_models(listing, body).map_err(|_| ScrapeFailure::NotSignals);
        match self.asker().read(PageKind::Models, &page, read).await {
            Ok(mut models) => {
                models.truncate(MAX_LISTED);
                self.models_failed = 0;
                self.unlisted = false;
                self.looked = Some(began);
                let expected = self.given.target.model.as_deref();
                let (another, verdict) = self.given.past.lock().list(dialect, expected, &models);
                if another {
                    self.restarted("it lists other models");
                }
                verdict.into_iter().for_each(|verdict| self.judged(&verdict));
                self.end_denial();
                self.membership().models(self.id(), &models);
                let (now, next) = (self.now(), self.slow.next(self.now()));
                let is_wrong = self.given.past.lock().is_wrong();
                self.due.models = if is_wrong { next.min(now + WRONG_AGAIN) } else { next };
                self.told_models();
                Look::Listed
            }
            Err(failure) => {
                self.unlisted = failure.answered();
                self.models_failed = self.models_failed.saturating_add(1);
                // Sooner than usual at first, and then as usual.
                let slow = self.given.target.slow_interval;
                let wait = (slow / 16).saturating_mul(1 << self.models_failed.min(4)).min(slow);
                self.due.models = self.now() + wait;
                tracing::debug!(url = %self.given.target.url, %failure, "its models are not known");
                if failure == ScrapeFailure::Connect {
                    self.given.shared.suspect(self.id());
                }
                self.lost_without_load();
                if failure.is_final() { Look::Unlisted } else { Look::Failed }
            }
        }
    }

    pub(super) fn add_gpu(&self, signals: &mut Signals) {
        if let Some((_, exported)) = self.gpus.now(&self.given) {
            gpu::add(signals, exported);
        }
    }
}

/// Reads a metrics page; one that tells nothing is none.
pub(super) fn figures(reader: &Arc<Reader>) -> impl FnOnce(&[u8]) -> Result<Signals, ScrapeFailure> + use<> {
    let reader = Arc::clone(reader);
    move |body| {
        let signals = reader.read(body);
        if tells(&signals) { Ok(signals) } else { Err(ScrapeFailure::NotSignals) }
    }
}
