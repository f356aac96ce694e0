//! Capacity per endpoint, and the byte bound of the whole.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use forebay_core::{EndpointId, Time};
use forebay_prefix::{IndexConfig, Kind, Matches, PrefixIndex, chain, next, seed};

/// A run is evicted whole, so an endpoint may lose up to this much too many.
const RUN: u32 = 64;

fn endpoint(slot: u32) -> EndpointId {
    EndpointId { slot, generation: 0 }
}

fn at(ms: u64) -> Time {
    Time::ZERO + Duration::from_millis(ms)
}

/// Blocks that nothing else has, behind `shared` blocks that all have.
fn prompt(shared: u64, own: u64, n: u64) -> Arc<[u64]> {
    let blocks = (0..shared).chain((0..own).map(|i| next(n + 1, i)));
    chain(seed("model", None, None, Kind::Text), &blocks.collect::<Vec<_>>())
}

fn blocks(index: &PrefixIndex, chain: &[u64], endpoint: EndpointId) -> u32 {
    let mut out = Matches::new();
    index.lookup(chain, &mut out);
    out.get(endpoint).map_or(0, |m| m.blocks)
}

fn serve(index: &PrefixIndex, endpoint: EndpointId, chain: &[u64], now: Time) {
    index.begin(endpoint, chain);
    index.end(endpoint, chain, true, now);
}

#[test]
fn capacity_evicts_the_least_recently_used_leaves() {
    let index = PrefixIndex::new(IndexConfig { default_capacity_blocks: 500, ..IndexConfig::default() });
    let e = endpoint(3);
    let prompts: Vec<_> = (0..40).map(|n| prompt(10, 30, n)).collect();
    for (n, prompt) in prompts.iter().enumerate() {
        serve(&index, e, prompt, at(n as u64 * 100));
        // The first is used again and again.
        serve(&index, e, &prompts[0], at(n as u64 * 100 + 50));
        assert!(index.stats().committed <= 500);
    }
    let held: Vec<u32> = prompts.iter().map(|p| blocks(&index, p, e)).collect();
    assert_eq!(held[0], 40, "in use all the time");
    assert!(held.iter().all(|&n| n >= 10), "the shared start is the parent of what is newest");
    // The newest 15 leaves fit beside it: 10 + 16 × 30 = 490.
    let expect: BTreeMap<usize, u32> = (1..40).map(|n| (n, if n >= 25 { 40 } else { 10 })).collect();
    assert_eq!(held[1..], expect.into_values().collect::<Vec<_>>());
    assert_eq!(index.stats().evicted_by_capacity, 24 * 30);
}

#[test]
fn a_capacity_that_shrinks_takes_effect_at_once_and_none_restores_the_default() {
    let index = PrefixIndex::new(IndexConfig { default_capacity_blocks: 1000, ..IndexConfig::default() });
    let e = endpoint(0);
    (0..20).for_each(|n| serve(&index, e, &prompt(0, 40, n), at(n)));
    assert_eq!(index.stats().committed, 800);
    index.set_capacity(e, Some(100));
    let committed = index.stats().committed;
    assert!(committed <= 100 && committed + u64::from(RUN) > 100, "{committed}");
    assert_eq!(blocks(&index, &prompt(0, 40, 19), e), 40, "the newest stays");
    index.set_capacity(e, None);
    (20..40).for_each(|n| serve(&index, e, &prompt(0, 40, n), at(n)));
    assert_eq!(index.stats().committed, 80 + 800);
}

#[test]
fn a_chain_longer_than_the_capacity_keeps_its_start() {
    let index = PrefixIndex::new(IndexConfig { default_capacity_blocks: 100, ..IndexConfig::default() });
    let long = prompt(0, 1000, 1);
    index.begin(endpoint(0), &long);
    assert_eq!(blocks(&index, &long, endpoint(0)), 1000, "in flight it counts whole");
    index.end(endpoint(0), &long, true, at(1));
    let held = blocks(&index, &long, endpoint(0));
    assert!(held <= 100 && held + RUN > 100, "{held}");
    index.set_capacity(endpoint(0), Some(0));
    assert_eq!(index.stats().holds, 0);
}

/// An engine with a tier in host memory keeps ten times what it says: its
/// answers tell, prompt by prompt, that it still has what the index gave up.
#[test]
fn answers_that_had_more_in_the_cache_stretch_the_capacity_and_others_take_it_back() {
    let index = PrefixIndex::new(IndexConfig { default_capacity_blocks: 400, ..IndexConfig::default() });
    let e = endpoint(0);
    let prompts: Vec<_> = (0..100).map(|n| prompt(0, 40, n)).collect();
    let mut known_at_last = 0;
    for round in 0..6u64 {
        known_at_last = 0;
        for (n, prompt) in prompts.iter().enumerate() {
            let now = at(round * 1000 + n as u64);
            let predicted = blocks(&index, prompt, e);
            known_at_last += u32::from(predicted >= 39);
            index.begin(e, prompt);
            let cached = if round == 0 { 0 } else { 40 };
            index.correct(e, prompt, cached, predicted, now);
            index.end(e, prompt, true, now);
        }
    }
    assert!(known_at_last >= 90, "{known_at_last} of 100 prompts are known to be held");
    assert!(index.stats().committed > 3_500);
    // The tier is gone: what is said to be held is not.
    for n in 0..40 {
        let predicted = blocks(&index, &prompts[99], e);
        assert_eq!(predicted, 40);
        index.begin(e, &prompts[99]);
        index.correct(e, &prompts[99], 0, predicted, at(10_000 + n));
        index.end(e, &prompts[99], true, at(10_000 + n));
    }
    let committed = index.stats().committed;
    assert!(committed <= 400, "{committed} blocks of 400");
    // Off by a block or two is rounding and says nothing.
    for prompt in &prompts {
        index.correct(e, prompt, 2, 0, at(20_000));
    }
    assert!(index.stats().committed <= 400);
}

/// 20,000 prompts of 60 KB that nothing repeats, then a group with a common
/// start, then an engine that loses its cache.
#[test]
fn a_flood_of_unique_prompts_stays_within_the_bound() {
    let max_bytes = 24 << 20;
    let config = IndexConfig { max_bytes, default_capacity_blocks: u32::MAX, ..IndexConfig::default() };
    let index = PrefixIndex::new(config);
    for n in 0..20_000 {
        serve(&index, endpoint(n as u32 % 8), &prompt(0, 240, n), at(n * 3));
        assert!(index.bytes() <= max_bytes, "{} bytes after {n}", index.bytes());
    }
    let stats = index.stats();
    assert!(stats.evicted_by_bytes > 0);
    assert!(stats.committed > 500_000, "the room is used: {} blocks", stats.committed);
    assert_eq!((stats.refused, stats.committed), (0, stats.blocks));
    // The newest are there, whole, and the oldest gone.
    assert_eq!(blocks(&index, &prompt(0, 240, 19_999), endpoint(19_999 % 8)), 240);
    assert_eq!(blocks(&index, &prompt(0, 240, 0), endpoint(0)), 0);

    // A group of prompts with 4 KB in common goes where its start is.
    let mut out = Matches::new();
    let mut on_best = 0;
    for n in 0..1_000u64 {
        let prompt = prompt(16, 4, 1_000_000 + n);
        index.lookup(&prompt, &mut out);
        let best = out.as_slice().iter().max_by_key(|m| m.blocks).map(|m| m.endpoint);
        on_best += u32::from(best == Some(endpoint(1)));
        serve(&index, best.unwrap_or(endpoint(1)), &prompt, at(60_000 + n));
    }
    assert_eq!(on_best, 999);

    // It restarts: nothing of it is found, at once, and the group is learned anew.
    index.forget(endpoint(1));
    assert_eq!(blocks(&index, &prompt(16, 4, 1_000_000), endpoint(1)), 0);
    serve(&index, endpoint(2), &prompt(16, 4, 2_000_000), at(70_000));
    assert_eq!(blocks(&index, &prompt(16, 0, 0), endpoint(2)), 16);
    assert!(index.bytes() <= max_bytes);
}

#[test]
fn other_salts_adapters_and_tiny_or_huge_prompts_do_no_harm() {
    let index = PrefixIndex::new(IndexConfig::default());
    let blocks_of = |seed| chain(seed, &(0..20).collect::<Vec<_>>());
    let plain = blocks_of(seed("m", None, None, Kind::Text));
    serve(&index, endpoint(0), &plain, at(0));
    for other in [
        seed("m", None, Some(1), Kind::Text),
        seed("m", Some("a"), None, Kind::Text),
        seed("m", None, None, Kind::Tokens),
    ] {
        assert_eq!(blocks(&index, &blocks_of(other), endpoint(0)), 0);
    }
    assert_eq!(blocks(&index, &plain, endpoint(0)), 20);
    serve(&index, endpoint(0), &[], at(1));
    index.correct(endpoint(0), &[], 5, 9, at(1));
    // 8 MB of text.
    let huge = prompt(0, 32_768, 1);
    serve(&index, endpoint(1), &huge, at(2));
    let held = blocks(&index, &huge, endpoint(1));
    assert!(held > 6_000 && held <= IndexConfig::default().default_capacity_blocks, "{held}");
}

#[test]
fn confirmed_blocks_are_bounded_too_and_the_start_of_a_chain_goes_last() {
    let max_bytes = 4 << 20;
    let index = PrefixIndex::new(IndexConfig { max_bytes, ..IndexConfig::default() });
    for n in 0..4_000 {
        index.insert_confirmed(endpoint(n as u32 % 4), &prompt(0, 100, n));
        assert!(index.bytes() <= max_bytes);
    }
    assert_eq!(blocks(&index, &prompt(0, 100, 3_999), endpoint(3_999 % 4)), 100);
    assert_eq!(blocks(&index, &prompt(0, 100, 0), endpoint(0)), 0);
    // Of each chain a prefix is held, never a part behind a hole.
    let stats = index.stats();
    let reachable: u64 =
        (0..4_000).map(|n| u64::from(blocks(&index, &prompt(0, 100, n), endpoint(n as u32 % 4)))).sum();
    assert_eq!(stats.blocks, reachable);
}

#[test]
fn more_in_flight_than_there_is_room_for_is_refused_and_nothing_leaks() {
    let index = PrefixIndex::new(IndexConfig { max_bytes: IndexConfig::MIN_BYTES, ..IndexConfig::default() });
    let prompts: Vec<_> = (0..400).map(|n| prompt(0, 300, n)).collect();
    prompts.iter().for_each(|p| index.begin(endpoint(0), p));
    assert!(index.stats().refused > 0);
    assert!(index.bytes() <= IndexConfig::MIN_BYTES + 400 * 100);
    prompts.iter().for_each(|p| index.end(endpoint(0), p, false, at(1)));
    let stats = index.stats();
    assert_eq!((stats.blocks, stats.holds, stats.runs), (0, 0, 0));
    serve(&index, endpoint(0), &prompts[0], at(2));
    assert_eq!(blocks(&index, &prompts[0], endpoint(0)), 300);
}

#[test]
fn forgotten_lanes_are_used_again_and_ten_thousand_endpoints_fit() {
    let index = PrefixIndex::new(IndexConfig::default());
    let shared = prompt(8, 0, 0);
    for slot in 0..10_000 {
        serve(&index, endpoint(slot), &shared, at(u64::from(slot)));
    }
    let mut out = Matches::new();
    index.lookup(&shared, &mut out);
    assert_eq!(out.len(), 10_000);
    assert!(out.as_slice().iter().all(|m| m.blocks == 8));
    // Restarts without end.
    for n in 0..30_000 {
        let e = endpoint(n % 10_000);
        index.forget(e);
        serve(&index, e, &shared, at(u64::from(n)));
    }
    index.lookup(&shared, &mut out);
    assert_eq!(out.len(), 10_000);
    assert_eq!(index.stats().forgotten, 30_000);
}
