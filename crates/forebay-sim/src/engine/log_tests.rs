use std::collections::BTreeSet;

use forebay_core::Time;

use super::*;

/// Room for eight blocks of four tokens.
fn small() -> EngineModel {
    let profile = Profile { kv_tokens: 32, block_size: 4, ..*Profile::by_name("h100-8b").unwrap() };
    let mut engine = EngineModel::new(profile);
    engine.log_block_changes();
    engine
}

fn request(tokens: std::ops::Range<u32>, output: u32) -> EngineRequest {
    let prompt: Vec<u32> = tokens.collect();
    let mut all = prompt.clone();
    all.extend((0..output).map(|i| 1_000 + i));
    EngineRequest {
        chain: block_chain(&all, 4, 0),
        prompt_tokens: prompt.len() as u32,
        output_tokens: output,
        priority: 0,
    }
}

/// Runs one request to its end; gives the changes that came with it.
fn serve(engine: &mut EngineModel, request: EngineRequest) -> Vec<BlockChanges> {
    let now = engine.next_time().unwrap_or(Time::ZERO);
    engine.enqueue(now, request).unwrap();
    let mut events = Vec::new();
    while let Some(at) = engine.next_time() {
        engine.advance(at, &mut events);
    }
    engine.take_block_changes()
}

fn flat(batches: &[BlockChanges]) -> Vec<BlockChange> {
    batches.iter().flat_map(|batch| batch.changes.clone()).collect()
}

#[test]
fn stored_blocks_come_with_the_step_that_filled_them_and_chain_up() {
    let mut engine = small();
    let batches = serve(&mut engine, request(0..9, 5));
    let chain = request(0..9, 5).chain;
    let [prefill, decode] = batches.as_slice() else { panic!("{batches:?}") };
    assert!(prefill.at < decode.at);
    let stored = |change: &BlockChange| match *change {
        BlockChange::Stored { index, hash, parent, .. } => (index, hash, parent),
        ref other => panic!("{other:?}"),
    };
    let seen: Vec<_> = prefill.changes.iter().map(stored).collect();
    assert_eq!(seen, [(0, chain[0], None), (1, chain[1], Some(chain[0]))]);
    // The block that the answer filled: tokens 8 to 11.
    let seen: Vec<_> = decode.changes.iter().map(stored).collect();
    assert_eq!(seen, [(2, chain[2], Some(chain[1]))]);
    assert_eq!(serve(&mut engine, request(0..9, 1)), [], "a hit is no news");
}

#[test]
fn what_the_log_tells_is_what_the_cache_holds() {
    let mut engine = small();
    let mut held = BTreeSet::new();
    let mut removed = 0;
    for start in [0, 100, 0, 200, 300, 100, 400] {
        for change in flat(&serve(&mut engine, request(start..start + 13, 2))) {
            match change {
                BlockChange::Stored { hash, .. } => assert!(held.insert(hash), "stored twice"),
                BlockChange::Removed { hash } => {
                    removed += 1;
                    assert!(held.remove(&hash), "removed without being there");
                }
                BlockChange::Cleared => panic!("nobody asked"),
            }
        }
        assert_eq!(held, engine.pool.hashes());
    }
    assert!(removed > 0 && held.len() <= 8, "{removed} {held:?}");
    // Every prompt that the log says is there is found.
    for start in [100, 400] {
        let chain = request(start..start + 13, 2).chain;
        let hit = chain.iter().take(3).take_while(|hash| held.contains(hash)).count() as u64;
        let before = engine.load().prefix_hits;
        serve(&mut engine, request(start..start + 13, 0));
        let found = engine.load().prefix_hits - before;
        assert_eq!(found, hit * 4, "prompt {start}");
    }
}

#[test]
fn a_reset_needs_an_idle_engine_and_is_told_with_the_next_step() {
    let mut engine = small();
    serve(&mut engine, request(0..9, 0));
    let now = Time::ZERO;
    let running = engine.enqueue(now, request(50..60, 20)).unwrap();
    let mut events = Vec::new();
    let at = engine.next_time().unwrap();
    engine.advance(at, &mut events);
    assert!(!engine.reset_prefix_cache(at), "a sequence holds blocks");
    engine.cancel(at, running);
    assert!(engine.reset_prefix_cache(at));
    let hits = engine.load().prefix_hits;
    engine.advance(engine.next_time().unwrap_or(at), &mut events);
    let told = flat(&serve(&mut engine, request(0..9, 0)));
    assert_eq!(engine.load().prefix_hits, hits, "nothing was left to find");
    let cleared = told.iter().position(|change| *change == BlockChange::Cleared).unwrap();
    let chain = request(0..9, 0).chain;
    let again =
        |change: &BlockChange| matches!(change, BlockChange::Stored { hash, .. } if *hash == chain[0]);
    assert!(told.iter().position(again).unwrap() > cleared);
}

#[test]
fn without_a_log_there_is_none() {
    let mut engine = EngineModel::new(*Profile::by_name("h100-8b").unwrap());
    assert_eq!(serve(&mut engine, request(0..40, 5)), []);
}
