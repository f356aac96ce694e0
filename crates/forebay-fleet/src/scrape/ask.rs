//! Asking for one page, with all that is told about it.

use std::future::Future;
use std::time::Duration;

use forebay_wire::signals::Signals;
use tokio::time::Instant;

use super::detect::Ask;
use super::failure::ScrapeFailure;
use super::fetch::Page;
use super::scrapers::Shared;
use crate::membership::{Membership, PageKind, Scraped};

/// Asks one endpoint.
pub(crate) struct Asker<'a, M: Membership> {
    pub(crate) shared: &'a Shared<M>,
    pub(crate) id: M::Id,
    pub(crate) limit: Duration,
}

impl<M: Membership> Asker<'_, M> {
    /// Fetches the page and hands it to `read`, whose failure is the page's.
    pub(crate) async fn read<T>(
        &self,
        kind: PageKind,
        page: &Page,
        read: impl FnOnce(&[u8]) -> Result<T, ScrapeFailure>,
    ) -> Result<T, ScrapeFailure> {
        let started = Instant::now();
        let fetched = self.shared.pages.fetch(page, self.limit, |body| (body.len(), read(body))).await;
        let (bytes, result) = match fetched {
            Ok((bytes, result)) => (bytes, result),
            Err(failure) => (0, Err(failure)),
        };
        let told = result.as_ref().map(drop).map_err(|failure| *failure);
        let scraped = Scraped { page: kind, result: told, took: started.elapsed(), bytes };
        self.shared.membership.scraped(self.id, &scraped);
        result
    }
}

impl<M: Membership> Ask for Asker<'_, M> {
    fn ask<T: Send>(
        &self,
        page: &Page,
        read: impl FnOnce(&[u8]) -> T + Send,
    ) -> impl Future<Output = Result<T, ScrapeFailure>> + Send {
        self.read(PageKind::Detect, page, |body| Ok(read(body)))
    }
}

/// Whether the endpoint says that it has work.
pub(crate) fn is_busy(signals: &Signals) -> bool {
    signals.running.is_some_and(|n| n > 0)
        || signals.waiting.is_some_and(|n| n > 0)
        || signals.waiting_tokens.is_some_and(|n| n > 0)
}

/// Whether a page told anything of an engine, be it nonsense. What every
/// program's page has, as the time at which it started, does not count.
pub(crate) fn tells(signals: &Signals) -> bool {
    let Signals { running, waiting, kv_usage, kv_blocks, asleep, custom, skipped, counters, .. } = signals;
    running.is_some()
        || waiting.is_some()
        || kv_usage.is_some()
        || kv_blocks.is_some()
        || asleep.is_some()
        || custom.iter().any(Option::is_some)
        || *skipped > 0
        || *counters != Default::default()
}

/// What a load feed tells, with the rest from the metrics page.
pub(crate) fn merged(feed: Signals, page: &Signals) -> Signals {
    Signals {
        running: feed.running.or(page.running),
        waiting: feed.waiting.or(page.waiting),
        kv_usage: feed.kv_usage.or(page.kv_usage),
        kv_block_size: feed.kv_block_size.or(page.kv_block_size),
        kv_blocks: feed.kv_blocks.or(page.kv_blocks),
        waiting_tokens: feed.waiting_tokens.or(page.waiting_tokens),
        running_tokens: feed.running_tokens.or(page.running_tokens),
        generation_throughput: feed.generation_throughput.or(page.generation_throughput),
        max_running: feed.max_running.or(page.max_running),
        asleep: feed.asleep.or(page.asleep),
        accelerator: feed.accelerator.or_else(|| page.accelerator.clone()),
        adapters: feed.adapters.or_else(|| page.adapters.clone()),
        skipped: feed.skipped.saturating_add(page.skipped),
        ..page.clone()
    }
}
