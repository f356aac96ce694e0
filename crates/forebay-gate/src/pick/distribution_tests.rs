//! How requests spread over endpoints in the cases where balancers are known
//! to fail: a newcomer that everyone runs to, a turn that several pools share,
//! a miss that always goes to the first or to a full endpoint.

use std::collections::BinaryHeap;
use std::sync::Arc;
use std::time::Duration;

use forebay_core::*;

use super::AnyPolicy;
use crate::*;

const POOL: PoolId = PoolId(0);
const START: Time = Time::from_nanos(1_000_000_000);

fn config(policy: PolicyKind) -> PoolConfig {
    PoolConfig { policy, ..PoolConfig::default() }
}

fn join(gate: &mut Gate, pool: PoolId, name: &str, now: Time) -> EndpointId {
    let facts = EndpointFacts::named(name);
    gate.apply(now, Event::Join(pool, facts, EndpointState::Ready)).joined.unwrap()
}

fn gate(policy: PolicyKind, endpoints: usize) -> (Gate, Vec<EndpointId>) {
    let mut gate = Gate::new(1);
    gate.apply(START, Event::Configure(POOL, config(policy)));
    let ids = (0..endpoints).map(|i| join(&mut gate, POOL, &format!("http://e{i}"), START)).collect();
    (gate, ids)
}

/// A request like no other.
fn request(n: u64, pool: PoolId) -> Arc<RequestFacts> {
    let key = n.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    Arc::new(RequestFacts {
        pool,
        prompt_tokens: 500,
        output_tokens: 100,
        stream: true,
        affinity: key,
        session: Some(key),
        slo: Slo { ttft_ms: Some(2000.0), tpot_ms: Some(50.0) },
        ..RequestFacts::default()
    })
}

fn submit(gate: &mut Gate, now: Time, facts: Arc<RequestFacts>) -> Decision {
    match gate.submit(now, facts) {
        Verdict::Go(decision) => decision,
        other => panic!("{other:?}"),
    }
}

fn finished(ttft: Duration, duration: Duration) -> Outcome {
    let usage = Usage { prompt_tokens: 500, completion_tokens: 100, ..Usage::default() };
    Outcome { ttft: Some(ttft), usage: Some(usage), ..Outcome::without_answer(EndKind::Finished, duration) }
}

/// A request from its start to its end, alone.
fn serve(gate: &mut Gate, now: Time, facts: Arc<RequestFacts>) -> EndpointId {
    let decision = submit(gate, now, facts);
    let (ttft, took) = (Duration::from_millis(25), Duration::from_millis(900));
    gate.apply(now + ttft, Event::Progress(vec![Progress { ticket: decision.ticket, tokens: 1 }]));
    gate.apply(now + took, Event::Outcome(decision.ticket, finished(ttft, took)));
    decision.endpoint
}

/// What happens next: when, to which request, whether it ends or begins to
/// answer, and how long it takes in all.
type Next = std::cmp::Reverse<(Time, TicketId, bool, Duration)>;

/// Four endpoints with 20 in flight each, one more joins whose first ten
/// requests take 5 s; 80 requests a second, each of 1 s. Returns the largest
/// ratio of its requests in flight to the mean within its first ten seconds,
/// and how many it was sent.
fn newcomer(policy: PolicyKind) -> (f64, u64) {
    let (mut gate, mut ids) = gate(policy, 4);
    let joins = START + Duration::from_secs(60);
    let mut next: BinaryHeap<Next> = BinaryHeap::new();
    let mut slow_left = 10;
    let (mut worst, mut newcomer) = (0.0f64, None);
    for n in 0..(70 * 80u64) {
        let now = START + Duration::from_micros(n * 12_500);
        while next.peek().is_some_and(|next| next.0.0 <= now) {
            let std::cmp::Reverse((at, ticket, ends, took)) = next.pop().unwrap();
            let ttft = took / 20;
            if ends {
                gate.apply(at, Event::Outcome(ticket, finished(ttft, took)));
            } else {
                gate.apply(at, Event::Progress(vec![Progress { ticket, tokens: 1 }]));
            }
        }
        if now >= joins && newcomer.is_none() {
            let id = join(&mut gate, POOL, "http://new", now);
            newcomer = Some(id);
            ids.push(id);
        }
        let decision = submit(&mut gate, now, request(n, POOL));
        let slow = Some(decision.endpoint) == newcomer && slow_left > 0;
        slow_left -= u32::from(slow);
        let took = if slow { Duration::from_secs(5) } else { Duration::from_secs(1) };
        next.push(std::cmp::Reverse((now + took / 20, decision.ticket, false, took)));
        next.push(std::cmp::Reverse((now + took, decision.ticket, true, took)));
        let Some(id) = newcomer else { continue };
        let load = |id: &EndpointId| f64::from(gate.load(*id).unwrap().in_flight);
        let mean = ids.iter().map(load).sum::<f64>() / ids.len() as f64;
        worst = worst.max(load(&id) / mean);
    }
    (worst, gate.load(ids[4]).unwrap().picked)
}

#[test]
fn b53_a_newcomer_is_no_magnet_under_any_policy() {
    for policy in PolicyKind::ALL {
        let (worst, sent) = newcomer(policy);
        assert!(worst <= 1.5, "{policy}: {worst:.2} times the mean");
        // These have seen that its first token comes five times later.
        let by_latency = matches!(
            policy,
            PolicyKind::LeastLatency | PolicyKind::Prequal | PolicyKind::Predictive | PolicyKind::Learned
        );
        let least = if by_latency { 1 } else { 15 };
        assert!(sent >= least, "{policy}: it must get something, got {sent}");
    }
}

#[test]
fn b53_b_each_pool_has_its_own_turn_however_its_endpoints_are_listed() {
    let mut gate = Gate::new(1);
    let pools = [PoolId(0), PoolId(1)];
    for pool in pools {
        gate.apply(START, Event::Configure(pool, config(PolicyKind::RoundRobin)));
    }
    let names = ["http://a0", "http://a1", "http://b0", "http://b1"];
    let ids: Vec<EndpointId> =
        names.iter().enumerate().map(|(i, name)| join(&mut gate, pools[i / 2], name, START)).collect();
    for n in 0..200u64 {
        if n % 3 == 0 {
            // The same endpoints once more, in another order.
            for i in [1, 0, 3, 2] {
                join(&mut gate, pools[i / 2], names[i], START);
            }
        }
        serve(&mut gate, START + Duration::from_secs(n), request(n, pools[n as usize % 2]));
    }
    for id in ids {
        assert_eq!(gate.load(id).unwrap().picked, 50);
    }
}

#[test]
fn b53_c_misses_go_round_an_idle_fleet() {
    for policy in [
        PolicyKind::PrefixAffinity,
        PolicyKind::Predictive,
        PolicyKind::SessionAffinity,
        PolicyKind::LeastQueue,
        PolicyKind::Learned,
    ] {
        let (mut gate, ids) = gate(policy, 4);
        for n in 0..200u64 {
            serve(&mut gate, START + Duration::from_secs(n), request(n, POOL));
        }
        for id in &ids {
            let sent = gate.load(*id).unwrap().picked;
            assert!((40..=60).contains(&sent), "{policy}: {sent} of 200");
        }
    }
}

#[test]
fn b53_d_a_miss_goes_where_there_is_room_and_not_to_the_emptiest_cache() {
    for policy in [
        PolicyKind::PrefixAffinity,
        PolicyKind::SessionAffinity,
        PolicyKind::Predictive,
        PolicyKind::LeastQueue,
        PolicyKind::Prequal,
    ] {
        let (mut gate, ids) = gate(policy, 2);
        // Nothing of ours is on the first one, whose queue others have filled.
        for i in 0..20u64 {
            let now = START + Duration::from_millis(50 * i);
            let report = LoadReport {
                at: now,
                running: Some(256),
                waiting: Some(100),
                kv_usage: Some(0.9),
                ..LoadReport::default()
            };
            gate.apply(now, Event::Report(ids[0], report));
            let idle = LoadReport { at: now, running: Some(0), waiting: Some(0), ..report };
            gate.apply(now, Event::Report(ids[1], LoadReport { kv_usage: Some(0.8), ..idle }));
        }
        for n in 0..10 {
            let decision = submit(&mut gate, START + Duration::from_secs(1), request(n, POOL));
            assert_eq!(decision.endpoint, ids[1], "{policy}, request {n}");
        }
    }
}

/// Requests one after another, of seven kinds.
fn drive(gate: &mut Gate, requests: std::ops::Range<u64>) -> Vec<EndpointId> {
    let at = |n: u64| START + Duration::from_millis(n * 300);
    requests.map(|n| serve(gate, at(n), request(n % 7, POOL))).collect()
}

#[test]
fn every_policy_is_written_down_and_read_back_with_what_it_knows() {
    for policy in PolicyKind::ALL {
        let (mut gate, ids) = gate(policy, 4);
        for id in &ids[..3] {
            let load = OrcaLoad { utilization: Some(0.5), qps: Some(20.0), ..OrcaLoad::default() };
            gate.apply(START, Event::Orca(*id, load));
        }
        drive(&mut gate, 0..200);
        let bytes = rmp_serde::to_vec(&gate).unwrap();
        let mut again: Gate = rmp_serde::from_slice(&bytes).unwrap();
        assert!(again == gate, "{policy}");
        assert_eq!(drive(&mut gate, 200..260), drive(&mut again, 200..260), "{policy}");
        assert!(again == gate, "{policy}");
    }
}

#[test]
fn what_a_request_cost_reaches_the_bandit_that_picked_for_it() {
    let (mut gate, _) = gate(PolicyKind::Learned, 4);
    drive(&mut gate, 0..400);
    let AnyPolicy::Learned(policy) = &gate.pools[0].as_ref().unwrap().policy else { panic!("learned") };
    let tried = policy.tried();
    let sum: f64 = tried.iter().sum();
    assert!(sum > 300.0 && sum <= 400.0, "{tried:?}");
    assert!(tried[0] > 0.9 * sum && tried[1..].iter().any(|tried| *tried > 0.0), "{tried:?}");
}
