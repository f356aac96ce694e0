//! From records to a summary.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::Instant;

use crate::call::Record;
use crate::live::Kind;
use crate::summary::{EndpointShare, Finished, Quantiles, Slo, Summary};
use crate::windows::Windows;

#[cfg(test)]
#[path = "tally_tests.rs"]
mod tests;

/// Remarks of one kind that are kept; the rest is only counted.
const REMARKS: usize = 5;

/// Collects the records of a run. Grows by some 24 bytes a request.
pub(crate) struct Tally {
    time_scale: f64,
    slo: Slo,
    requests: u64,
    failed: u64,
    rejected: u64,
    good: u64,
    tokens: u64,
    ttft_ms: Vec<f64>,
    tpot_ms: Vec<f64>,
    e2e_ms: Vec<f64>,
    span: Option<(Instant, Instant)>,
    all: Prefix,
    endpoints: BTreeMap<String, Endpoint>,
    failures: Remarks,
    mismatches: Option<Remarks>,
    windows: Option<Windows>,
}

#[derive(Default)]
struct Endpoint {
    requests: u64,
    prefix: Prefix,
}

/// Prompt tokens and the cached part of them.
#[derive(Default)]
struct Prefix {
    prompt: u64,
    cached: u64,
    stated: bool,
}

impl Prefix {
    fn add(&mut self, record: &Record) {
        if let Some(usage) = record.usage {
            self.prompt += usage.prompt_tokens;
            self.cached += usage.cached_tokens;
            self.stated |= record.states_cached;
        }
    }

    fn hit(&self) -> Option<f64> {
        (self.stated && self.prompt > 0).then(|| self.cached as f64 / self.prompt as f64)
    }
}

#[derive(Default)]
struct Remarks {
    count: u64,
    first: Vec<String>,
}

impl Remarks {
    fn add(&mut self, remark: impl FnOnce() -> String) {
        self.count += 1;
        if self.first.len() < REMARKS {
            self.first.push(remark());
        }
    }
}

impl Tally {
    pub(crate) fn new(time_scale: f64, slo: Slo) -> Tally {
        Tally {
            time_scale,
            slo,
            requests: 0,
            failed: 0,
            rejected: 0,
            good: 0,
            tokens: 0,
            ttft_ms: Vec::new(),
            tpot_ms: Vec::new(),
            e2e_ms: Vec::new(),
            span: None,
            all: Prefix::default(),
            endpoints: BTreeMap::new(),
            failures: Remarks::default(),
            mismatches: None,
            windows: None,
        }
    }

    /// Also counts shares in windows of `width` engine time from `begin` on;
    /// `endpoints` says how many there are, where that is known.
    pub(crate) fn with_windows(mut self, begin: Instant, width: Duration, endpoints: Option<usize>) -> Tally {
        self.windows = Some(Windows::new(begin, width, self.time_scale, endpoints));
        self
    }

    /// Adds a request; `label` names it in a remark if it did not end well.
    pub(crate) fn add(&mut self, record: &Record, label: impl FnOnce() -> String) {
        self.requests += 1;
        let (from, to) = self.span.unwrap_or((record.started, record.ended));
        self.span = Some((from.min(record.started), to.max(record.ended)));
        if let Some(name) = &record.endpoint {
            // Look before cloning: the name is almost always known.
            if !self.endpoints.contains_key(name) {
                self.endpoints.insert(name.clone(), Endpoint::default());
            }
            if let Some(endpoint) = self.endpoints.get_mut(name) {
                endpoint.requests += 1;
                endpoint.prefix.add(record);
            }
        }
        self.all.add(record);
        if let Some(windows) = &mut self.windows {
            windows.add(record);
        }
        match record.kind {
            Kind::Done => self.finished(record),
            Kind::Rejected => self.rejected += 1,
            Kind::Failed => self.failed += 1,
        }
        if record.kind != Kind::Done {
            let what = if record.kind == Kind::Rejected { "rejected" } else { "failed" };
            self.failures.add(|| format!("{what}: {}: {}", label(), record.why));
        }
    }

    /// Compares a finished request's token counts with what they should be;
    /// `prompt` is none where the prompt was sent as text.
    pub(crate) fn compare(
        &mut self,
        record: &Record,
        prompt: Option<u64>,
        output: u64,
        label: impl FnOnce() -> String,
    ) {
        let mismatches = self.mismatches.get_or_insert_default();
        if record.kind != Kind::Done {
            return;
        }
        let Some(usage) = record.usage else {
            return mismatches.add(|| format!("token counts: {}: the answer states none", label()));
        };
        if usage.completion_tokens != output || prompt.is_some_and(|p| p != usage.prompt_tokens) {
            let wanted = prompt.map_or_else(|| "any".into(), |p| p.to_string());
            mismatches.add(|| {
                format!(
                    "token counts: {}: {} prompt and {} output tokens, the trace has {wanted} and {output}",
                    label(),
                    usage.prompt_tokens,
                    usage.completion_tokens
                )
            });
        }
    }

    fn finished(&mut self, record: &Record) {
        let ms = |wall: Duration| wall.as_secs_f64() * 1e3 * self.time_scale;
        self.tokens += record.tokens;
        self.e2e_ms.push(ms(record.ended - record.started));
        let ttft = record.ttft.map(ms);
        let tpot = match record.tokens {
            n @ 2.. => Some(ms(record.streaming) / (n - 1) as f64),
            _ => None,
        };
        self.ttft_ms.extend(ttft);
        self.tpot_ms.extend(tpot);
        let in_time = ttft.is_some_and(|t| t <= self.slo.ttft_ms);
        if in_time && tpot.is_none_or(|t| t <= self.slo.tpot_ms) {
            self.good += 1;
        }
    }

    /// The end: `policy` as the caller knows it.
    pub(crate) fn finish(mut self, policy: Option<String>) -> Finished {
        let seconds = self.span.map_or(0.0, |(from, to)| (to - from).as_secs_f64()) * self.time_scale;
        let attributed: u64 = self.endpoints.values().map(|e| e.requests).sum();
        let endpoints = self.endpoints.into_iter().map(|(name, e)| EndpointShare {
            name,
            requests: e.requests,
            share: e.requests as f64 / attributed as f64,
            prefix_hit: e.prefix.hit(),
        });
        let summary = Summary {
            policy,
            requests: self.requests,
            failed: self.failed,
            rejected: self.rejected,
            ttft_ms: Quantiles::of(&mut self.ttft_ms),
            tpot_ms: Quantiles::of(&mut self.tpot_ms),
            e2e_ms: Quantiles::of(&mut self.e2e_ms),
            tokens_per_second: if seconds > 0.0 { self.tokens as f64 / seconds } else { 0.0 },
            goodput: if self.requests > 0 { self.good as f64 / self.requests as f64 } else { 0.0 },
            slo: self.slo,
            prefix_hit: self.all.hit(),
            endpoints: endpoints.collect(),
            time_scale: self.time_scale,
            token_mismatches: self.mismatches.as_ref().map(|m| m.count),
            ideal_prefix_hit: None,
            busiest_share: self.windows.as_ref().and_then(Windows::busiest),
            windows: self.windows.map(Windows::finish).unwrap_or_default(),
        };
        let mut remarks = Vec::new();
        for kind in [Some(self.failures), self.mismatches].into_iter().flatten() {
            let more = kind.count - kind.first.len() as u64;
            remarks.extend(kind.first);
            if more > 0 {
                remarks.push(format!("... and {more} more like these"));
            }
        }
        Finished { summary, remarks }
    }
}
