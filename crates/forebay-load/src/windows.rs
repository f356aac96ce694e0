//! Who got how much, and when.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::Instant;

use crate::call::Record;
use crate::summary::{ShareWindow, WindowShare};

/// Counts requests and tokens by endpoint and by when they were sent.
pub(crate) struct Windows {
    begin: Instant,
    /// Engine time.
    width: Duration,
    time_scale: f64,
    /// Endpoints there are, where that is known.
    endpoints: Option<usize>,
    counts: BTreeMap<u64, BTreeMap<String, Count>>,
}

#[derive(Clone, Copy, Default)]
struct Count {
    requests: u64,
    tokens: u64,
}

impl Windows {
    pub(crate) fn new(begin: Instant, width: Duration, time_scale: f64, endpoints: Option<usize>) -> Windows {
        Windows { begin, width, time_scale, endpoints, counts: BTreeMap::new() }
    }

    pub(crate) fn add(&mut self, record: &Record) {
        let Some(name) = &record.endpoint else { return };
        let sent = record.started.saturating_duration_since(self.begin).as_secs_f64() * self.time_scale;
        let window = self.counts.entry((sent / self.width.as_secs_f64()) as u64).or_default();
        let count = window.entry(name.clone()).or_default();
        count.requests += 1;
        count.tokens += record.usage.map_or(record.tokens, |u| u.prompt_tokens + u.completion_tokens);
    }

    /// Tokens of the busiest endpoint over the mean.
    pub(crate) fn busiest(&self) -> Option<f64> {
        let mut sums: BTreeMap<&str, u64> = BTreeMap::new();
        for (name, count) in self.counts.values().flatten() {
            *sums.entry(name).or_default() += count.tokens;
        }
        let all: u64 = sums.values().sum();
        let most = sums.values().max().filter(|_| all > 0)?;
        let endpoints = self.endpoints.unwrap_or(0).max(sums.len());
        Some(*most as f64 * endpoints as f64 / all as f64)
    }

    pub(crate) fn finish(self) -> Vec<ShareWindow> {
        let width = self.width.as_secs_f64();
        let window = |(index, counts): (u64, BTreeMap<String, Count>)| {
            let all: u64 = counts.values().map(|count| count.tokens).sum();
            let endpoints = counts.into_iter().map(|(name, Count { requests, tokens })| {
                let share = if all > 0 { tokens as f64 / all as f64 } else { 0.0 };
                WindowShare { name, requests, tokens, share }
            });
            let from_s = index as f64 * width;
            ShareWindow { from_s, to_s: from_s + width, endpoints: endpoints.collect() }
        };
        self.counts.into_iter().map(window).collect()
    }
}
