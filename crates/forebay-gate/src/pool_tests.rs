//! What pools promise of their members: ramps, weights and parameters.

use std::sync::Arc;
use std::time::Duration;

use forebay_core::*;

use crate::*;

const POOL: PoolId = PoolId(0);

fn at(s: f64) -> Time {
    Time::from_millis_f64(s * 1e3)
}

fn configure(gate: &mut Gate, pool: PoolId, config: PoolConfig) {
    gate.apply(Time::ZERO, Event::Configure(pool, config));
}

fn join(gate: &mut Gate, pool: PoolId, facts: EndpointFacts, now: Time) -> EndpointId {
    gate.apply(now, Event::Join(pool, facts, EndpointState::Ready)).joined.unwrap()
}

/// Endpoints e0, e1, … that join a pool at that time.
fn gate(config: PoolConfig, endpoints: usize, now: Time) -> (Gate, Vec<EndpointId>) {
    let mut gate = Gate::new(1);
    configure(&mut gate, POOL, config);
    let ids = (0..endpoints)
        .map(|i| join(&mut gate, POOL, EndpointFacts::named(format!("http://e{i}")), now))
        .collect();
    (gate, ids)
}

fn policy(policy: PolicyKind) -> PoolConfig {
    PoolConfig { policy, ..PoolConfig::default() }
}

fn submit(gate: &mut Gate, pool: PoolId, affinity: u64, now: Time) -> Decision {
    let facts = RequestFacts {
        pool,
        prompt_tokens: 500,
        output_tokens: 100,
        stream: true,
        affinity,
        session: Some(affinity),
        ..RequestFacts::default()
    };
    match gate.submit(now, Arc::new(facts)) {
        Verdict::Go(decision) => decision,
        other => panic!("{other:?}"),
    }
}

/// A request from its start to its end, alone; returns where it went.
fn serve(gate: &mut Gate, pool: PoolId, now: Time) -> EndpointId {
    let decision = submit(gate, pool, 0, now);
    let (ttft, took) = (Duration::from_millis(20), Duration::from_millis(900));
    gate.apply(now + ttft, Event::Progress(vec![Progress { ticket: decision.ticket, tokens: 1 }]));
    let usage = Usage { prompt_tokens: 500, completion_tokens: 100, ..Usage::default() };
    let outcome =
        Outcome { ttft: Some(ttft), usage: Some(usage), ..Outcome::without_answer(EndKind::Finished, took) };
    gate.apply(now + took, Event::Outcome(decision.ticket, outcome));
    decision.endpoint
}

fn ramp(gate: &mut Gate, pool: PoolId, endpoint: EndpointId, now: Time) -> f64 {
    let decision = submit(gate, pool, 0, now);
    gate.apply(now, Event::Cancelled(decision.ticket));
    gate.load(endpoint).unwrap().ramp
}

#[test]
fn a_shared_endpoint_ramps_in_each_pool_by_its_own_window() {
    let (short, long) = (PoolId(0), PoolId(1));
    let mut gate = Gate::new(1);
    for (pool, window) in [(short, 5), (long, 60)] {
        let slow_start = SlowStart { window: Duration::from_secs(window), ..SlowStart::default() };
        configure(&mut gate, pool, PoolConfig { slow_start, ..PoolConfig::default() });
        join(&mut gate, pool, EndpointFacts::named(format!("http://old{window}")), at(0.0));
    }
    let newcomer = join(&mut gate, short, EndpointFacts::named("http://new"), at(100.0));
    join(&mut gate, long, EndpointFacts::named("http://new"), at(100.0));
    assert_eq!(ramp(&mut gate, short, newcomer, at(103.0)), 0.1);
    // The short ramp is over, the long one is not.
    ramp(&mut gate, short, newcomer, at(106.0));
    let long_ramp = ramp(&mut gate, long, newcomer, at(106.5));
    assert!((0.1..0.12).contains(&long_ramp), "{long_ramp}");
    // It ramps on when the pool's members are looked at again.
    join(&mut gate, long, EndpointFacts::named("http://another"), at(130.0));
    assert!((ramp(&mut gate, long, newcomer, at(130.0)) - 0.5).abs() < 0.01);
    assert_eq!(ramp(&mut gate, long, newcomer, at(161.0)), 1.0);
}

#[test]
fn a_newcomer_ramps_beside_others_that_served_before_it_however_new_they_are() {
    let (mut gate, ids) = gate(PoolConfig::default(), 2, at(1.0));
    // One that answers its first probe a little later came with them.
    let third = join(&mut gate, POOL, EndpointFacts::named("http://e2"), at(1.5));
    serve(&mut gate, POOL, at(2.0));
    let fourth = join(&mut gate, POOL, EndpointFacts::named("http://e3"), at(3.0));
    for old in [ids[0], ids[1], third, fourth] {
        assert_eq!(ramp(&mut gate, POOL, old, at(3.5)), 1.0);
    }
    let newcomer = join(&mut gate, POOL, EndpointFacts::named("http://e4"), at(5.0));
    assert!((ramp(&mut gate, POOL, newcomer, at(7.0)) - 0.2).abs() < 0.01);
    assert_eq!(ramp(&mut gate, POOL, fourth, at(7.1)), 1.0);
    // All gone and back together: there is nobody to spare them.
    let all = [ids[0], ids[1], third, fourth, newcomer];
    for state in [EndpointState::Unready, EndpointState::Ready] {
        all.iter().for_each(|id| drop(gate.apply(at(60.0), Event::State(*id, state))));
    }
    assert!(all.iter().all(|id| ramp(&mut gate, POOL, *id, at(61.0)) == 1.0));
}

#[test]
fn endpoints_that_start_one_by_one_before_any_request_do_not_ramp() {
    let (mut gate, ids) = gate(PoolConfig::default(), 1, at(1.0));
    let late = join(&mut gate, POOL, EndpointFacts::named("http://late"), at(9.0));
    assert_eq!(ramp(&mut gate, POOL, late, at(9.5)), 1.0);
    assert_eq!(ramp(&mut gate, POOL, ids[0], at(9.5)), 1.0);
}

fn of_class(name: &str, class: &str, weight: f64) -> EndpointFacts {
    EndpointFacts { weight, accelerator: Some(class.into()), ..EndpointFacts::named(name) }
}

fn factors(gate: &Gate, ids: &[EndpointId]) -> Vec<(f64, f64)> {
    let speed = |id: &EndpointId| gate.load(*id).unwrap().speed;
    let round = |x: f64| (x * 1e3).round() / 1e3;
    ids.iter().map(|id| (round(speed(id).prefill_factor), round(speed(id).decode_factor))).collect()
}

#[test]
fn a_weight_says_how_fast_one_is_beside_others_of_its_class() {
    let mut gate = Gate::new(1);
    configure(&mut gate, POOL, PoolConfig::default());
    // Twice the weight says what the name of the class says already.
    let fast = join(&mut gate, POOL, of_class("http://h", "h100", 2.0), at(0.0));
    let slow = [
        join(&mut gate, POOL, of_class("http://a0", "a100", 1.0), at(0.0)),
        join(&mut gate, POOL, of_class("http://a1", "a100", 1.0), at(0.0)),
    ];
    let all = [fast, slow[0], slow[1]];
    assert_eq!(factors(&gate, &all), [(1.0, 1.0); 3]);
    // Of the same class one is said to be half as fast as the other.
    gate.apply(at(1.0), Event::Weight(slow[0], 0.5));
    assert_eq!(factors(&gate, &all), [(1.0, 1.0), (1.5, 1.5), (0.75, 0.75)]);
    assert_eq!(gate.load(slow[0]).unwrap().weight, 0.5);
    gate.apply(at(2.0), Event::Weight(slow[0], 1.0));
    assert_eq!(factors(&gate, &all), [(1.0, 1.0); 3]);
    // The one that is left has nobody to be compared with.
    gate.apply(at(3.0), Event::Weight(slow[0], 3.0));
    assert_eq!(factors(&gate, &all)[2], (2.0, 2.0));
    gate.apply(at(4.0), Event::Leave(slow[0]));
    assert_eq!(factors(&gate, &[fast, slow[1]]), [(1.0, 1.0); 2]);
}

#[test]
fn what_was_learned_stands_above_a_weight() {
    let (mut gate, ids) = gate(PoolConfig::default(), 2, at(0.0));
    for i in 0..60 {
        serve(&mut gate, POOL, at(1.0 + f64::from(i)));
    }
    let before = factors(&gate, &ids);
    gate.apply(at(70.0), Event::Weight(ids[0], 4.0));
    assert_eq!(factors(&gate, &ids), before);
    // One that came later is told by its weight, against those it stands beside.
    let new =
        join(&mut gate, POOL, EndpointFacts { weight: 10.0, ..EndpointFacts::named("http://n") }, at(71.0));
    assert_eq!(factors(&gate, &ids), before);
    let (prefill, _) = factors(&gate, &[new])[0];
    assert!((prefill - 0.5).abs() < 0.02, "{prefill}");
}

#[test]
fn a_shared_endpoint_is_weighed_by_the_pool_that_it_is_in_first() {
    let mut gate = Gate::new(1);
    for (pool, weight) in [(PoolId(0), 1.0), (PoolId(1), 100.0)] {
        configure(&mut gate, pool, PoolConfig::default());
        let own = EndpointFacts { weight, ..EndpointFacts::named(format!("http://own{}", pool.0)) };
        join(&mut gate, pool, own, at(0.0));
    }
    let shared = join(&mut gate, PoolId(0), EndpointFacts::named("http://shared"), at(0.0));
    assert_eq!(join(&mut gate, PoolId(1), EndpointFacts::named("http://shared"), at(0.0)), shared);
    assert_eq!(factors(&gate, &[shared]), [(1.0, 1.0)]);
}

#[test]
fn the_weight_in_use_is_what_the_policy_counts() {
    let weighed = |config: PoolConfig| {
        let (mut gate, ids) = gate(config, 2, at(0.0));
        gate.apply(at(1.0), Event::Weight(ids[1], 3.0));
        ids.map_weights(&gate)
    };
    assert_eq!(weighed(policy(PolicyKind::LeastRequest)), [Some(1.0), Some(3.0)]);
    assert_eq!(weighed(policy(PolicyKind::Predictive)), [None, None]);
    assert_eq!(weighed(policy(PolicyKind::OrcaWeightedRoundRobin)), [None, None]);
    let dynamic = weighed(PoolConfig { dynamic_weights: true, ..policy(PolicyKind::Random) });
    assert!(dynamic.iter().all(|weight| weight.is_some_and(|weight| weight > 0.0 && weight != 3.0)));
}

trait MapWeights {
    fn map_weights(&self, gate: &Gate) -> Vec<Option<f64>>;
}

impl MapWeights for Vec<EndpointId> {
    fn map_weights(&self, gate: &Gate) -> Vec<Option<f64>> {
        self.iter().map(|id| gate.load(*id).unwrap().weight_in_use).collect()
    }
}

#[test]
fn the_loads_of_a_pool_are_those_of_its_endpoints() {
    let (mut gate, ids) = gate(PoolConfig::default(), 3, at(0.0));
    configure(&mut gate, PoolId(1), PoolConfig::default());
    join(&mut gate, PoolId(1), EndpointFacts::named("http://elsewhere"), at(0.0));
    for i in 0..5 {
        submit(&mut gate, POOL, i, at(20.0));
    }
    gate.apply(at(21.0), Event::State(ids[1], EndpointState::Draining));
    gate.apply(at(21.0), Event::Restarted(ids[2]));
    submit(&mut gate, POOL, 9, at(23.0));
    let mut standings = vec![(ids[0], gate.load(ids[0]).map(|_| standing(&gate, ids[0])).unwrap())];
    gate.standings(POOL, &mut standings);
    let one_by_one: Vec<_> = ids.iter().map(|id| (*id, standing(&gate, *id))).collect();
    assert_eq!(standings, one_by_one);
    assert!(standings[0].1.in_flight > 0 && standings[0].1.owed_ms > 0.0 && standings[2].1.ramp < 1.0);
    gate.standings(PoolId(7), &mut standings);
    assert!(standings.is_empty());
}

fn standing(gate: &Gate, id: EndpointId) -> EndpointStanding {
    let load = gate.load(id).unwrap();
    EndpointStanding {
        in_flight: load.in_flight,
        owed_ms: load.owed_ms,
        prefill_factor: load.speed.prefill_factor,
        decode_factor: load.speed.decode_factor,
        weight: load.weight,
        ramp: load.ramp,
    }
}

#[test]
fn a_shadow_takes_over_new_parameters_as_the_policy_does() {
    let shadow = Some(PolicyKind::ConsistentHash);
    let bound =
        |hash_balance_factor| PoolConfig { hash_balance_factor, shadow, ..policy(PolicyKind::RoundRobin) };
    let (mut gate, _) = gate(bound(1.0), 4, at(0.0));
    let mut go = |config| {
        configure(&mut gate, POOL, config);
        for _ in 0..40 {
            submit(&mut gate, POOL, 7, at(1.0));
        }
        let mut named: Vec<_> = gate.decisions(40).map(|record| record.shadow.unwrap()).collect();
        named.sort_unstable();
        named.dedup();
        named.len()
    };
    assert!(go(bound(1.0)) > 1, "the bound drives one key to several");
    assert_eq!(go(bound(1000.0)), 1);
}

#[test]
fn load_that_others_send_counts_with_every_policy_that_goes_by_load() {
    for kind in [
        PolicyKind::LeastWork,
        PolicyKind::LeastRequest,
        PolicyKind::PowerOfTwo,
        PolicyKind::ConsistentHash,
        PolicyKind::PrefixAffinity,
        PolicyKind::SessionAffinity,
        PolicyKind::LeastQueue,
        PolicyKind::Prequal,
        PolicyKind::Predictive,
        PolicyKind::Learned,
    ] {
        let (mut gate, ids) = gate(policy(kind), 3, at(0.0));
        let report =
            LoadReport { at: at(20.0), running: Some(50), waiting: Some(50), ..LoadReport::default() };
        for _ in 0..4 {
            gate.apply(at(20.0), Event::Report(ids[0], report));
        }
        let sent = (0..15).filter(|key| submit(&mut gate, POOL, *key, at(20.0)).endpoint == ids[0]).count();
        assert_eq!(sent, 0, "{kind}");
    }
}

#[test]
fn a_report_of_any_numbers_is_taken_in() {
    let (mut gate, ids) = gate(policy(PolicyKind::LeastWork), 2, at(0.0));
    let all = u32::MAX;
    let report = LoadReport { at: at(1.0), running: Some(all), waiting: Some(all), ..LoadReport::default() };
    gate.apply(at(1.0), Event::Report(ids[0], report));
    assert_eq!(submit(&mut gate, POOL, 1, at(1.0)).endpoint, ids[1]);
}

#[test]
fn reports_without_requests_per_second_are_weighed_by_our_own() {
    let (mut gate, ids) = gate(policy(PolicyKind::OrcaWeightedRoundRobin), 2, at(0.0));
    let mut go = |from: u32, until: u32| {
        let mut sent = [0u32; 2];
        for i in from..until {
            let now = at(f64::from(i) * 0.1);
            let endpoint = serve(&mut gate, POOL, now);
            let which = usize::from(endpoint == ids[1]);
            sent[which] += 1;
            // As vLLM: KV memory in use, and nothing else.
            let utilization = Some([0.2, 0.8][which]);
            gate.apply(now, Event::Orca(endpoint, OrcaLoad { utilization, ..OrcaLoad::default() }));
        }
        (sent, ids.map_weights(&gate))
    };
    let (blackout, weights) = go(0, 90);
    assert!(blackout[0].abs_diff(blackout[1]) < 2 && weights == [None, None], "{blackout:?} {weights:?}");
    let (sent, weights) = go(90, 180);
    assert!(sent[0] > 2 * sent[1], "{sent:?}");
    assert!(weights[0].unwrap() > 3.0 * weights[1].unwrap(), "{weights:?}");
}
