//! What one endpoint is asked for: its load, its models, its GPUs.

use std::sync::Arc;
use std::time::Duration;

use forebay_wire::signals::{Signals, read_loads, read_models};
use tokio::time::Instant;

use super::ask::{merged, tells};
use super::failure::ScrapeFailure;
use super::fetch::Page;
use super::follow::Loop;
use super::gpu;
use super::nudge::Look;
use super::past::Began;
use crate::membership::{Membership, PageKind};

/// With a load feed of its own, the metrics page is for counters only.
const COUNTERS_EVERY: Duration = Duration::from_secs(1);

/// More models than this are not told.
const MAX_LISTED: usize = 4096;

impl<M: Membership> Loop<M> {
    /// Reads the load feed where there is one, and the metrics page.
    pub(super) async fn read_load(&mut self) {
        let Some(engine) = self.engine.as_ref() else { return };
        let (loads, metrics) = (engine.loads.clone(), engine.metrics.clone());
        let mut at = Instant::now();
        let mut fed = None;
        let mut failure = None;
        if let Some(page) = loads {
            match self.ask_loads(&page).await {
                Ok(signals) => fed = Some(signals),
                Err(ScrapeFailure::Status(400..=499)) if metrics.is_some() => self.without_loads(),
                Err(why) if !why.answered() => return self.failed(why),
                Err(why) => failure = Some(why),
            }
        }
        let fresh = self.counters.as_ref().is_some_and(|(read, _)| self.now().since(*read) < COUNTERS_EVERY);
        let mut paged = None;
        if let Some(page) = metrics
            && (fed.is_none() || !fresh)
        {
            let asked = Instant::now();
            match self.ask_metrics(&page).await {
                Ok(signals) => {
                    if fed.is_none() {
                        at = asked;
                    }
                    paged = Some(signals);
                }
                Err(why) if fed.is_none() => failure = Some(why),
                // Counters are missed, not the load.
                Err(_) => {
                    let before = self.counters.take().map(|(_, page)| page);
                    self.counters = Some((self.now(), before.unwrap_or_default()));
                }
            }
        }
        if fed.is_none() && paged.is_none() {
            return self.failed(failure.unwrap_or(ScrapeFailure::NotSignals));
        }
        self.take_in(at, fed, paged).await;
    }

    /// Compares what was told with before, and tells the owner.
    async fn take_in(&mut self, at: Instant, fed: Option<Signals>, paged: Option<Signals>) {
        let began = paged.as_ref().map_or(Began::Before, |page| self.given.past.lock().began(page));
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
            && let (Some(expected), Some(page)) = (&self.given.target.model, &paged)
        {
            let (says, verdict) = self.given.past.lock().labels(expected, page);
            self.labels_say = says;
            verdict.into_iter().for_each(|verdict| self.judged(&verdict));
        }
        if let Some(look) = look {
            self.settle_doubt(look);
        }
        let past = Arc::clone(&self.given.past);
        if let Some(page) = &paged {
            let missing = past.lock().missing(&self.given.target.custom, page);
            if !missing.is_empty() {
                let url = &self.given.target.url;
                tracing::warn!(%url, ?missing, "signals stay unknown there: their metrics are not on its page");
            }
        }
        match (fed, paged) {
            (Some(fed), paged) => {
                if let Some(page) = paged {
                    past.lock().keep(page.clone(), is_new);
                    self.counters = Some((self.now(), page));
                }
                let mut signals = match &self.counters {
                    Some((_, page)) => merged(fed, page),
                    None => fed,
                };
                self.add_gpu(&mut signals);
                self.told(at, &signals);
            }
            (None, Some(mut page)) => {
                self.add_gpu(&mut page);
                self.told(at, &page);
                past.lock().keep(page, is_new);
            }
            (None, None) => {}
        }
    }

    async fn ask_loads(&self, page: &Page) -> Result<Signals, ScrapeFailure> {
        let read = |body: &[u8]| read_loads(body).map_err(|_| ScrapeFailure::NotSignals);
        self.asker().read(PageKind::Loads, page, read).await
    }

    async fn ask_metrics(&self, page: &Page) -> Result<Signals, ScrapeFailure> {
        let Some(reader) = self.engine.as_ref().map(|engine| Arc::clone(&engine.reader)) else {
            return Err(ScrapeFailure::Unknown);
        };
        let read = move |body: &[u8]| {
            let signals = reader.read(body);
            if tells(&signals) { Ok(signals) } else { Err(ScrapeFailure::NotSignals) }
        };
        self.asker().read(PageKind::Metrics, page, read).await
    }

    /// This version of the engine has no such feed.
    fn without_loads(&mut self) {
        if let Some(engine) = &mut self.engine {
            engine.loads = None;
        }
        self.counters = None;
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
                self.due.models = self.slow.next(self.now());
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

    fn add_gpu(&self, signals: &mut Signals) {
        if let Some((_, exported)) = self.gpus.now(&self.given) {
            gpu::add(signals, exported);
        }
    }
}
