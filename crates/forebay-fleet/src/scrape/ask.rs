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

/// What a load feed tells, with the rest from the metrics page. Every field is
/// named, so that none is forgotten when one is added.
pub(crate) fn merged(feed: Signals, page: &Signals) -> Signals {
    Signals {
        running: feed.running.or(page.running),
        waiting: feed.waiting.or(page.waiting),
        kv_usage: feed.kv_usage.or(page.kv_usage),
        kv_block_size: feed.kv_block_size.or(page.kv_block_size),
        kv_blocks: feed.kv_blocks.or(page.kv_blocks),
        kv_tokens: feed.kv_tokens.or(page.kv_tokens),
        waiting_tokens: feed.waiting_tokens.or(page.waiting_tokens),
        running_tokens: feed.running_tokens.or(page.running_tokens),
        generation_throughput: feed.generation_throughput.or(page.generation_throughput),
        max_running: feed.max_running.or(page.max_running),
        put_back: feed.put_back.or(page.put_back),
        asleep: feed.asleep.or(page.asleep),
        accelerator: feed.accelerator.or_else(|| page.accelerator.clone()),
        adapters: feed.adapters.or_else(|| page.adapters.clone()),
        skipped: feed.skipped.saturating_add(page.skipped),
        // No feed has these.
        counters: page.counters,
        process_start: page.process_start,
        gpu: page.gpu,
        custom: page.custom,
        custom_missing: page.custom_missing,
        models: page.models.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_feeds_figures_count_for_more_than_the_pages() {
        let feed = Signals {
            running: Some(3),
            waiting: Some(2),
            kv_usage: Some(0.5),
            kv_tokens: Some(9_000),
            waiting_tokens: Some(700),
            running_tokens: Some(4_500),
            generation_throughput: Some(120.0),
            max_running: Some(64),
            skipped: 1,
            ..Signals::default()
        };
        let older = Signals {
            running: Some(9),
            waiting: Some(9),
            kv_usage: Some(0.9),
            kv_tokens: Some(99),
            running_tokens: Some(99),
            generation_throughput: Some(9.0),
            max_running: Some(9),
            ..Signals::default()
        };
        let page = Signals {
            kv_block_size: Some(64),
            put_back: Some(1),
            process_start: Some(1.7e9),
            custom: [Some(1.0); forebay_wire::signals::MAX_CUSTOM],
            skipped: 2,
            ..older.clone()
        };
        let both = merged(feed.clone(), &page);
        assert_eq!(
            both,
            Signals { skipped: 3, ..merged(feed.clone(), &Signals { skipped: 2, ..both.clone() }) }
        );
        for (name, of) in [
            ("running", (|s| s.running.map(f64::from)) as fn(&Signals) -> Option<f64>),
            ("waiting", |s| s.waiting.map(f64::from)),
            ("kv_usage", |s| s.kv_usage.map(f64::from)),
            ("kv_tokens", |s| s.kv_tokens.map(|tokens| tokens as f64)),
            ("waiting_tokens", |s| s.waiting_tokens.map(|tokens| tokens as f64)),
            ("running_tokens", |s| s.running_tokens.map(|tokens| tokens as f64)),
            ("throughput", |s| s.generation_throughput.map(f64::from)),
            ("max_running", |s| s.max_running.map(f64::from)),
        ] {
            assert_eq!(of(&both), of(&feed), "{name}");
            if of(&page).is_some() {
                assert_eq!(of(&merged(Signals::default(), &page)), of(&page), "{name} of the page alone");
            }
        }
        assert_eq!((both.kv_block_size, both.put_back, both.process_start), (Some(64), Some(1), Some(1.7e9)));
        assert_eq!(both.custom, page.custom);
    }
}
