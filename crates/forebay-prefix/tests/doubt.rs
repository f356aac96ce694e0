//! What an engine said before it fell silent, and what is left of what it served.

use forebay_core::{EndpointId, Time};
use forebay_prefix::engine_map::{EngineEvent, EngineMap, StoredBlocks, doubt, lead, trust};
use forebay_prefix::{IndexConfig, Kind, Matches, PrefixIndex, Tier, chain, seed, token_blocks};

const E: EndpointId = EndpointId { slot: 4, generation: 1 };

fn blocks(index: &PrefixIndex, chain: &[u64]) -> (u32, u32) {
    let mut out = Matches::new();
    index.lookup(chain, &mut out);
    out.get(E).map_or((0, 0), |found| (found.blocks, found.host_blocks))
}

/// Prompts of 200 blocks each, of which the first 100 are the same.
fn prompts(count: u32) -> Vec<Vec<u32>> {
    let prompt = |n: u32| (0..100 * 64).chain((1 + n) * 1_000_000..(1 + n) * 1_000_000 + 100 * 64).collect();
    (0..count).map(prompt).collect()
}

fn chain_of(prompt: &[u32]) -> Vec<u64> {
    chain(seed("m", None, None, Kind::Tokens), &token_blocks(prompt, 64)).to_vec()
}

/// An engine that told of these prompts, with what is held of one part in the host too.
fn told(prompts: &[Vec<u32>]) -> (EngineMap, PrefixIndex) {
    let index = PrefixIndex::new(IndexConfig { default_capacity_blocks: 100_000, ..IndexConfig::default() });
    let mut map = EngineMap::new("m", 64 << 20);
    let mut ops = Vec::new();
    for prompt in prompts {
        let names = chain_of(prompt);
        let stored = StoredBlocks {
            hashes: &names,
            parent: None,
            tokens: prompt,
            block_size: 64,
            declared: true,
            adapter: None,
            salt: None,
            tier: Tier::Gpu,
            group: None,
            full_attention: None,
            identified: names.len(),
        };
        map.apply(0, &EngineEvent::Stored(stored), &mut ops);
    }
    lead(&index, E, &ops);
    (map, index)
}

#[test]
fn what_a_silent_engine_said_stays_known_and_can_be_corrected() {
    let prompts = prompts(5);
    let chains: Vec<_> = prompts.iter().map(|prompt| chain_of(prompt)).collect();
    let (map, index) = told(&prompts);
    // The engine's own word is not corrected: it knows better.
    index.correct(E, &chains[0], 0, 200, Time::from_nanos(1));
    assert_eq!(blocks(&index, &chains[0]), (200, 0));

    doubt(&index, E, &map);
    let worth = |n: u32| (f64::from(n) * index.confidence(E)) as u32;
    assert!(index.confidence(E) < 1.0 && index.confidence(E) > 0.5);
    for chain in &chains {
        assert!(blocks(&index, chain).0.abs_diff(worth(200)) <= 1, "it should be there still");
    }
    // An answer shows that nothing of it is left; all prompts began with it.
    index.correct(E, &chains[0], 0, 200, Time::from_nanos(2));
    for chain in &chains {
        assert_eq!(blocks(&index, chain), (0, 0));
    }
}

#[test]
fn good_answers_make_it_sure() {
    let prompts = prompts(2);
    let chains: Vec<_> = prompts.iter().map(|prompt| chain_of(prompt)).collect();
    let (map, index) = told(&prompts);
    doubt(&index, E, &map);
    for n in 0..6 {
        index.correct(E, &chains[0], 200, 200, Time::from_nanos(n));
    }
    assert_eq!((index.confidence(E), blocks(&index, &chains[1])), (1.0, (200, 0)));
}

#[test]
fn an_engine_that_is_heard_again_says_what_it_holds() {
    let prompts = prompts(5);
    let chains: Vec<_> = prompts.iter().map(|prompt| chain_of(prompt)).collect();
    let (map, index) = told(&prompts);
    doubt(&index, E, &map);
    index.correct(E, &chains[3], 0, 200, Time::from_nanos(1));
    trust(&index, E, &map);
    assert_eq!(index.confidence(E), 1.0);
    for chain in &chains {
        assert_eq!(blocks(&index, chain), (200, 0));
        // It is the engine's word again, which no answer takes back.
        index.correct(E, chain, 0, 200, Time::from_nanos(2));
        assert_eq!(blocks(&index, chain), (200, 0));
    }
    // … but the engine does.
    index.remove_confirmed(E, &chains[1][150..]);
    assert_eq!(blocks(&index, &chains[1]), (150, 0));
}

#[test]
fn copies_in_the_host_are_not_held_by_guess() {
    let prompts = prompts(1);
    let chain = chain_of(&prompts[0]);
    let (mut map, index) = told(&prompts);
    let mut ops = Vec::new();
    let host = |hashes| StoredBlocks {
        hashes,
        parent: None,
        tokens: &[],
        block_size: 64,
        declared: true,
        adapter: None,
        salt: None,
        tier: Tier::Host,
        group: None,
        full_attention: None,
        identified: 0,
    };
    map.apply(0, &EngineEvent::Stored(host(&chain)), &mut ops);
    let hashes = &chain[120..];
    map.apply(0, &EngineEvent::Removed { hashes, tier: Some(Tier::Gpu), group: None }, &mut ops);
    lead(&index, E, &ops);
    assert_eq!(blocks(&index, &chain), (120, 80));
    doubt(&index, E, &map);
    let (ready, host) = blocks(&index, &chain);
    assert!((90..120).contains(&ready) && host == 0, "{ready} {host}");
    trust(&index, E, &map);
    assert_eq!(blocks(&index, &chain), (120, 80));
}

#[test]
fn what_was_served_is_forgotten_apart_from_what_the_engine_says() {
    let prompts = prompts(3);
    let chains: Vec<_> = prompts.iter().map(|prompt| chain_of(prompt)).collect();
    let (_, index) = told(&prompts[..1]);
    let text = chain(seed("m", None, None, Kind::Text), &(0..500).collect::<Vec<_>>());
    for served in [&*chains[1], &*chains[2], &*text] {
        index.commit(E, served, Time::from_nanos(5));
    }
    index.forget_committed(E);
    assert_eq!(index.stats().committed, 0);
    assert_eq!(blocks(&index, &text), (0, 0));
    assert_eq!(blocks(&index, &chains[0]), (200, 0), "the engine says so");
    assert_eq!(blocks(&index, &chains[1]), (100, 0), "and so this much of the others");
}

#[test]
fn what_was_dropped_for_want_of_memory_is_there_again_when_it_is_told_again() {
    let index = PrefixIndex::new(IndexConfig { max_bytes: IndexConfig::MIN_BYTES, ..IndexConfig::default() });
    let mut map = EngineMap::new("m", 64 << 20);
    let prompts = prompts(1);
    let chain = chain_of(&prompts[0]);
    let stored = StoredBlocks {
        hashes: &chain,
        parent: None,
        tokens: &prompts[0],
        block_size: 64,
        declared: true,
        adapter: None,
        salt: None,
        tier: Tier::Gpu,
        group: None,
        full_attention: None,
        identified: chain.len(),
    };
    let mut ops = Vec::new();
    map.apply(0, &EngineEvent::Stored(stored), &mut ops);
    lead(&index, E, &ops);
    assert_eq!(blocks(&index, &chain), (200, 0));
    // Another one needs the room, for a while.
    let other = EndpointId { slot: 9, generation: 0 };
    (0..1_000).for_each(|n| index.insert_confirmed(other, &chain_of_text(n)));
    assert!(blocks(&index, &chain).0 < 200);
    index.forget(other);
    ops.clear();
    map.apply(0, &EngineEvent::Stored(stored), &mut ops);
    lead(&index, E, &ops);
    assert_eq!(blocks(&index, &chain), (200, 0));
}

fn chain_of_text(n: u64) -> Vec<u64> {
    chain(seed("m", None, Some(n), Kind::Text), &(0..100).collect::<Vec<_>>()).to_vec()
}
