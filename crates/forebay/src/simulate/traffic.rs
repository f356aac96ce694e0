//! The workload of a run: a trace or a made-up one, at a load.

use std::path::Path;
use std::sync::Arc;

use forebay_core::{Priority, Slo, Time};
use forebay_load::trace::{Trace, TraceFormat};
use forebay_sim::workload::{AzureRow, AzureTrace, MooncakeRow, MooncakeTrace, SimRequest, Workload};

use super::made::Made;

/// Where requests come from.
#[derive(Clone, Debug)]
pub(super) enum Source {
    Mooncake(Arc<[MooncakeRow]>),
    Azure(Arc<[AzureRow]>),
    Made(Made),
}

/// How much comes.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum Load {
    /// Requests per second.
    Rate(f64),
    /// As a trace has it.
    AsRecorded(f64),
    /// Conversations at a time, in a closed loop.
    Concurrency(usize),
}

impl Load {
    /// Requests per second, where that is set.
    pub(super) fn rate(self) -> Option<f64> {
        match self {
            Load::Rate(rate) | Load::AsRecorded(rate) => Some(rate),
            Load::Concurrency(_) => None,
        }
    }
}

impl Source {
    /// The rows of a trace.
    pub(super) fn of_trace(trace: &Trace) -> Source {
        let millis = |at: std::time::Duration| at.as_secs_f64() * 1e3;
        match trace.format {
            TraceFormat::Mooncake => {
                let rows = trace.requests.iter().map(|request| MooncakeRow {
                    timestamp_ms: millis(request.arrival) as u64,
                    input_length: request.input_tokens,
                    output_length: request.output_tokens,
                    hash_ids: request.blocks.clone(),
                });
                Source::Mooncake(rows.collect())
            }
            TraceFormat::Azure => {
                let rows = trace.requests.iter().map(|request| AzureRow {
                    timestamp_ms: millis(request.arrival),
                    context_tokens: request.input_tokens,
                    generated_tokens: request.output_tokens,
                });
                Source::Azure(rows.collect())
            }
        }
    }

    /// Requests per second of a trace as the simulator plays it again and again.
    pub(super) fn own_rate(&self) -> f64 {
        match self {
            Source::Mooncake(rows) => MooncakeTrace::own_rate(rows),
            Source::Azure(rows) => {
                let count = rows.len().max(1) as f64;
                let last = rows.last().map_or(0.0, |row| row.timestamp_ms * 1e-3);
                count / (last * (1.0 + 1.0 / count) + 1e-3)
            }
            Source::Made(_) => 0.0,
        }
    }

    /// The longest prompt and answer together, where that is known.
    pub(super) fn longest(&self) -> Option<(u32, u32)> {
        let sum = |(prompt, answer): &(u32, u32)| u64::from(*prompt) + u64::from(*answer);
        match self {
            Source::Mooncake(rows) => {
                rows.iter().map(|row| (row.input_length, row.output_length)).max_by_key(sum)
            }
            Source::Azure(rows) => {
                rows.iter().map(|row| (row.context_tokens, row.generated_tokens)).max_by_key(sum)
            }
            Source::Made(_) => None,
        }
    }

    /// Its requests with this seed, exactly as many as asked for unless it ends before.
    pub(super) fn play(&self, load: Load, requests: u64, slo: Slo, seed: u64) -> Played {
        // To a trace no rate means its own.
        let rate = if let Load::Rate(rate) = load { rate } else { 0.0 };
        let source: Box<dyn Workload> = match self {
            Source::Mooncake(rows) => Box::new(MooncakeTrace::new(Arc::clone(rows), rate, 0, requests, seed)),
            Source::Azure(rows) => Box::new(AzureTrace::new(Arc::clone(rows), rate, 0, requests, seed)),
            Source::Made(made) => {
                let concurrency = if let Load::Concurrency(at_a_time) = load { at_a_time } else { 1 };
                made.make(rate, concurrency, requests, seed)
            }
        };
        let own_limits = matches!(self, Source::Made(made) if made.has_limits());
        Played { source, slo, own_limits, left: requests }
    }
}

/// A workload that ends after so many requests and has the limits that were asked for.
pub(super) struct Played {
    source: Box<dyn Workload>,
    slo: Slo,
    /// Except requests of another priority than standard, which keep theirs.
    own_limits: bool,
    left: u64,
}

impl Played {
    fn pass(&mut self, request: Option<SimRequest>) -> Option<SimRequest> {
        let mut request = request?;
        if !self.own_limits || request.priority == Priority::STANDARD {
            request.slo = self.slo;
        }
        self.left -= 1;
        Some(request)
    }
}

impl Workload for Played {
    fn block_tokens(&self) -> u32 {
        self.source.block_tokens()
    }

    fn next_request(&mut self) -> Option<SimRequest> {
        if self.left == 0 {
            return None;
        }
        let request = self.source.next_request();
        self.pass(request)
    }

    fn follow(&mut self, session: u64, at: Time, served: bool) -> Option<SimRequest> {
        if self.left == 0 {
            return None;
        }
        let request = self.source.follow(session, at, served);
        self.pass(request)
    }
}

/// What a source is called in reports.
pub(super) fn title(source: &Source, trace: Option<&Path>) -> String {
    match (source, trace) {
        (Source::Made(made), _) => made.name().to_owned(),
        (_, Some(path)) => path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned(),
        (_, None) => "trace".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_has_exactly_so_many_requests_with_their_limits() {
        let slo = Slo { ttft_ms: Some(1.0), tpot_ms: Some(2.0) };
        let mut played = Source::Made(Made::Groups).play(Load::Concurrency(3), 7, slo, 1);
        let first: Vec<_> = std::iter::from_fn(|| played.next_request()).collect();
        assert_eq!((first.len(), first[0].slo), (3, slo));
        let (mut all, mut last) = (first.len(), first[0].session);
        while let Some(next) = last.and_then(|session| played.follow(session, Time::ZERO, true)) {
            (all, last) = (all + 1, next.session);
        }
        assert_eq!(all, 7);
        // The limits asked for are those of standard requests; the others have their own.
        let mut played = Source::Made(Made::Priorities).play(Load::Rate(9.0), 100, slo, 1);
        let all: Vec<_> = std::iter::from_fn(|| played.next_request()).collect();
        assert_eq!(all.len(), 100);
        assert!(all.iter().all(|r| (r.slo == slo) == (r.priority == Priority::STANDARD)));
        let mut played = Source::Made(Made::Chat).play(Load::Rate(60.0), 20, slo, 1);
        assert_eq!(std::iter::from_fn(|| played.next_request()).count(), 20);
    }
}
