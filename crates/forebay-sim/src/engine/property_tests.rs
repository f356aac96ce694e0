use std::collections::{BTreeMap, BTreeSet};

use forebay_core::Time;
use proptest::prelude::*;

use super::*;

#[derive(Clone, Debug)]
enum Call {
    Enqueue { tag: u32, prompt: u32, output: u32, priority: i32 },
    Cancel { which: usize },
    Slow { factor: f64 },
    Reset,
}

fn calls() -> impl Strategy<Value = Vec<(u64, Call)>> {
    let enqueue = (0u32..4, 1u32..60, 0u32..30, -1i32..2)
        .prop_map(|(tag, prompt, output, priority)| Call::Enqueue { tag, prompt, output, priority });
    let call = prop_oneof![
        6 => enqueue,
        2 => (0usize..40).prop_map(|which| Call::Cancel { which }),
        1 => (0.5f64..3.0).prop_map(|factor| Call::Slow { factor }),
        1 => Just(Call::Reset),
    ];
    proptest::collection::vec((0u64..60_000_000, call), 1..40)
}

fn profile(seqs: u32, batched: u32) -> Profile {
    Profile {
        name: "small",
        a: 5.0,
        b: 0.3,
        c: 0.001,
        d: 0.002,
        e: 0.1,
        kv_tokens: 100,
        max_num_seqs: seqs,
        max_batched_tokens: batched,
        block_size: 4,
    }
}

struct Run {
    events: Vec<EngineEvent>,
    wanted: BTreeMap<SeqId, u32>,
    cancelled: BTreeMap<SeqId, Time>,
    end: EngineLoad,
    changes: Vec<BlockChanges>,
}

/// Plays the calls; between them time goes in one leap, or from one
/// `next_time` to the next.
fn play(profile: Profile, calls: &[(u64, Call)], small_steps: bool) -> Run {
    let mut engine = EngineModel::new(profile);
    engine.log_block_changes();
    let (mut events, mut now) = (Vec::new(), 0u64);
    let mut ids = Vec::new();
    let mut wanted = BTreeMap::new();
    let mut cancelled = BTreeMap::new();
    let go = |engine: &mut EngineModel, to: Time, events: &mut Vec<EngineEvent>| {
        while let Some(at) = engine.next_time().filter(|at| small_steps && *at < to) {
            engine.advance(at, events);
            check(engine);
        }
        engine.advance(to, events);
        check(engine);
    };
    for (gap, call) in calls {
        now += gap;
        let at = Time::from_nanos(now);
        go(&mut engine, at, &mut events);
        match *call {
            Call::Enqueue { tag, prompt, output, priority } => {
                let chain = block_chain(&vec![tag; (prompt + output) as usize], 4, 0);
                let request = EngineRequest { chain, prompt_tokens: prompt, output_tokens: output, priority };
                if let Ok(id) = engine.enqueue(at, request) {
                    ids.push(id);
                    wanted.insert(id, output);
                }
            }
            Call::Cancel { which } => {
                if let Some(id) = ids.get(which)
                    && engine.cancel(at, *id)
                {
                    cancelled.insert(*id, at);
                }
            }
            Call::Slow { factor } => engine.set_slowdown(factor),
            Call::Reset => {
                let idle = engine.load().blocks_used == 0;
                assert_eq!(engine.reset_prefix_cache(at), idle);
            }
        }
        check(&engine);
    }
    go(&mut engine, Time::from_nanos(now + 3_600_000_000_000), &mut events);
    assert_eq!(engine.next_time(), None, "all work ends within an hour");
    let changes = engine.take_block_changes();
    // A reset with no step after it is not told yet.
    let untold = engine.pool.log.clone().unwrap_or_default();
    let told = changes.iter().flat_map(|batch| &batch.changes).chain(&untold);
    assert_eq!(replayed(told), engine.pool.hashes(), "the log tells what the cache holds");
    Run { events, wanted, cancelled, end: engine.load(), changes }
}

/// What the cache must hold after these changes.
fn replayed<'a>(changes: impl Iterator<Item = &'a BlockChange>) -> BTreeSet<u64> {
    let mut held = BTreeSet::new();
    for change in changes {
        match change {
            BlockChange::Stored { hash, parent, index, .. } => {
                assert!(held.insert(*hash), "stored twice");
                assert_eq!(parent.is_none(), *index == 0);
            }
            BlockChange::Removed { hash } => assert!(held.remove(hash), "removed without being there"),
            BlockChange::Cleared => held.clear(),
        }
    }
    held
}

fn check(engine: &EngineModel) {
    let load = engine.load();
    assert!(load.blocks_used <= load.blocks_total);
    let held: usize = engine.seqs.iter().map(|(_, s)| s.table.len()).sum();
    assert!(load.blocks_used as usize <= held, "every used block has a holder");
    assert_eq!(engine.seqs.len(), engine.running.len() + engine.waiting.len());
    assert!(engine.running.len() <= engine.profile.max_num_seqs as usize);
    for (_, seq) in &engine.seqs {
        assert!(seq.running || seq.table.is_empty(), "who waits holds nothing");
        assert!(seq.table.len() as u32 * 4 >= seq.computed, "every computed token has a block");
    }
}

proptest! {
    #[test]
    fn every_sequence_gets_its_tokens_or_is_cancelled(
        calls in calls(), seqs in 1u32..6, batched in 1u32..40,
    ) {
        let run = play(profile(seqs, batched), &calls, false);
        prop_assert!(run.events.windows(2).all(|w| w[0].at() <= w[1].at()), "times are monotone");
        prop_assert_eq!((run.end.blocks_used, run.end.running, run.end.waiting), (0, 0, 0));
        for (id, output) in &run.wanted {
            let of = run.events.iter().filter(|e| e.seq() == *id);
            let mut next = 0;
            let mut ends = 0;
            for event in of {
                match event {
                    EngineEvent::Token { index, .. } => {
                        prop_assert_eq!(*index, next);
                        next += 1;
                    }
                    EngineEvent::Finished { .. } => ends += 1,
                    EngineEvent::Started { .. } | EngineEvent::Preempted { .. } => {}
                }
                if let Some(at) = run.cancelled.get(id) {
                    prop_assert!(event.at() <= *at, "nothing follows a cancel");
                }
            }
            if run.cancelled.contains_key(id) {
                prop_assert_eq!(ends, 0);
            } else {
                prop_assert_eq!((next, ends), (*output, 1));
            }
        }
    }

    #[test]
    fn one_leap_equals_small_steps_and_equal_calls_equal_events(
        calls in calls(), seqs in 1u32..6, batched in 1u32..40,
    ) {
        let leap = play(profile(seqs, batched), &calls, false);
        let again = play(profile(seqs, batched), &calls, false);
        let steps = play(profile(seqs, batched), &calls, true);
        prop_assert_eq!(&leap.events, &again.events);
        prop_assert_eq!(&leap.events, &steps.events);
        prop_assert_eq!(leap.end, steps.end);
        prop_assert_eq!(&leap.changes, &steps.changes);
        prop_assert!(leap.changes.windows(2).all(|w| w[0].at < w[1].at), "a batch for a step");
    }
}
