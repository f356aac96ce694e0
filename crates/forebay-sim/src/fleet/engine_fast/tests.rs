//! The fast engine against the step-accurate one on random work.

use std::sync::Arc;

use forebay_core::Time;
use rand::RngExt;
use rand_core::SeedableRng;
use rand_pcg::Pcg64Mcg;

use super::*;
use crate::engine::{EngineEvent, EngineModel, EngineRequest};
use crate::workload::{extend, link};

const BLOCK: u32 = 64;
const EXTRAS: Extras =
    Extras { host_tokens: 0, host_ms_per_token: 0.0, adapter_slots: 4, adapter_load_ms: 0.0 };

#[derive(Clone)]
struct Work {
    at: u64,
    group: u64,
    shared: u32,
    prompt: u32,
    output: u32,
}

/// Means over all requests, in milliseconds, and the share of tokens cached.
#[derive(Debug)]
struct Seen {
    ttft: f64,
    tpot: f64,
    e2e: f64,
    cached: f64,
    preemptions: u64,
}

fn work(seed: u64, count: usize, gap_ms: f64, prompt: u32, output: u32) -> Vec<Work> {
    let mut rng = Pcg64Mcg::seed_from_u64(seed);
    let mut at = 0.0;
    (0..count)
        .map(|_| {
            at += -gap_ms * (1.0 - rng.random::<f64>()).ln();
            let shared = rng.random_range(0..8) * 4 * BLOCK;
            Work {
                at: (at * 1e6) as u64,
                group: rng.random_range(0..6),
                shared,
                prompt: shared + rng.random_range(1..prompt),
                output: rng.random_range(1..output),
            }
        })
        .collect()
}

/// The chain of one request in blocks of `size`: first what its group shares.
fn chain(number: usize, work: &Work, size: u32) -> Vec<u64> {
    let mut chain = Vec::new();
    extend(&mut chain, link(1, work.group), work.shared / size);
    extend(&mut chain, link(2, number as u64), (work.prompt / size) - work.shared / size);
    chain
}

fn summary(work: &[Work], first: &[u64], end: &[u64], cached: f64, preemptions: u64) -> Seen {
    let n = work.len() as f64;
    let mean = |f: &dyn Fn(usize) -> f64| (0..work.len()).map(f).sum::<f64>() / n * 1e-6;
    let prompt: f64 = work.iter().map(|w| f64::from(w.prompt)).sum();
    Seen {
        ttft: mean(&|i| (first[i] - work[i].at) as f64),
        tpot: mean(&|i| (end[i] - first[i]) as f64 / f64::from(work[i].output.max(2) - 1)),
        e2e: mean(&|i| (end[i] - work[i].at) as f64),
        cached: cached / prompt,
        preemptions,
    }
}

fn exact(profile: Profile, work: &[Work]) -> Seen {
    let mut engine = EngineModel::new(profile);
    let mut number = std::collections::BTreeMap::new();
    let (mut first, mut end) = (vec![0; work.len()], vec![0; work.len()]);
    let (mut cached, mut events) = (0.0, Vec::new());
    let mut next = 0;
    loop {
        let arrival = work.get(next).map(|w| w.at);
        match (arrival, engine.next_time().map(Time::as_nanos)) {
            (Some(at), step) if step.is_none_or(|step| at < step) => {
                let w = &work[next];
                let request = EngineRequest {
                    chain: chain(next, w, profile.block_size),
                    prompt_tokens: w.prompt,
                    output_tokens: w.output,
                    priority: 0,
                };
                let id = engine.enqueue(Time::from_nanos(at), request).unwrap();
                number.insert(id, next);
                next += 1;
            }
            (_, Some(step)) => engine.advance(Time::from_nanos(step), &mut events),
            (_, None) => break,
        }
        for event in events.drain(..) {
            let i = number[&event.seq()];
            match event {
                EngineEvent::Started { cached_tokens, .. } => cached += f64::from(cached_tokens),
                EngineEvent::Token { at, index: 0, .. } => first[i] = at.as_nanos(),
                EngineEvent::Finished { at, .. } => end[i] = at.as_nanos(),
                _ => {}
            }
        }
    }
    summary(work, &first, &end, cached, engine.load().preemptions)
}

fn fast(profile: Profile, work: &[Work]) -> Seen {
    let mut engine = FastEngine::new(profile, EXTRAS, BLOCK);
    let (mut first, mut end) = (vec![0; work.len()], vec![0; work.len()]);
    let (mut cached, mut events) = (0.0, Vec::new());
    let (mut next, mut changes) = (0, 0u64);
    loop {
        let arrival = work.get(next).map(|w| w.at);
        let now = match (arrival, engine.next_time()) {
            (Some(at), step) if step.is_none_or(|step| at < step) => {
                let w = &work[next];
                engine.enqueue(
                    at,
                    FastRequest {
                        key: next as u64,
                        chain: Arc::from(chain(next, w, BLOCK)),
                        answer: Arc::from([]),
                        prompt: w.prompt,
                        output: w.output,
                        priority: 0,
                        adapter: None,
                    },
                );
                next += 1;
                at
            }
            (_, Some(step)) => {
                engine.advance(step, &mut events);
                changes += 1;
                step
            }
            (_, None) => break,
        };
        for event in events.drain(..) {
            match event {
                FastEvent::First { key } => first[key as usize] = now,
                FastEvent::Finished { key, cached: tokens } => {
                    end[key as usize] = now;
                    cached += f64::from(tokens);
                }
                FastEvent::Progress { .. } => {}
            }
        }
    }
    assert!(engine.is_idle() && engine.used() == 0, "{} left", engine.used());
    assert_eq!((engine.context, engine.private), (0, 0));
    let tokens: u64 = work.iter().map(|w| u64::from(w.output)).sum();
    assert!(engine.generated == tokens, "{} of {tokens} tokens", engine.generated);
    // Never one event for each step.
    assert!(changes < 12 * work.len() as u64 + engine.steps / 16, "{changes} changes");
    summary(work, &first, &end, cached, engine.preemptions)
}

fn near(what: &str, got: f64, want: f64, within: f64) {
    assert!((got / want.max(1e-9) - 1.0).abs() < within, "{what}: fast {got}, exact {want}");
}

#[test]
fn agrees_with_the_exact_engine_under_any_load() {
    let profile = Profile { block_size: 16, ..*Profile::by_name("h100-8b").unwrap() };
    for (seed, gap_ms, prompt, output) in [
        (1, 200.0, 3_000, 300),
        (2, 60.0, 3_000, 300),
        (3, 40.0, 6_000, 200),
        (4, 15.0, 500, 100),
        (5, 300.0, 30_000, 300),
        (6, 25.0, 60, 600),
    ] {
        let work = work(seed, 600, gap_ms, prompt, output);
        let (exact, fast) = (exact(profile, &work), fast(profile, &work));
        // Without preemption only rounding differs, and what it decides.
        near("ttft", fast.ttft, exact.ttft, 2e-3);
        near("tpot", fast.tpot, exact.tpot, 2e-3);
        near("e2e", fast.e2e, exact.e2e, 2e-3);
        near("cached", fast.cached, exact.cached, 2e-3);
    }
}

#[test]
fn agrees_with_the_exact_engine_when_memory_is_short() {
    for (seed, kv_tokens, gap_ms) in [(1, 30_000, 60.0), (2, 14_000, 100.0), (3, 60_000, 40.0)] {
        let profile = Profile { block_size: 16, kv_tokens, ..*Profile::by_name("h100-8b").unwrap() };
        let work = work(seed, 500, gap_ms, 3_000, 400);
        let (exact, fast) = (exact(profile, &work), fast(profile, &work));
        near("ttft", fast.ttft, exact.ttft, 0.03);
        near("tpot", fast.tpot, exact.tpot, 0.03);
        near("e2e", fast.e2e, exact.e2e, 0.03);
        assert!((fast.cached - exact.cached).abs() < 0.01, "{fast:?} {exact:?}");
        assert_eq!(fast.preemptions > 0, exact.preemptions > 0, "{fast:?} {exact:?}");
    }
}

#[test]
fn cancelling_in_every_stage_leaves_nothing_behind() {
    let profile = Profile { kv_tokens: 40_000, ..*Profile::by_name("h100-8b").unwrap() };
    for seed in 0..30 {
        let mut rng = Pcg64Mcg::seed_from_u64(seed);
        let work = work(seed, 80, 30.0, 4_000, 200);
        let mut engine = FastEngine::new(profile, EXTRAS, BLOCK);
        let mut live: std::collections::BTreeMap<u64, u32> = std::collections::BTreeMap::new();
        let mut events = Vec::new();
        let mut now = 0;
        for (i, w) in work.iter().enumerate() {
            while let Some(at) = engine.next_time().filter(|at| *at <= w.at) {
                engine.advance(at, &mut events);
            }
            for event in events.drain(..) {
                if let FastEvent::Finished { key, .. } = event {
                    live.remove(&key);
                }
            }
            now = w.at;
            let request = FastRequest {
                key: i as u64,
                chain: Arc::from(chain(i, w, BLOCK)),
                answer: Arc::from([]),
                prompt: w.prompt,
                output: w.output,
                priority: 0,
                adapter: None,
            };
            live.insert(i as u64, engine.enqueue(now, request).unwrap());
            if rng.random_range(0..2) == 0 {
                let (&key, &slot) = live.iter().nth(rng.random_range(0..live.len())).unwrap();
                live.remove(&key);
                engine.cancel(now, slot);
            }
        }
        if seed % 3 == 0 {
            assert_eq!(engine.crash(now, false).len(), live.len());
        }
        while let Some(at) = engine.next_time() {
            engine.advance(at, &mut events);
        }
        assert!(engine.is_idle());
        assert_eq!((engine.used(), engine.context, engine.private), (0, 0, 0));
    }
}
