//! The Gate's shape, proved before anything is built on it.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use forebay_core::*;
use proptest::prelude::*;

use crate::*;

const POOL: PoolId = PoolId(0);
const NOW: Time = Time::from_nanos(1_000_000_000);

fn facts() -> RequestFacts {
    RequestFacts {
        pool: POOL,
        prompt_tokens: 100,
        output_tokens: 50,
        stream: true,
        affinity: 7,
        ..RequestFacts::default()
    }
}

fn gate(policy: PolicyKind, admission: AdmissionConfig, endpoints: usize) -> (Gate, Vec<EndpointId>) {
    let mut gate = Gate::new(1);
    let config = PoolConfig { policy, admission, ..PoolConfig::default() };
    gate.apply(NOW, Event::Configure(POOL, config));
    let ids = (0..endpoints)
        .map(|i| {
            let facts = EndpointFacts { weight: 1.0, ..EndpointFacts::named(format!("http://e{i}")) };
            gate.apply(NOW, Event::Join(POOL, facts, EndpointState::Ready)).joined.unwrap()
        })
        .collect();
    (gate, ids)
}

/// One request at a time, one may wait.
fn queue_of_one() -> AdmissionConfig {
    AdmissionConfig { limit: Some(1), queue: 1, max_wait: Duration::from_secs(5) }
}

fn go(verdict: Verdict) -> Decision {
    match verdict {
        Verdict::Go(decision) => decision,
        other => panic!("expected Go, got {other:?}"),
    }
}

fn wait(verdict: Verdict) -> TicketId {
    match verdict {
        Verdict::Wait(ticket) => ticket,
        other => panic!("expected Wait, got {other:?}"),
    }
}

fn refusal(verdict: Verdict) -> RefuseReason {
    match verdict {
        Verdict::Refuse(refusal) => refusal.reason,
        other => panic!("expected Refuse, got {other:?}"),
    }
}

fn done(ticket: TicketId) -> Event {
    Event::Outcome(ticket, Outcome::without_answer(EndKind::Finished, Duration::ZERO))
}

#[test]
fn a_queue_of_one_waits_wakes_and_refuses() {
    let (mut gate, ids) = gate(PolicyKind::LeastRequest, queue_of_one(), 1);
    let first = go(gate.submit(NOW, Arc::new(facts())));
    assert_eq!(first.endpoint, ids[0]);
    let second = wait(gate.submit(NOW, Arc::new(facts())));
    assert_eq!(refusal(gate.submit(NOW, Arc::new(facts()))), RefuseReason::QueueFull);
    assert_eq!(gate.pool_load(POOL), (1, 1));

    let effects = gate.apply(NOW, done(first.ticket));
    assert_eq!(effects.go.len(), 1);
    assert_eq!(effects.go[0].ticket, second);
    assert!(effects.refuse.is_empty());
    assert_eq!(gate.pool_load(POOL), (1, 0));

    assert!(gate.apply(NOW, done(second)).is_empty());
    assert_eq!((gate.pool_load(POOL), gate.unsettled(), gate.totals()), ((0, 0), 0, (0, 0)));
}

#[test]
fn cancelling_while_waiting_frees_the_place_in_the_queue() {
    let (mut gate, _) = gate(PolicyKind::LeastRequest, queue_of_one(), 1);
    let first = go(gate.submit(NOW, Arc::new(facts())));
    let second = wait(gate.submit(NOW, Arc::new(facts())));
    assert!(gate.apply(NOW, Event::Cancelled(second)).is_empty());
    let third = wait(gate.submit(NOW, Arc::new(facts())));
    let effects = gate.apply(NOW, Event::Cancelled(first.ticket));
    assert_eq!(effects.go.iter().map(|d| d.ticket).collect::<Vec<_>>(), [third]);
    gate.apply(NOW, Event::Cancelled(third));
    assert_eq!(gate.unsettled(), 0);
}

#[test]
fn waiting_too_long_is_refused_at_the_timer() {
    let (mut gate, _) = gate(PolicyKind::LeastRequest, queue_of_one(), 1);
    assert_eq!(gate.next_timer(), None);
    let first = go(gate.submit(NOW, Arc::new(facts())));
    let second = wait(gate.submit(NOW, Arc::new(facts())));
    let at = gate.next_timer().unwrap();
    assert_eq!(at, NOW + Duration::from_secs(5));
    assert!(gate.apply(Time::from_nanos(at.as_nanos() - 1), Event::Timer).is_empty());
    let effects = gate.apply(at, Event::Timer);
    assert_eq!(effects.refuse.len(), 1);
    assert_eq!((effects.refuse[0].0, effects.refuse[0].1.reason), (second, RefuseReason::QueueTimeout));
    assert_eq!(gate.next_timer(), None);
    // A late cancel of the refused ticket changes nothing.
    gate.apply(at, Event::Cancelled(second));
    assert_eq!(gate.pool_load(POOL), (1, 0));
    gate.apply(at, done(first.ticket));
    assert_eq!(gate.unsettled(), 0);
}

#[test]
fn a_request_that_waits_is_refused_when_its_turn_comes_and_nothing_is_ready() {
    let (mut gate, ids) = gate(PolicyKind::LeastRequest, queue_of_one(), 1);
    let first = go(gate.submit(NOW, Arc::new(facts())));
    let second = wait(gate.submit(NOW, Arc::new(facts())));
    gate.apply(NOW, Event::State(ids[0], EndpointState::Unready));
    let effects = gate.apply(NOW, done(first.ticket));
    assert_eq!(effects.refuse.len(), 1);
    assert_eq!((effects.refuse[0].0, effects.refuse[0].1.reason), (second, RefuseReason::NoneReady));
    assert_eq!((gate.pool_load(POOL), gate.unsettled()), ((0, 0), 0));
}

#[test]
fn a_second_choice_avoids_the_first_and_moves_the_load() {
    let (mut gate, ids) = gate(PolicyKind::LeastRequest, AdmissionConfig::OPEN, 2);
    let first = go(gate.submit(NOW, Arc::new(facts())));
    let second = go(gate.repick(NOW, first.ticket, RepickReason::Connect));
    assert_eq!(second.ticket, first.ticket);
    assert_ne!(second.endpoint, first.endpoint);
    assert_eq!(gate.load(first.endpoint).unwrap().in_flight, 0);
    assert_eq!(gate.load(second.endpoint).unwrap().in_flight, 1);
    assert_eq!(refusal(gate.repick(NOW, first.ticket, RepickReason::Connect)), RefuseReason::Exhausted);
    assert_eq!(gate.unsettled(), 1, "a refused second choice is settled by its owner");
    gate.apply(NOW, done(first.ticket));
    assert_eq!((gate.unsettled(), gate.totals()), (0, (0, 0)));
    assert_eq!(ids.len(), 2);
}

#[test]
fn settling_twice_counts_once() {
    let (mut gate, _) = gate(PolicyKind::LeastWork, AdmissionConfig::OPEN, 1);
    let a = go(gate.submit(NOW, Arc::new(facts())));
    let b = go(gate.submit(NOW, Arc::new(facts())));
    gate.apply(NOW, done(a.ticket));
    gate.apply(NOW, done(a.ticket));
    gate.apply(NOW, Event::Cancelled(a.ticket));
    assert_eq!(gate.totals().0, 1);
    // The slot is reused under a new generation; the old ticket stays dead.
    let c = go(gate.submit(NOW, Arc::new(facts())));
    assert_eq!(c.ticket.slot, a.ticket.slot);
    gate.apply(NOW, done(a.ticket));
    assert_eq!(gate.unsettled(), 2);
    gate.apply(NOW, done(b.ticket));
    gate.apply(NOW, done(c.ticket));
    assert_eq!(gate.totals(), (0, 0));
}

#[test]
fn progress_takes_work_off_and_never_more_than_there_is() {
    let (mut gate, ids) = gate(PolicyKind::LeastWork, AdmissionConfig::OPEN, 1);
    let t = go(gate.submit(NOW, Arc::new(facts()))).ticket;
    let work = |gate: &Gate| gate.load(ids[0]).unwrap().work;
    assert_eq!(work(&gate), 100 + 50 * WORK_PER_OUTPUT_TOKEN);
    gate.apply(NOW, Event::Progress(vec![Progress { ticket: t, tokens: 1 }]));
    assert_eq!(work(&gate), 49 * WORK_PER_OUTPUT_TOKEN);
    gate.apply(NOW, Event::Progress(vec![Progress { ticket: t, tokens: 4000 }]));
    assert_eq!(work(&gate), WORK_PER_OUTPUT_TOKEN);
    // An older report that comes late does not add work back.
    gate.apply(NOW, Event::Progress(vec![Progress { ticket: t, tokens: 10 }]));
    assert_eq!(work(&gate), WORK_PER_OUTPUT_TOKEN);
    gate.apply(NOW, done(t));
    assert_eq!(work(&gate), 0);
}

#[test]
fn pools_that_name_one_address_share_its_load() {
    let (mut gate, ids) = gate(PolicyKind::LeastRequest, AdmissionConfig::OPEN, 1);
    let other = PoolId(1);
    gate.apply(NOW, Event::Configure(other, PoolConfig::default()));
    let facts0 = EndpointFacts { weight: 1.0, ..EndpointFacts::named("http://e0") };
    let joined = gate.apply(NOW, Event::Join(other, facts0, EndpointState::Starting)).joined.unwrap();
    assert_eq!(joined, ids[0]);
    let a = go(gate.submit(NOW, Arc::new(RequestFacts { pool: other, ..facts() })));
    assert_eq!(a.endpoint, ids[0]);
    assert_eq!(gate.load(ids[0]).unwrap().in_flight, 1);
}

#[test]
fn an_endpoint_that_left_keeps_its_slot_until_its_requests_end() {
    let (mut gate, ids) = gate(PolicyKind::LeastRequest, AdmissionConfig::OPEN, 1);
    let a = go(gate.submit(NOW, Arc::new(facts())));
    gate.apply(NOW, Event::Leave(ids[0]));
    assert_eq!(refusal(gate.submit(NOW, Arc::new(facts()))), RefuseReason::NoneReady);
    let join = |gate: &mut Gate, name: &str| {
        let facts = EndpointFacts::named(name);
        gate.apply(NOW, Event::Join(POOL, facts, EndpointState::Ready)).joined.unwrap()
    };
    let b = join(&mut gate, "http://b");
    assert_ne!(b.slot, ids[0].slot);
    gate.apply(NOW, done(a.ticket));
    let c = join(&mut gate, "http://c");
    assert_eq!(c.slot, ids[0].slot);
    assert_ne!(c.generation, ids[0].generation);
    // A late message for the old holder does not touch the new one.
    gate.apply(NOW, Event::State(ids[0], EndpointState::Disabled));
    assert_eq!(gate.state(c), Some(EndpointState::Ready));
    assert_eq!(gate.load(c).unwrap().in_flight, 0);
}

/// One step of a random history; indices are taken modulo what exists.
#[derive(Clone, Debug)]
enum Step {
    Submit { prompt: u32, output: u32, affinity: u64 },
    Finish(usize),
    Cancel(usize),
    Repick(usize),
    Progress(usize, u32),
    State(usize, usize),
    Leave(usize),
    Join(u8),
    Configure(usize, u32, u32),
    Later(u64),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (1u32..5000, 0u32..2000, any::<u64>())
            .prop_map(|(prompt, output, affinity)| Step::Submit { prompt, output, affinity }),
        2 => any::<usize>().prop_map(Step::Finish),
        1 => any::<usize>().prop_map(Step::Cancel),
        1 => any::<usize>().prop_map(Step::Repick),
        2 => (any::<usize>(), 0u32..3000).prop_map(|(i, n)| Step::Progress(i, n)),
        1 => (any::<usize>(), 0usize..5).prop_map(|(i, s)| Step::State(i, s)),
        1 => any::<usize>().prop_map(Step::Leave),
        1 => (0u8..6).prop_map(Step::Join),
        1 => (0usize..PolicyKind::ALL.len(), 0u32..4, 0u32..3).prop_map(|(p, l, q)| Step::Configure(p, l, q)),
        1 => (0u64..8_000_000_000).prop_map(Step::Later),
    ]
}

/// Runs a history and returns every decision, checking the Gate's books at each step.
fn run(steps: &[Step]) -> Vec<String> {
    let (mut gate, mut ids) = gate(PolicyKind::LeastWork, queue_of_one(), 3);
    let mut now = NOW;
    let mut log = Vec::new();
    let mut sent: BTreeSet<TicketId> = BTreeSet::new();
    let mut waiting: BTreeSet<TicketId> = BTreeSet::new();
    for step in steps {
        let nth = |set: &BTreeSet<TicketId>, i: usize| set.iter().nth(i % set.len().max(1)).copied();
        let all: BTreeSet<_> = sent.union(&waiting).copied().collect();
        let mut effects = Effects::default();
        match *step {
            Step::Submit { prompt, output, affinity } => {
                let facts =
                    RequestFacts { prompt_tokens: prompt, output_tokens: output, affinity, ..facts() };
                let verdict = gate.submit(now, Arc::new(facts));
                match verdict {
                    Verdict::Go(d) => assert!(sent.insert(d.ticket)),
                    Verdict::Wait(t) => assert!(waiting.insert(t)),
                    Verdict::Refuse(_) => {}
                }
                log.push(format!("{verdict:?}"));
            }
            Step::Finish(i) => {
                if let Some(t) = nth(&sent, i) {
                    sent.remove(&t);
                    effects = gate.apply(now, done(t));
                }
            }
            Step::Cancel(i) => {
                if let Some(t) = nth(&all, i) {
                    sent.remove(&t);
                    waiting.remove(&t);
                    effects = gate.apply(now, Event::Cancelled(t));
                }
            }
            Step::Repick(i) => {
                if let Some(t) = nth(&sent, i) {
                    log.push(format!("{:?}", gate.repick(now, t, RepickReason::Connect)));
                }
            }
            Step::Progress(i, tokens) => {
                if let Some(ticket) = nth(&all, i) {
                    effects = gate.apply(now, Event::Progress(vec![Progress { ticket, tokens }]));
                }
            }
            Step::State(i, s) => {
                let id = ids[i % ids.len()];
                effects = gate.apply(now, Event::State(id, EndpointState::ALL[s]));
            }
            Step::Leave(i) => effects = gate.apply(now, Event::Leave(ids[i % ids.len()])),
            Step::Join(n) => {
                let facts =
                    EndpointFacts { weight: f64::from(n), ..EndpointFacts::named(format!("http://e{n}")) };
                effects = gate.apply(now, Event::Join(POOL, facts, EndpointState::Ready));
                ids.push(effects.joined.unwrap());
            }
            Step::Configure(p, limit, queue) => {
                let admission = AdmissionConfig {
                    limit: (limit > 0).then_some(limit),
                    queue,
                    max_wait: Duration::from_secs(3),
                };
                let policy = PolicyKind::ALL[p];
                let config = PoolConfig { policy, admission, ..PoolConfig::default() };
                effects = gate.apply(now, Event::Configure(POOL, config));
            }
            Step::Later(ns) => {
                now += Duration::from_nanos(ns);
                if gate.next_timer().is_some_and(|at| at <= now) {
                    effects = gate.apply(now, Event::Timer);
                }
            }
        }
        for d in &effects.go {
            assert!(waiting.remove(&d.ticket), "only who waits is woken");
            sent.insert(d.ticket);
        }
        for (t, _) in &effects.refuse {
            assert!(waiting.remove(t), "only who waits is refused later");
        }
        log.push(format!("{effects:?}"));
        assert_eq!(gate.unsettled(), sent.len() + waiting.len());
        assert_eq!(gate.pool_load(POOL), (sent.len() as u32, waiting.len() as u32));
    }
    for t in sent.into_iter().chain(waiting) {
        gate.apply(now, Event::Cancelled(t));
    }
    // The last cancels may have woken others.
    while gate.unsettled() > 0 {
        let woken: Vec<_> = (0..64).flat_map(|slot| (0..64).map(move |g| (slot, g))).collect();
        for (slot, generation) in woken {
            gate.apply(now, Event::Cancelled(TicketId { slot, generation }));
        }
    }
    assert_eq!(gate.totals(), (0, 0), "every path that adds load removes it");
    assert_eq!(gate.pool_load(POOL), (0, 0));
    log
}

proptest! {
    #[test]
    fn every_path_that_adds_load_removes_it(steps in prop::collection::vec(step(), 0..120)) {
        run(&steps);
    }

    #[test]
    fn the_same_history_gives_the_same_decisions(steps in prop::collection::vec(step(), 0..60)) {
        prop_assert_eq!(run(&steps), run(&steps));
    }
}
