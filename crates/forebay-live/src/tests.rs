use std::sync::Arc;
use std::time::Duration;

use forebay_core::*;
use forebay_gate::*;

use crate::Live;

const POOL: PoolId = PoolId(0);

fn facts() -> RequestFacts {
    RequestFacts {
        pool: POOL,
        model: ModelId(0),
        priority: Priority::STANDARD,
        prompt_tokens: 100,
        output_tokens: 50,
        stream: true,
        affinity: 7,
    }
}

fn live(limit: Option<u32>, max_wait: Duration) -> Arc<Live<&'static str>> {
    let live = Live::new(vec![0], Some(1));
    let admission = AdmissionConfig { limit, queue: 2, max_wait };
    live.configure(POOL, PoolConfig { admission, ..PoolConfig::default() });
    for name in ["a", "b"] {
        let facts = EndpointFacts { name: name.into(), weight: 1.0 };
        live.join(POOL, facts, EndpointState::Ready, Arc::new(name)).unwrap();
    }
    Arc::new(live)
}

fn finished() -> Outcome {
    Outcome::without_answer(EndKind::Finished, Duration::ZERO)
}

#[tokio::test]
async fn dropping_a_ticket_gives_everything_back() {
    let live = live(None, Duration::from_secs(5));
    let ticket = live.admit(facts()).await.unwrap();
    assert_eq!(live.pool(POOL).in_flight, 1);
    drop(ticket);
    assert_eq!((live.pool(POOL).in_flight, live.unsettled()), (0, 0));
    live.admit(facts()).await.unwrap().settle(finished());
    assert_eq!((live.pool(POOL).in_flight, live.unsettled()), (0, 0));
    assert_eq!(live.decisions(10).len(), 2);
}

#[tokio::test]
async fn a_waiting_request_is_woken_by_the_one_that_ends() {
    let live = live(Some(1), Duration::from_secs(60));
    let first = live.admit(facts()).await.unwrap();
    let waiting = tokio::spawn({
        let live = Arc::clone(&live);
        async move { live.admit(facts()).await }
    });
    while live.pool(POOL).waiting == 0 {
        tokio::task::yield_now().await;
    }
    first.settle(finished());
    let second = waiting.await.unwrap().unwrap();
    assert_eq!(live.pool(POOL).in_flight, 1);
    drop(second);
    assert_eq!(live.unsettled(), 0);
}

#[tokio::test]
async fn giving_up_while_waiting_or_just_woken_leaks_nothing() {
    let live = live(Some(1), Duration::from_secs(60));
    let first = live.admit(facts()).await.unwrap();
    // Polled once, so that it waits; then given up.
    for woken_first in [false, true] {
        let mut wait = Box::pin(live.admit(facts()));
        let poll = std::future::poll_fn(|cx| std::task::Poll::Ready(wait.as_mut().poll(cx).is_pending()));
        assert!(poll.await);
        assert_eq!(live.pool(POOL).waiting, 1);
        if woken_first {
            live.set_state(live.endpoints()[0].key, EndpointState::Ready);
        }
        drop(wait);
        assert_eq!(live.pool(POOL).waiting, 0);
    }
    let mut wait = Box::pin(live.admit(facts()));
    let poll = std::future::poll_fn(|cx| std::task::Poll::Ready(wait.as_mut().poll(cx).is_pending()));
    assert!(poll.await);
    drop(first); // wakes it
    assert_eq!(live.pool(POOL).in_flight, 1);
    drop(wait); // before it could take its ticket
    assert_eq!((live.pool(POOL).in_flight, live.unsettled()), (0, 0));
}

#[tokio::test]
async fn waiting_too_long_is_refused_without_any_other_event() {
    let live = live(Some(1), Duration::from_millis(30));
    let _first = live.admit(facts()).await.unwrap();
    let refusal = live.admit(facts()).await.unwrap_err();
    assert_eq!(refusal.reason, RefuseReason::QueueTimeout);
    assert_eq!(live.pool(POOL).waiting, 0);
}

#[tokio::test]
async fn a_second_choice_is_another_endpoint() {
    let live = live(None, Duration::ZERO);
    let mut ticket = live.admit(facts()).await.unwrap();
    let first = *ticket.member().as_ref();
    ticket.repick(RepickReason::Connect).unwrap();
    assert_ne!(*ticket.member().as_ref(), first);
    assert_eq!(ticket.repick(RepickReason::Connect).unwrap_err().reason, RefuseReason::Exhausted);
    drop(ticket);
    assert_eq!(live.unsettled(), 0);
}
