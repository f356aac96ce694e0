use std::time::Duration;

use forebay_core::Time;

use super::*;

/// A small engine: a step costs 10 ms plus 1 ms a token.
fn small(blocks: u32, seqs: u32, batched: u32) -> Profile {
    Profile {
        name: "small",
        a: 10.0,
        b: 1.0,
        c: 0.0,
        d: 0.0,
        e: 0.0,
        kv_tokens: blocks * 4,
        max_num_seqs: seqs,
        max_batched_tokens: batched,
        block_size: 4,
    }
}

/// A request whose tokens are `tag` repeated, so that equal tags share.
fn request(tag: u32, prompt: u32, output: u32) -> EngineRequest {
    let tokens = vec![tag; (prompt + output) as usize];
    EngineRequest {
        chain: block_chain(&tokens, 4, 0),
        prompt_tokens: prompt,
        output_tokens: output,
        priority: 0,
    }
}

fn ms(ms: u64) -> Time {
    Time::ZERO + Duration::from_millis(ms)
}

fn drain(engine: &mut EngineModel) -> Vec<EngineEvent> {
    let mut events = Vec::new();
    while let Some(at) = engine.next_time() {
        engine.advance(at, &mut events);
    }
    events
}

fn cached(events: &[EngineEvent], id: SeqId) -> Option<u32> {
    events.iter().find_map(|e| match e {
        EngineEvent::Started { seq, cached_tokens, .. } if *seq == id => Some(*cached_tokens),
        _ => None,
    })
}

fn token_times(events: &[EngineEvent], id: SeqId) -> Vec<f64> {
    let of = |e: &EngineEvent| matches!(e, EngineEvent::Token { seq, .. } if *seq == id);
    events.iter().filter(|e| of(e)).map(|e| e.at().as_millis_f64()).collect()
}

#[test]
fn one_sequence_takes_the_steps_the_formula_says() {
    let mut engine = EngineModel::new(small(100, 8, 16));
    let id = engine.enqueue(ms(5), request(1, 20, 3)).unwrap();
    let events = drain(&mut engine);
    // A chunk of 16 (26 ms), one of 4 (14 ms), then decodes of 11 ms.
    assert_eq!(token_times(&events, id), [45.0, 56.0, 67.0]);
    assert_eq!(events[0], EngineEvent::Started { seq: id, at: ms(5), cached_tokens: 0 });
    assert_eq!(events[4], EngineEvent::Finished { seq: id, at: ms(67) });
    let load = engine.load();
    assert_eq!((load.running, load.waiting, load.blocks_used), (0, 0, 0));
    assert_eq!((load.prompt_tokens, load.generation_tokens, load.steps), (20, 3, 4));
    assert_eq!(engine.next_time(), None);
}

#[test]
fn decodes_share_a_step_with_a_prefill_chunk() {
    let mut engine = EngineModel::new(small(100, 8, 16));
    let first = engine.enqueue(ms(0), request(1, 4, 3)).unwrap();
    let mut events = Vec::new();
    engine.advance(ms(14), &mut events);
    // Arrives while the step 14..25 ms runs; its chunk gets what the decode leaves.
    let second = engine.enqueue(ms(15), request(2, 20, 1)).unwrap();
    engine.advance(ms(1000), &mut events);
    assert_eq!(token_times(&events, first), [14.0, 25.0, 51.0]);
    // 25..51: 1 + 15 tokens; 51..66: the other 5.
    assert_eq!(token_times(&events, second), [66.0]);
}

#[test]
fn a_second_turn_hits_the_first_turns_answer() {
    let mut engine = EngineModel::new(small(100, 8, 64));
    engine.enqueue(ms(0), request(1, 10, 7)).unwrap();
    drain(&mut engine);
    // 17 tokens are known, the last one was never computed: 16 are cached.
    let next = engine.enqueue(ms(500), request(1, 30, 1)).unwrap();
    let events = drain(&mut engine);
    assert_eq!(cached(&events, next), Some(16));
    assert_eq!(engine.load().prefix_hits, 16);
    assert_eq!(engine.load().prefix_queries, 40);
}

#[test]
fn a_hit_never_covers_the_whole_prompt() {
    let mut engine = EngineModel::new(small(100, 8, 64));
    engine.enqueue(ms(0), request(1, 16, 1)).unwrap();
    drain(&mut engine);
    let again = engine.enqueue(ms(100), request(1, 16, 1)).unwrap();
    let events = drain(&mut engine);
    assert_eq!(cached(&events, again), Some(12));
    // Only the last block is computed: 10 + 4 ms.
    assert_eq!(token_times(&events, again), [114.0]);
}

#[test]
fn equal_prompts_that_arrive_together_are_computed_once() {
    let mut engine = EngineModel::new(small(100, 8, 64));
    engine.enqueue(ms(0), request(1, 17, 1)).unwrap();
    let second = engine.enqueue(ms(0), request(1, 17, 1)).unwrap();
    let events = drain(&mut engine);
    assert_eq!(cached(&events, second), Some(16));
}

#[test]
fn the_cache_forgets_the_oldest_prompt_first() {
    let mut engine = EngineModel::new(small(10, 8, 64));
    for (at, tag) in [(0, 1), (100, 2)] {
        engine.enqueue(ms(at), request(tag, 16, 0)).unwrap();
        drain(&mut engine);
    }
    // 8 of 10 blocks are cached; this takes the 2 fresh ones and 3 of tag 1.
    engine.enqueue(ms(200), request(3, 20, 0)).unwrap();
    drain(&mut engine);
    let two = engine.enqueue(ms(300), request(2, 17, 0)).unwrap();
    let one = engine.enqueue(ms(300), request(1, 17, 0)).unwrap();
    let events = drain(&mut engine);
    assert_eq!(cached(&events, two), Some(16));
    assert!(cached(&events, one).unwrap() <= 4);
}

#[test]
fn the_last_arrival_gives_way_when_memory_runs_out_and_is_computed_again() {
    // 6 blocks of 4; two sequences of 8 + 8 tokens need 4 blocks each.
    let mut engine = EngineModel::new(small(6, 8, 64));
    let first = engine.enqueue(ms(0), request(1, 8, 8)).unwrap();
    let second = engine.enqueue(ms(0), request(2, 8, 8)).unwrap();
    let events = drain(&mut engine);
    let preempted: Vec<_> = events.iter().filter(|e| matches!(e, EngineEvent::Preempted { .. })).collect();
    assert!(!preempted.is_empty() && preempted.iter().all(|e| e.seq() == second), "{events:?}");
    for id in [first, second] {
        assert_eq!(token_times(&events, id).len(), 8);
    }
    assert!(token_times(&events, first)[7] < token_times(&events, second)[7]);
    let load = engine.load();
    assert_eq!((load.preemptions, load.blocks_used), (preempted.len() as u64, 0));
    // Counted once, however often it was computed.
    assert_eq!((load.prompt_tokens, load.prefix_queries), (16, 16));
}

#[test]
fn the_queue_is_served_in_order_and_by_priority() {
    let mut engine = EngineModel::new(small(100, 1, 64));
    let a = engine.enqueue(ms(0), request(1, 4, 1)).unwrap();
    let b = engine.enqueue(ms(0), request(2, 4, 1)).unwrap();
    let urgent = engine.enqueue(ms(0), EngineRequest { priority: -1, ..request(3, 4, 1) }).unwrap();
    assert_eq!((engine.load().waiting, engine.load().running), (3, 0));
    let mut events = Vec::new();
    engine.advance(ms(0), &mut events);
    assert_eq!((engine.load().waiting, engine.load().running), (2, 1));
    events.extend(drain(&mut engine));
    let order: Vec<_> = events.iter().filter(|e| matches!(e, EngineEvent::Finished { .. })).collect();
    assert_eq!(order.iter().map(|e| e.seq()).collect::<Vec<_>>(), [urgent, a, b]);
}

#[test]
fn a_prompt_that_does_not_fit_waits_and_holds_back_later_ones() {
    let mut engine = EngineModel::new(small(6, 8, 64));
    let first = engine.enqueue(ms(0), request(1, 12, 4)).unwrap();
    let big = engine.enqueue(ms(1), request(2, 20, 1)).unwrap();
    let little = engine.enqueue(ms(2), request(3, 4, 1)).unwrap();
    let events = drain(&mut engine);
    let start = |id| events.iter().position(|e| matches!(e, EngineEvent::Started { seq, .. } if *seq == id));
    let end = |id| events.iter().position(|e| matches!(e, EngineEvent::Finished { seq, .. } if *seq == id));
    assert!(end(first) < start(big) && start(big) < start(little), "{events:?}");
}

#[test]
fn cancel_works_in_every_state() {
    let mut engine = EngineModel::new(small(100, 1, 8));
    let running = engine.enqueue(ms(0), request(1, 4, 100)).unwrap();
    let waiting = engine.enqueue(ms(0), request(2, 4, 1)).unwrap();
    let prefilling = engine.enqueue(ms(0), request(3, 40, 1)).unwrap();
    let mut events = Vec::new();
    engine.advance(ms(30), &mut events);
    assert_eq!(token_times(&events, running).len(), 2);

    assert!(engine.cancel(ms(30), waiting));
    assert_eq!(engine.load().waiting, 1);
    assert!(engine.cancel(ms(31), running));
    assert_eq!((engine.load().running, engine.load().blocks_used), (0, 0));
    // The step that was under way ends without it; then the last one begins.
    events.clear();
    engine.advance(ms(40), &mut events);
    assert_eq!(cached(&events, prefilling), Some(0));
    assert_eq!(engine.load().running, 1);
    assert!(engine.cancel(ms(41), prefilling));
    assert_eq!(engine.load().blocks_used, 0);
    for id in [running, waiting, prefilling] {
        assert!(!engine.cancel(ms(42), id), "a second cancel finds nothing");
    }
    events.clear();
    events.extend(drain(&mut engine));
    assert_eq!(events, []);
}

#[test]
fn a_cancelled_slot_taken_by_another_gets_no_token_of_the_step_under_way() {
    let mut engine = EngineModel::new(small(100, 4, 64));
    let gone = engine.enqueue(ms(0), request(1, 4, 4)).unwrap();
    let mut events = Vec::new();
    engine.advance(ms(1), &mut events);
    engine.cancel(ms(2), gone);
    let next = engine.enqueue(ms(3), request(2, 4, 1)).unwrap();
    events.extend(drain(&mut engine));
    // The step 0..14 ms was for nobody; the next takes 14 ms.
    assert_eq!(token_times(&events, next), [28.0]);
    assert_eq!(token_times(&events, gone), [0.0; 0]);
}

#[test]
fn slowdown_stretches_later_steps() {
    let mut engine = EngineModel::new(small(100, 4, 64));
    engine.set_slowdown(2.0);
    let id = engine.enqueue(ms(0), request(1, 4, 1)).unwrap();
    assert_eq!(token_times(&drain(&mut engine), id), [28.0]);
    for odd in [f64::NAN, f64::INFINITY, -1.0] {
        engine.set_slowdown(odd);
        engine.enqueue(ms(100), request(2, 4, 1)).unwrap();
        drain(&mut engine);
    }
}

#[test]
fn a_request_without_output_ends_with_its_prefill() {
    let mut engine = EngineModel::new(small(100, 4, 64));
    let id = engine.enqueue(ms(0), request(1, 6, 0)).unwrap();
    let events = drain(&mut engine);
    assert_eq!(events[1..], [EngineEvent::Finished { seq: id, at: ms(16) }]);
}

#[test]
fn impossible_requests_are_refused_with_numbers() {
    let mut engine = EngineModel::new(small(4, 4, 64));
    assert_eq!(engine.enqueue(ms(0), EngineRequest::default()), Err(EnqueueError::EmptyPrompt));
    let huge = EngineRequest { prompt_tokens: u32::MAX, output_tokens: u32::MAX, ..Default::default() };
    assert_eq!(
        engine.enqueue(ms(0), huge).unwrap_err().to_string(),
        "prompt and answer need 2147483648 KV blocks, the engine has 4"
    );
    assert_eq!(engine.next_time(), None);
}
