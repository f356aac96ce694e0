use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::sync::{Arc, Weak};
use std::time::Duration;

use forebay_core::*;
use forebay_gate::PoolConfig;

use crate::{EndpointKey, EngineCaches, Live};

const POOL: PoolId = PoolId(0);

fn live() -> (Arc<Live<()>>, EndpointKey) {
    let live = Live::new(vec![0], Some(1), forebay_prefix::IndexConfig::default());
    live.configure(POOL, PoolConfig::default());
    let key = live.join(POOL, EndpointFacts::named("a"), EndpointState::Ready, Arc::new(())).unwrap();
    (Arc::new(live), key)
}

/// A prompt of so many blocks of 80 tokens, and 20 tokens more.
fn prompt(blocks: u64, exact: bool) -> RequestFacts {
    let prefix = Prefix { chain: (1..=blocks).collect(), block_tokens: 80.0, exact, ..Prefix::default() };
    RequestFacts { pool: POOL, prompt_tokens: blocks as u32 * 80 + 20, prefix, ..RequestFacts::default() }
}

/// Sends a prompt, and has it answered with so many cached tokens. What was
/// predicted.
async fn ask(live: &Arc<Live<()>>, facts: RequestFacts, cached: u64) -> u32 {
    let ticket = live.admit(facts).await.unwrap();
    let held = ticket.held_tokens();
    let usage = Usage {
        prompt_tokens: 900,
        completion_tokens: 5,
        cached_tokens: cached,
        cached_known: true,
        estimated: false,
    };
    ticket.settle(Outcome {
        end: EndKind::Finished,
        ttft: Some(Duration::from_millis(5)),
        duration: Duration::from_millis(9),
        usage: Some(usage),
    });
    held
}

#[tokio::test]
async fn text_is_predicted_to_half_a_block_and_tokens_exactly() {
    let (live, _) = live();
    assert_eq!(ask(&live, prompt(10, false), 0).await, 0);
    // Both begin with the same ten blocks; of the eleventh half may be the same.
    assert_eq!(ask(&live, prompt(12, false), 820).await, 840);
    assert_eq!(ask(&live, prompt(2, false), 160).await, 179, "never all of it");

    let (live, _) = self::live();
    assert_eq!(ask(&live, prompt(10, true), 0).await, 0);
    assert_eq!(ask(&live, prompt(12, true), 800).await, 800);
}

/// What is held of ten blocks that were served once, after an engine said that
/// it had so many tokens of them. It did not serve them again, so that nothing
/// of them is entered anew.
async fn left_after(cached: u64) -> u32 {
    let (live, _) = live();
    ask(&live, prompt(10, false), 0).await;
    let ticket = live.admit(prompt(10, false)).await.unwrap();
    assert_eq!(ticket.held_tokens(), 819);
    let usage = Usage { prompt_tokens: 820, cached_tokens: cached, cached_known: true, ..Usage::default() };
    let outcome = Outcome::without_answer(EndKind::Cancelled, Duration::from_millis(9));
    ticket.settle(Outcome { usage: Some(usage), ..outcome });
    let mut facts = prompt(20, false);
    live.look_up(&mut facts);
    facts.prefix.matches.first().map_or(0, |held| held.tokens)
}

#[tokio::test]
async fn what_is_off_by_rounding_takes_nothing_back() {
    // A block is 80 tokens by the mean; this prompt's have 74, in whole blocks of 32.
    assert_eq!(left_after(736).await, 840);
    assert_eq!(left_after(704).await, 840);
}

#[tokio::test]
async fn what_an_engine_no_longer_had_is_taken_back() {
    assert_eq!(left_after(640).await, 8 * 80 + 40);
    assert_eq!(left_after(320).await, 4 * 80 + 40);
    assert_eq!(left_after(0).await, 0);
}

/// Somebody who follows an engine's events, and what it was told.
#[derive(Default)]
struct Follows(AtomicU32);

impl EngineCaches for Follows {
    fn restarted(&self, _: EndpointKey) -> bool {
        self.0.fetch_add(1, Relaxed);
        true
    }
}

#[tokio::test]
async fn a_restart_that_events_told_is_not_forgotten_twice() {
    let (live, key) = live();
    let follows = Arc::new(Follows::default());
    let caches: Weak<dyn EngineCaches> = Arc::downgrade(&follows) as _;
    live.set_engine_caches(caches);
    ask(&live, prompt(10, true), 0).await;
    live.told_restart(key);
    assert_eq!(ask(&live, prompt(10, true), 0).await, 0);
    // The metrics page shows the same restart, a little later.
    live.restarted(key);
    assert_eq!(ask(&live, prompt(12, true), 800).await, 800);
    assert_eq!(follows.0.load(Relaxed), 1, "who follows it knows which of its ranks said so");

    let (live, key) = self::live();
    ask(&live, prompt(10, true), 0).await;
    live.restarted(key);
    assert_eq!(ask(&live, prompt(10, true), 0).await, 0, "nobody else told it");
}

#[tokio::test]
async fn what_an_engine_says_stays_when_its_events_show_a_restart() {
    let (live, key) = live();
    let index = live.index(key.gate).unwrap();
    ask(&live, prompt(10, false), 0).await;
    index.insert_confirmed(key.id, &(101..=110).collect::<Vec<_>>());
    live.told_restart(key);
    let facts = RequestFacts {
        prefix: Prefix { chain: (101..=110).collect(), ..prompt(10, true).prefix },
        ..prompt(10, true)
    };
    assert_eq!(ask(&live, facts, 800).await, 800, "another rank of it has said so since");
    assert_eq!(ask(&live, prompt(10, false), 0).await, 0, "what it had served is gone");
}

#[tokio::test]
async fn room_for_blocks_is_counted_in_the_tokens_that_they_have() {
    let (live, key) = live();
    let report = || LoadReport { kv_tokens: Some(80 * 500), ..LoadReport::default() };
    // A hybrid model: blocks of its own events have 528 tokens.
    live.report(key, report(), 528.0);
    ask(&live, prompt(10, false), 0).await;
    live.report(key, report(), 528.0);
    ask(&live, prompt(400, false), 0).await;
    assert_eq!(
        ask(&live, prompt(400, false), 32_000).await,
        400 * 80 + 19,
        "75 blocks of 528 tokens are as much"
    );
    // The engine confirms what has its own blocks: those do not count.
    live.tells(key, true);
    let exact = prompt(3, true);
    let prefix = Prefix { block_tokens: 528.0, ..exact.prefix.clone() };
    for _ in 0..20 {
        ask(&live, RequestFacts { prefix: prefix.clone(), ..exact.clone() }, 0).await;
    }
    live.report(key, report(), 528.0);
    assert_eq!(live.index(key.gate).unwrap().stats().committed, 400);
}
