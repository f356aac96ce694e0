use std::collections::BTreeSet;

use super::*;
use crate::{Kind, chain, seed, token_blocks};

const MODEL: &str = "m";

/// A map with the set of blocks that its operations leave in an index.
struct Bench {
    map: EngineMap,
    rank: u32,
    held: [BTreeSet<u64>; 2],
}

impl Bench {
    fn new() -> Bench {
        Bench { map: EngineMap::new(MODEL, 10 << 20), rank: 0, held: Default::default() }
    }

    fn apply(&mut self, event: &EngineEvent<'_>) {
        let (mut ops, repeated) = (Vec::new(), self.map.counters().repeated);
        self.map.apply(self.rank, event, &mut ops);
        if self.map.counters().repeated > repeated {
            // What is repeated is confirmed again, whether the index has it or not.
            let known = |op: &IndexOp| matches!(*op, IndexOp::Confirm { hash, tier, .. } if self.held[tier_index(tier)].contains(&hash));
            ops.retain(|op| !known(op));
        }
        self.follow(&ops);
    }

    fn reset(&mut self, rank: u32) {
        let mut ops = Vec::new();
        self.map.reset(rank, &mut ops);
        self.follow(&ops);
    }

    /// Every operation changes something, or the map and the index disagree.
    fn follow(&mut self, ops: &[IndexOp]) {
        for op in ops {
            match *op {
                IndexOp::Confirm { hash, tier, .. } => assert!(self.held[tier_index(tier)].insert(hash)),
                IndexOp::Remove { hash, tier } => assert!(self.held[tier_index(tier)].remove(&hash)),
                IndexOp::Forget => self.held = Default::default(),
            }
        }
        let all: BTreeSet<u64> = self.held.iter().flatten().copied().collect();
        assert_eq!(all.len(), self.map.index_blocks());
    }

    fn store(&mut self, stored: StoredBlocks<'_>) {
        self.apply(&EngineEvent::Stored(stored));
    }

    fn remove(&mut self, hashes: &[u64]) {
        self.remove_in(hashes, Some(Tier::Gpu));
    }

    fn remove_in(&mut self, hashes: &[u64], tier: Option<Tier>) {
        self.apply(&EngineEvent::Removed { hashes, tier, group: None });
    }

    /// How many blocks of the prompt are found from its start on.
    fn hit(&self, tier: Tier, ids: &[u32], adapter: Option<&str>, salt: Option<u64>) -> usize {
        let block = self.map.index_block().unwrap_or(64) as usize;
        let chain = chain(seed(MODEL, adapter, salt, Kind::Tokens), &token_blocks(ids, block));
        chain.iter().take_while(|hash| self.held[tier_index(tier)].contains(hash)).count()
    }

    fn found(&self, ids: &[u32]) -> usize {
        self.hit(Tier::Gpu, ids, None, None)
    }
}

fn blocks<'a>(hashes: &'a [u64], parent: Option<u64>, tokens: &'a [u32], size: u32) -> StoredBlocks<'a> {
    StoredBlocks {
        hashes,
        parent,
        tokens,
        block_size: size,
        declared: true,
        adapter: None,
        salt: None,
        tier: Tier::Gpu,
        group: None,
        full_attention: None,
        identified: hashes.len(),
    }
}

fn ids(range: std::ops::Range<u32>) -> Vec<u32> {
    range.collect()
}

#[test]
fn index_blocks_are_whole_engine_blocks() {
    for (engine, index) in [(1, 64), (16, 64), (32, 64), (48, 96), (64, 64), (100, 100), (128, 128), (0, 64)]
    {
        assert_eq!(index_block(engine), index, "{engine}");
    }
}

#[test]
fn small_blocks_gather_over_events() {
    let mut bench = Bench::new();
    let prompt = ids(0..200);
    bench.store(blocks(&[1, 2, 3], None, &prompt[..48], 16));
    assert_eq!(bench.found(&prompt), 0, "three quarters of a block");
    bench.store(blocks(&[4, 5], Some(3), &prompt[48..80], 16));
    assert_eq!(bench.found(&prompt), 1);
    bench.store(blocks(&[6, 7, 8], Some(5), &prompt[80..128], 16));
    assert_eq!(bench.found(&prompt), 2);
    assert_eq!(bench.map.index_block(), Some(64));
    // Another prompt leaves the path inside the second block.
    let other: Vec<u32> = prompt[..96].iter().copied().chain(500..532).collect();
    bench.store(blocks(&[9, 10], Some(6), &other[96..], 16));
    assert_eq!((bench.found(&other), bench.found(&prompt)), (2, 2));
    assert_eq!(bench.map.index_blocks(), 3);
}

#[test]
fn a_block_is_gone_with_any_of_its_parts_and_returns_with_it() {
    for part in [1, 2, 3, 4] {
        let mut bench = Bench::new();
        let prompt = ids(0..128);
        bench.store(blocks(&[1, 2, 3, 4, 5, 6, 7, 8], None, &prompt, 16));
        assert_eq!(bench.found(&prompt), 2);
        bench.remove(&[part]);
        assert_eq!(bench.found(&prompt), 0, "part {part}");
        assert_eq!(bench.map.index_blocks(), 1, "the second stays, for when the first returns");
        let from = (part as usize - 1) * 16;
        let parent = (part > 1).then(|| part - 1);
        bench.store(blocks(&[part], parent, &prompt[from..from + 16], 16));
        assert_eq!(bench.found(&prompt), 2, "part {part}");
    }
}

#[test]
fn what_is_removed_leaves_nothing_behind() {
    let mut bench = Bench::new();
    let prompt = ids(0..128);
    bench.store(blocks(&[1, 2, 3, 4, 5, 6, 7, 8], None, &prompt, 16));
    bench.remove(&[3, 1, 8, 2, 6, 7, 5, 4]);
    assert_eq!((bench.map.blocks(), bench.map.index_blocks()), (0, 0));
    bench.remove(&[3]);
    let counters = bench.map.counters();
    assert_eq!((counters.stored, counters.removed, counters.unknown_removed), (8, 8, 1));
}

#[test]
fn adapters_and_salts_have_chains_of_their_own() {
    let mut bench = Bench::new();
    let prompt = ids(0..64);
    bench.store(StoredBlocks { adapter: Some("a"), ..blocks(&[1, 2], None, &prompt, 32) });
    bench.store(StoredBlocks { salt: Some(9), ..blocks(&[3], None, &prompt[..32], 32) });
    bench.store(blocks(&[4], Some(3), &prompt[32..], 32));
    assert_eq!(bench.found(&prompt), 0);
    assert_eq!(bench.hit(Tier::Gpu, &prompt, Some("a"), None), 1);
    assert_eq!(bench.hit(Tier::Gpu, &prompt, None, Some(9)), 1);
}

#[test]
fn tiers_are_counted_apart() {
    let mut bench = Bench::new();
    let prompt = ids(0..128);
    bench.store(blocks(&[1, 2, 3, 4], None, &prompt, 32));
    // vLLM names offloaded blocks without their tokens.
    bench.store(StoredBlocks { tier: Tier::Host, ..blocks(&[1, 2, 3], None, &[], 32) });
    let host = |bench: &Bench| bench.hit(Tier::Host, &prompt, None, None);
    assert_eq!((bench.found(&prompt), host(&bench)), (2, 1));
    bench.remove(&[1, 2, 3, 4]);
    assert_eq!((bench.found(&prompt), host(&bench)), (0, 1));
    // Larger blocks below: the name is that of the last one inside.
    bench.store(blocks(&[3, 4], Some(2), &prompt[64..], 32));
    bench.store(StoredBlocks { tier: Tier::Host, ..blocks(&[4], None, &[], 64) });
    assert_eq!(host(&bench), 2);
    bench.remove_in(&[1, 2, 3, 4], None);
    assert_eq!((bench.map.blocks(), bench.map.index_blocks()), (0, 0));
}

#[test]
fn only_groups_that_see_the_whole_prefix_count() {
    let mut bench = Bench::new();
    let prompt = ids(0..64);
    let group = |group, full, hashes| StoredBlocks {
        group: Some(group),
        full_attention: Some(full),
        ..blocks(hashes, None, &prompt, 64)
    };
    bench.store(group(0, false, &[1]));
    assert_eq!(bench.found(&prompt), 0);
    bench.store(group(1, true, &[1]));
    bench.store(group(2, true, &[1]));
    assert_eq!(bench.found(&prompt), 1);
    for other in [0, 2] {
        let hashes = &[1];
        bench.apply(&EngineEvent::Removed { hashes, tier: Some(Tier::Gpu), group: Some(other) });
    }
    assert_eq!(bench.found(&prompt), 1);
    bench.apply(&EngineEvent::Removed { hashes: &[1], tier: Some(Tier::Gpu), group: Some(1) });
    assert_eq!((bench.found(&prompt), bench.map.counters().other_groups), (0, 4));
}

#[test]
fn what_tokens_do_not_tell_is_not_indexed_nor_what_follows() {
    let mut bench = Bench::new();
    let prompt = ids(0..192);
    bench.store(StoredBlocks { identified: 1, ..blocks(&[1, 2], None, &prompt[..128], 64) });
    bench.store(blocks(&[3], Some(2), &prompt[128..], 64));
    assert_eq!((bench.found(&prompt), bench.map.index_blocks()), (1, 1));
    let counters = bench.map.counters();
    assert_eq!((counters.opaque, counters.unplaced), (1, 1));
}

#[test]
fn ranks_are_counted_together() {
    let mut bench = Bench::new();
    let prompt = ids(0..64);
    for rank in [0, 1] {
        bench.rank = rank;
        bench.store(blocks(&[u64::from(rank) + 1], None, &prompt, 64));
    }
    bench.remove(&[2]);
    assert_eq!(bench.found(&prompt), 1, "the other rank has it");
    bench.store(blocks(&[2], None, &prompt, 64));
    bench.reset(0);
    assert_eq!(bench.found(&prompt), 1);
    bench.apply(&EngineEvent::Cleared);
    assert_eq!((bench.found(&prompt), bench.map.blocks()), (0, 0));
    let counters = bench.map.counters();
    assert_eq!((counters.resets, counters.cleared), (1, 1));
}

#[test]
fn a_restarted_engine_may_have_another_block_size() {
    let mut bench = Bench::new();
    let prompt = ids(0..256);
    bench.store(blocks(&[1], None, &prompt[..64], 64));
    bench.reset(0);
    bench.store(blocks(&[2], None, &prompt[..16], 16));
    assert_eq!(bench.map.index_block(), Some(64));
    // Without a reset: blocks that are shorter are ends, which nobody shares.
    bench.store(blocks(&[3], Some(2), &prompt[16..24], 8));
    assert_eq!(bench.map.counters().short, 1);
    // Larger ones mean that the first ones were.
    bench.store(blocks(&[4, 5], None, &prompt, 128));
    assert_eq!((bench.map.counters().resized, bench.map.index_block()), (1, Some(128)));
    assert_eq!((bench.found(&prompt), bench.map.blocks()), (2, 2));
}

#[test]
fn a_name_may_be_used_again() {
    let mut bench = Bench::new();
    let (prompt, other) = (ids(0..64), ids(300..364));
    bench.store(blocks(&[1, 2, 3, 4], None, &prompt, 16));
    bench.store(blocks(&[1, 2, 3, 4], None, &prompt, 16));
    assert_eq!((bench.map.counters().repeated, bench.map.counters().replaced), (4, 0));
    bench.store(blocks(&[2, 5], Some(1), &other[..32], 16));
    assert_eq!((bench.found(&prompt), bench.map.counters().replaced), (0, 1));
    assert_eq!(bench.map.blocks(), 3, "what came after the old one went with it");
    bench.store(blocks(&[1], None, &other[..16], 16));
    bench.store(blocks(&[6, 7, 8], Some(1), &other[16..], 16));
    assert_eq!((bench.found(&other), bench.map.blocks()), (1, 4));
    // A name that would come after itself.
    bench.store(blocks(&[1], Some(7), &other[..16], 16));
    assert_eq!((bench.found(&other), bench.map.counters().malformed), (1, 1));
}

#[test]
fn nonsense_changes_nothing_and_is_counted() {
    let mut bench = Bench::new();
    let prompt = ids(0..64);
    bench.store(blocks(&[1, 2], None, &prompt, 16));
    bench.store(blocks(&[1], None, &prompt, 0));
    bench.store(blocks(&[], None, &[], 16));
    bench.store(blocks(&[1], None, &prompt, u32::MAX));
    assert_eq!(bench.map.counters().malformed, 4);
    assert_eq!((bench.map.blocks(), bench.map.index_block()), (0, None));
    for rank in 0..1_000 {
        bench.rank = rank;
        bench.remove(&[1]);
    }
    assert!(bench.map.bytes() < 100_000);
}

#[test]
fn no_more_than_the_limit_is_followed() {
    let mut bench = Bench::new();
    bench.map = EngineMap::new(MODEL, 100 * EngineMap::block_bytes(64));
    let prompt = ids(0..64 * 150);
    let names: Vec<u64> = (1..151).collect();
    bench.store(blocks(&names, None, &prompt, 64));
    assert_eq!((bench.found(&prompt), bench.map.blocks()), (100, 100));
    assert_eq!((bench.map.counters().over_limit, bench.map.counters().unplaced), (1, 49));
    bench.remove(&[1]);
    bench.store(blocks(&[1], None, &prompt[..64], 64));
    assert_eq!(bench.found(&prompt), 100, "room is made by what is removed");
}

#[test]
fn the_limit_is_one_of_bytes_for_all_ranks_together() {
    for size in [1u32, 16, 48, 64, 512] {
        let limit = 400_000;
        let mut bench = Bench::new();
        bench.map = EngineMap::new(MODEL, limit);
        for rank in 0..3 {
            bench.rank = rank;
            let tokens = ids(rank * 1_000_000..rank * 1_000_000 + size * 2_000);
            let names: Vec<u64> = (1..2_001).map(|n| n + 10_000 * u64::from(rank)).collect();
            bench.store(blocks(&names, None, &tokens, size));
        }
        let (bytes, most) = (bench.map.bytes(), limit / EngineMap::block_bytes(size));
        assert!(bytes <= limit, "{size}: {bytes} bytes");
        assert!(bytes >= limit * 3 / 4, "{size}: {bytes} bytes: the bound is not used");
        assert!(bench.map.blocks().abs_diff(most) <= 1, "{size}: {} of {most}", bench.map.blocks());
        assert!(bench.map.counters().over_limit > 0);
    }
}

#[test]
fn what_is_told_again_is_confirmed_again() {
    let mut map = EngineMap::new(MODEL, 10 << 20);
    let (prompt, mut ops) = (ids(0..128), Vec::new());
    let event = EngineEvent::Stored(blocks(&[1, 2, 3, 4, 5, 6, 7, 8], None, &prompt, 16));
    map.apply(0, &event, &mut ops);
    let first = std::mem::take(&mut ops);
    assert_eq!(first.len(), 2);
    map.apply(0, &event, &mut ops);
    assert_eq!(ops, first, "the index may have dropped it for want of memory");
    // A part alone is nothing to confirm.
    ops.clear();
    map.apply(0, &EngineEvent::Stored(blocks(&[2], Some(1), &prompt[16..32], 16)), &mut ops);
    assert_eq!(ops, []);
}

/// TensorRT-LLM tells partial blocks too, and no block size.
fn undeclared<'a>(name: &'a [u64], parent: Option<u64>, tokens: &'a [u32]) -> StoredBlocks<'a> {
    StoredBlocks { declared: false, ..blocks(name, parent, tokens, tokens.len() as u32) }
}

#[test]
fn a_block_size_is_not_learned_from_a_partial_block() {
    let mut bench = Bench::new();
    let (health, prompt) = (ids(900..903), ids(0..96));
    bench.store(undeclared(&[1], None, &health));
    assert_eq!(bench.map.index_block(), None, "three tokens may be all of a short prompt");
    bench.store(undeclared(&[2], None, &prompt[..32]));
    assert_eq!(bench.map.index_block(), None, "and so may 32");
    bench.store(undeclared(&[3], Some(2), &prompt[32..64]));
    assert_eq!(bench.map.index_block(), Some(64), "only after a full block comes another");
    assert_eq!(bench.found(&prompt), 1);
    bench.store(undeclared(&[4], Some(3), &prompt[64..70]));
    bench.store(undeclared(&[5], None, &health));
    assert_eq!((bench.map.index_block(), bench.found(&prompt)), (Some(64), 1));
    assert_eq!(bench.map.counters().short, 2);
}

#[test]
fn a_smaller_size_that_was_seen_first_takes_nothing_with_it() {
    let mut map = EngineMap::new(MODEL, 10 << 20);
    let (prompt, mut ops) = (ids(0..64), Vec::new());
    map.apply(0, &EngineEvent::Stored(undeclared(&[1], None, &prompt[..3])), &mut ops);
    map.apply(0, &EngineEvent::Stored(undeclared(&[2], None, &prompt[..32])), &mut ops);
    assert_eq!(ops, [], "forgetting the endpoint would take what was served there");
}

#[test]
fn what_is_held_can_be_told_anew() {
    let mut bench = Bench::new();
    let prompt = ids(0..256);
    let other: Vec<u32> = prompt[..128].iter().copied().chain(900..1028).collect();
    bench.store(blocks(&[1, 2, 3, 4], None, &prompt, 64));
    bench.rank = 1;
    bench.store(blocks(&[11, 12], None, &prompt[..128], 64));
    bench.store(blocks(&[13, 14], Some(12), &other[128..], 64));
    bench.store(StoredBlocks { tier: Tier::Host, ..blocks(&[13], None, &[], 64) });
    bench.remove(&[11]);
    let mut ops = Vec::new();
    bench.map.restate(&mut ops);
    let mut told = [BTreeSet::new(), BTreeSet::new()];
    for op in &ops {
        let IndexOp::Confirm { hash, parent, tier } = *op else { panic!("{op:?}") };
        let told = &mut told[tier_index(tier)];
        let known = parent
            .is_none_or(|above| told.contains(&above) || !bench.held[tier_index(tier)].contains(&above));
        assert!(known, "what it follows comes first");
        assert!(told.insert(hash));
    }
    assert_eq!(told, bench.held);
}
