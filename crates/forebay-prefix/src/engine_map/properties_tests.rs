//! Random histories of an engine beside the plainest account of what it holds.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::*;
use crate::{Kind, chain, seed, token_blocks};

const MODEL: &str = "m";

/// A path in the tree of prompts: which of a few blocks comes at each step.
type Path = Vec<u8>;

#[derive(Clone, Debug)]
enum Action {
    /// A prompt is run: every block of its path that is missing is stored,
    /// so many in one event.
    Run {
        path: Path,
        per_event: usize,
    },
    /// One of the blocks that are held goes, whatever comes after it.
    Evict {
        which: prop::sample::Index,
    },
    /// A held block is copied to the host, or one there goes.
    Offload {
        which: prop::sample::Index,
    },
    DropCopy {
        which: prop::sample::Index,
    },
    Clear,
    /// A batch is lost and no replay brings it.
    Lose {
        path: Path,
    },
    Restart,
}

fn action() -> impl Strategy<Value = Action> {
    let path = || prop::collection::vec(0u8..2, 1..14);
    let which = any::<prop::sample::Index>;
    prop_oneof![
        8 => (path(), 1usize..6).prop_map(|(path, per_event)| Action::Run { path, per_event }),
        6 => which().prop_map(|which| Action::Evict { which }),
        2 => which().prop_map(|which| Action::Offload { which }),
        1 => which().prop_map(|which| Action::DropCopy { which }),
        1 => Just(Action::Clear),
        1 => path().prop_map(|path| Action::Lose { path }),
        1 => Just(Action::Restart),
    ]
}

/// An engine: what it holds by path and tier, and the names of its blocks.
struct Engine {
    size: u32,
    seq: u64,
    /// Names differ from process to process, as with a random seed.
    epoch: u64,
    held: [BTreeSet<Path>; 2],
}

impl Engine {
    fn name(&self, path: &[u8]) -> u64 {
        path.iter().fold(self.epoch << 40, |name, &step| name * 2 + u64::from(step) + 1)
    }

    fn tokens(&self, path: &[u8]) -> Vec<u32> {
        let block = |at: usize| (0..self.size).map(move |i| (at as u32 + u32::from(path[at]) * 1000) * 7 + i);
        (0..path.len()).flat_map(block).collect()
    }

    fn pick(&self, tier: usize, which: &prop::sample::Index) -> Option<Path> {
        let held: Vec<_> = self.held[tier].iter().collect();
        (!held.is_empty()).then(|| (*which.get(&held)).clone())
    }

    /// What an index should hold: whole index blocks all of whose parts are held.
    fn expected(&self, tier: usize) -> BTreeSet<u64> {
        let parts = (index_block(self.size) / self.size) as usize;
        let held = &self.held[tier];
        let whole = |path: &&Path| {
            path.len().is_multiple_of(parts)
                && (0..parts).all(|less| held.contains(&path[..path.len() - less]))
        };
        let hash = |path: &Path| {
            let blocks = token_blocks(&self.tokens(path), index_block(self.size) as usize);
            *chain(seed(MODEL, None, None, Kind::Tokens), &blocks).last().unwrap()
        };
        held.iter().filter(whole).map(hash).collect()
    }
}

/// The gateway's side: numbers, the map, and the index it leads.
struct Gateway {
    sequence: Sequence,
    map: EngineMap,
    index: [BTreeMap<u64, Option<u64>>; 2],
}

impl Gateway {
    fn follow(&mut self, ops: &[IndexOp]) {
        for op in ops {
            match *op {
                // What is told again is confirmed again.
                IndexOp::Confirm { hash, parent, tier } => {
                    let known = self.index[tier_index(tier)].insert(hash, parent);
                    assert!(known.is_none_or(|known| known == parent));
                }
                IndexOp::Remove { hash, tier } => {
                    assert!(self.index[tier_index(tier)].remove(&hash).is_some());
                }
                IndexOp::Forget => self.index = Default::default(),
            }
        }
    }

    /// One batch arrives. Missing ones never come; the engine goes on from
    /// what it holds, so after a loss only what is stored anew can be known.
    fn receive(&mut self, seq: u64, events: &[EngineEvent<'_>]) {
        let mut ops = Vec::new();
        loop {
            match self.sequence.published(seq) {
                Step::Apply => break,
                Step::Duplicate => return,
                Step::Gap { .. } => {
                    self.sequence.skip_to(seq);
                    self.map.reset(0, &mut ops);
                }
                Step::Restart => self.map.reset(0, &mut ops),
            }
        }
        events.iter().for_each(|event| self.map.apply(0, event, &mut ops));
        self.follow(&ops);
    }
}

fn run(size: u32, actions: &[Action]) {
    let mut engine = Engine { size, seq: 0, epoch: 1, held: Default::default() };
    let mut gateway = Gateway {
        sequence: Sequence::default(),
        map: EngineMap::new(MODEL, 10 << 20),
        index: Default::default(),
    };
    // After a loss the engine holds what nobody told of: only containment can be asked.
    let mut complete = true;
    for action in actions {
        match action {
            Action::Run { path, per_event } => send_run(&mut engine, &mut gateway, path, *per_event),
            // The engine stores it, and nobody sees the batch. Not the first of
            // a process: without it a number tells nothing of a restart.
            Action::Lose { path } if engine.seq > 0 => {
                engine.held[0].extend((1..=path.len()).map(|n| path[..n].to_vec()));
                complete = false;
                engine.seq += 1;
            }
            Action::Lose { .. } => {}
            Action::Restart => {
                engine.held = Default::default();
                (engine.seq, engine.epoch) = (0, engine.epoch + 1);
                gateway.sequence.reconnected();
                complete = true;
            }
            _ => {
                send_other(&mut engine, &mut gateway, action);
                complete |= matches!(action, Action::Clear);
            }
        }
        // Until an engine that restarted says something, nobody can know.
        if engine.seq == 0 {
            continue;
        }
        for tier in 0..2 {
            let known: BTreeSet<u64> = gateway.index[tier].keys().copied().collect();
            let expected = engine.expected(tier);
            if complete {
                assert_eq!(known, expected, "after {action:?}");
            } else {
                assert!(known.is_subset(&expected), "after {action:?}");
            }
        }
    }
    // Whatever was lost before, a cache that was cleared is known again.
    send_other(&mut engine, &mut gateway, &Action::Clear);
    assert_eq!(gateway.map.blocks(), 0);
    let path = vec![1; 9];
    send_run(&mut engine, &mut gateway, &path, 2);
    let known: BTreeSet<u64> = gateway.index[0].keys().copied().collect();
    assert_eq!(known, engine.expected(0));
    // Parents are elements of the same chain.
    let parents: BTreeSet<u64> = gateway.index[0].values().flatten().copied().collect();
    assert!(parents.is_subset(&known));
}

fn send_run(engine: &mut Engine, gateway: &mut Gateway, path: &[u8], per_event: usize) {
    let missing: Vec<usize> = (1..=path.len()).filter(|&n| !engine.held[0].contains(&path[..n])).collect();
    let tokens = engine.tokens(path);
    let size = engine.size as usize;
    // Neighbours share an event, as many as allowed.
    let mut groups: Vec<Vec<usize>> = Vec::new();
    for n in missing {
        match groups.last_mut() {
            Some(group) if group.len() < per_event && group.last() == Some(&(n - 1)) => group.push(n),
            _ => groups.push(vec![n]),
        }
    }
    for group in &groups {
        let names: Vec<u64> = group.iter().map(|&n| engine.name(&path[..n])).collect();
        let (first, last) = (group[0], group[group.len() - 1]);
        let event = EngineEvent::Stored(StoredBlocks {
            hashes: &names,
            parent: (first > 1).then(|| engine.name(&path[..first - 1])),
            tokens: &tokens[(first - 1) * size..last * size],
            block_size: engine.size,
            declared: true,
            adapter: None,
            salt: None,
            tier: Tier::Gpu,
            group: Some(0),
            full_attention: Some(true),
            identified: names.len(),
        });
        gateway.receive(engine.seq, &[event]);
        engine.seq += 1;
    }
    engine.held[0].extend((1..=path.len()).map(|n| path[..n].to_vec()));
}

fn send_other(engine: &mut Engine, gateway: &mut Gateway, action: &Action) {
    let removed = |names: &[u64], tier, gateway: &mut Gateway, seq| {
        let event = EngineEvent::Removed { hashes: names, tier: Some(tier), group: Some(0) };
        gateway.receive(seq, &[event]);
    };
    match action {
        Action::Evict { which } => {
            let Some(path) = engine.pick(0, which) else { return };
            removed(&[engine.name(&path)], Tier::Gpu, gateway, engine.seq);
            engine.held[0].remove(&path);
        }
        Action::DropCopy { which } => {
            let Some(path) = engine.pick(1, which) else { return };
            removed(&[engine.name(&path)], Tier::Host, gateway, engine.seq);
            engine.held[1].remove(&path);
        }
        Action::Offload { which } => {
            let Some(path) = engine.pick(0, which) else { return };
            let event = EngineEvent::Stored(StoredBlocks {
                hashes: &[engine.name(&path)],
                parent: None,
                tokens: &[],
                block_size: engine.size,
                declared: true,
                adapter: None,
                salt: None,
                tier: Tier::Host,
                group: Some(0),
                full_attention: Some(true),
                identified: 1,
            });
            gateway.receive(engine.seq, &[event]);
            engine.held[1].insert(path);
        }
        _ => {
            gateway.receive(engine.seq, &[EngineEvent::Cleared]);
            engine.held = Default::default();
        }
    }
    engine.seq += 1;
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn the_index_holds_what_the_engine_holds(
        size in prop::sample::select(vec![16u32, 24, 32, 64]),
        actions in prop::collection::vec(action(), 1..60),
    ) {
        run(size, &actions);
    }

    /// Names at random, so that they contradict each other in every way.
    #[test]
    fn no_history_breaks_it(
        events in prop::collection::vec((0u8..4, 1u64..12, 0u64..12, 0u32..40, 0u32..3), 1..200),
    ) {
        let mut map = EngineMap::new(MODEL, 8 * EngineMap::block_bytes(16));
        let mut held: [BTreeSet<u64>; 2] = Default::default();
        let mut ops = Vec::new();
        for (kind, name, parent, token, rank) in events {
            let tokens = vec![token / 20; 32];
            let tier = TIERS[usize::from(token % 5 == 0)];
            let names = [name, name % 5 + 1];
            let event = match kind {
                0 | 1 => EngineEvent::Stored(StoredBlocks {
                    hashes: &names,
                    parent: (parent > 3).then_some(parent),
                    tokens: if kind == 0 || token % 2 == 0 { &tokens } else { &[] },
                    block_size: 16,
                    declared: true,
                    adapter: None,
                    salt: None,
                    tier,
                    group: None,
                    full_attention: None,
                    identified: 2,
                }),
                2 => EngineEvent::Removed { hashes: &names[..1], tier: (token > 9).then_some(tier), group: None },
                _ if token > 35 => EngineEvent::Cleared,
                _ => EngineEvent::Removed { hashes: &names, tier: Some(tier), group: None },
            };
            map.apply(rank, &event, &mut ops);
            for op in ops.drain(..) {
                match op {
                    IndexOp::Confirm { hash, tier, .. } => {
                        held[tier_index(tier)].insert(hash);
                    }
                    IndexOp::Remove { hash, tier } => prop_assert!(held[tier_index(tier)].remove(&hash)),
                    IndexOp::Forget => held = Default::default(),
                }
            }
            prop_assert!(map.blocks() <= 8);
            let all: BTreeSet<u64> = held.iter().flatten().copied().collect();
            prop_assert_eq!(all.len(), map.index_blocks());
        }
        for rank in 0..3 {
            map.reset(rank, &mut ops);
        }
        prop_assert_eq!((map.blocks(), map.index_blocks()), (0, 0));
    }
}
