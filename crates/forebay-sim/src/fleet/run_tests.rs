//! Whole runs.

use std::sync::Arc;
use std::time::Duration;

use forebay_core::Time;
use forebay_gate::{AdmissionConfig, PolicyKind, PoolConfig};

use super::*;
use crate::baselines::{BaselineKind, Knobs};
use crate::engine::Profile;
use crate::workload::{AzureRow, AzureTrace, Class, Groups, GroupsSpec, Mix, Tenants, TenantsSpec, Workload};

fn h100() -> &'static Profile {
    Profile::by_name("h100-8b").unwrap()
}

fn ours(policy: PolicyKind) -> PolicySpec {
    PolicySpec::Ours(PoolConfig { policy, ..PoolConfig::default() })
}

fn everyone() -> Vec<PolicySpec> {
    let rivals = BaselineKind::ALL.iter().map(|kind| PolicySpec::Baseline(*kind, Knobs::default()));
    PolicyKind::ALL.into_iter().map(ours).chain(rivals).collect()
}

fn groups(conversations: u64) -> Groups {
    Groups::new(GroupsSpec { conversations, ..GroupsSpec::default() }, 11)
}

fn plain(rate: f64, requests: u64) -> AzureTrace {
    let rows: Arc<[AzureRow]> = (0..100u32)
        .map(|i| AzureRow {
            timestamp_ms: f64::from(i) * 137.0,
            context_tokens: 200 + i * 13,
            generated_tokens: 20 + i,
        })
        .collect();
    AzureTrace::new(rows, rate, 0, requests, 5)
}

fn play(fleet: &Fleet, workload: &mut dyn Workload, policy: PolicyKind, warmup: u64) -> SimResult {
    play_by(fleet, workload, &ours(policy), warmup)
}

fn play_by(fleet: &Fleet, workload: &mut dyn Workload, policy: &PolicySpec, warmup: u64) -> SimResult {
    let options = RunOptions { seed: 3, warmup, ..RunOptions::default() };
    run(fleet, workload, policy, &options).unwrap()
}

#[test]
fn equal_arguments_give_equal_results() {
    let mut fleet = Fleet::uniform(4, h100());
    fleet.gateways = 2;
    fleet.gateway_shares = vec![1.0, 3.0];
    fleet.endpoints[1].round_trip = Duration::from_millis(3);
    fleet.share_every = Some(Duration::from_millis(50));
    for policy in everyone() {
        let again = || serde_json::to_string(&play_by(&fleet, &mut groups(120), &policy, 10)).unwrap();
        assert_eq!(again(), again(), "{}", policy.name());
    }
}

#[test]
fn every_request_is_served_and_counted_once() {
    for (kv_events, gateways) in [(None, 1), (Some(Duration::from_millis(20)), 1), (None, 3)] {
        let mut fleet = Fleet::uniform(4, h100());
        (fleet.kv_events, fleet.gateways) = (kv_events, gateways);
        fleet.share_every = Some(Duration::from_millis(20));
        for policy in everyone() {
            let result = play_by(&fleet, &mut groups(200), &policy, 100);
            let policy = policy.name();
            assert_eq!((result.simulated, result.requests), (400, 300), "{policy}");
            assert_eq!((result.failed, result.rejected, result.repicked), (0, 0, 0));
            assert_eq!(result.endpoints.iter().map(|e| e.requests).sum::<u64>(), 300);
            assert!(result.goodput > 0.9 && result.ttft_ms.mean > 5.0, "{policy}: {result:?}");
            assert!(result.endpoints.iter().all(|e| (0.0..=1.0).contains(&e.utilization)));
        }
    }
}

#[test]
fn placing_prefixes_saves_what_random_placement_computes_again() {
    let fleet = Fleet::uniform(8, h100());
    let hit = |policy| play(&fleet, &mut groups(640), policy, 0).prefix_hit;
    let (predictive, random) = (hit(PolicyKind::Predictive), hit(PolicyKind::Random));
    assert!(predictive > random + 0.2, "{predictive} against {random}");
}

#[test]
fn a_network_and_a_gateway_add_their_time() {
    let mut fleet = Fleet::uniform(1, h100());
    let base = play(&fleet, &mut plain(1.0, 200), PolicyKind::RoundRobin, 0).ttft_ms.mean;
    fleet.endpoints[0].round_trip = Duration::from_millis(40);
    fleet.gateway_overhead = Duration::from_millis(2);
    let far = play(&fleet, &mut plain(1.0, 200), PolicyKind::RoundRobin, 0).ttft_ms.mean;
    assert!((far - base - 42.0).abs() < 3.0, "{base} {far}");
}

#[test]
fn a_crash_breaks_what_is_in_flight_and_moves_what_comes_after() {
    let mut fleet = Fleet::uniform(3, h100());
    fleet.scrape_every = Duration::from_secs(4);
    let crash = FleetChange::Crash { back_after: Some(Duration::from_secs(20)), keep_cache: false };
    fleet.events.push(FleetEvent { at: Time::from_millis_f64(8_500.0), endpoint: 0, change: crash });
    for policy in everyone() {
        let result = play_by(&fleet, &mut plain(12.0, 900), &policy, 0);
        let policy = policy.name();
        assert_eq!(result.requests, 900, "{policy}");
        let served: u64 = result.endpoints.iter().map(|e| e.requests).sum();
        assert_eq!(served + result.failed + result.rejected, 900, "{policy}");
        // Others need not have used it, or learn from what broke off.
        let uses_all = ["predictive", "round_robin", "rival-least-request", "rival-dynamo"];
        if uses_all.contains(&policy.as_str()) {
            assert!(result.failed > 0 && result.failed < 60, "{policy}: {}", result.failed);
            assert!(result.repicked > 0, "{policy}: nobody was refused");
            // It was away for more than 20 of 75 seconds.
            let share = result.endpoints[0].share;
            assert!((0.05..0.32).contains(&share), "{policy}: {share}");
        }
    }
}

#[test]
fn a_slow_endpoint_gets_less_and_joining_ones_their_share() {
    let mut fleet = Fleet::uniform(4, h100());
    fleet.endpoints[3].is_member = false;
    let at = |s: f64| Time::from_millis_f64(s * 1e3);
    fleet.events.push(FleetEvent { at: at(1.0), endpoint: 0, change: FleetChange::Slow { slowness: 3.0 } });
    fleet.events.push(FleetEvent { at: at(20.0), endpoint: 3, change: FleetChange::Join });
    fleet.events.push(FleetEvent { at: at(60.0), endpoint: 1, change: FleetChange::Leave });
    let result = play(&fleet, &mut plain(20.0, 2_400), PolicyKind::Predictive, 0);
    assert_eq!((result.failed, result.rejected), (0, 0));
    let share = |i: usize| result.endpoints[i].share;
    assert!(share(0) < 0.7 * share(2), "{:?}", result.endpoints);
    assert!(share(3) > 0.15 && share(1) > 0.1, "{:?}", result.endpoints);
}

#[test]
fn waiting_requests_go_in_turn_or_are_refused() {
    let fleet = Fleet::uniform(2, h100());
    let admission = AdmissionConfig { limit: Some(8), queue: 20, max_wait: Duration::from_millis(300) };
    let policy =
        PolicySpec::Ours(PoolConfig { policy: PolicyKind::LeastRequest, admission, ..PoolConfig::default() });
    let result = run(&fleet, &mut plain(30.0, 1_000), &policy, &RunOptions::default()).unwrap();
    let served: u64 = result.endpoints.iter().map(|e| e.requests).sum();
    assert!(result.rejected > 50 && served > 200, "{} {served}", result.rejected);
    assert_eq!(served + result.rejected, 1_000);
    assert!(result.goodput < 1.0 - result.rejected as f64 / 1_000.0 + 1e-9);
}

#[test]
fn impossible_fleets_are_refused_by_name() {
    let refused = |change: &dyn Fn(&mut Fleet)| {
        let mut fleet = Fleet::uniform(2, h100());
        change(&mut fleet);
        run(&fleet, &mut groups(1), &ours(PolicyKind::Random), &RunOptions::default())
            .unwrap_err()
            .to_string()
    };
    assert!(refused(&|f| f.endpoints.clear()).contains("no endpoints"));
    assert!(refused(&|f| f.gateways = 0).contains("gateways"));
    assert!(refused(&|f| f.gateway_shares = vec![1.0; 3]).contains("3 gateway shares for 1"));
    assert!(refused(&|f| f.gateway_shares = vec![f64::NAN]).contains("NaN"));
    assert!(refused(&|f| f.endpoints[1].slowness = f64::NAN).contains("endpoint 1 (e1): slowness"));
    assert!(refused(&|f| f.endpoints[1].name = "e0".into()).contains("e0"));
    assert!(refused(&|f| f.scrape_every = Duration::ZERO).contains("scrape interval"));
    assert!(refused(&|f| f.endpoints[0].profile.kv_tokens = 0).contains("kv_tokens"));
    let slow = FleetChange::Slow { slowness: -1.0 };
    let event = FleetEvent { at: Time::ZERO, endpoint: 0, change: slow };
    assert!(refused(&|f| f.events.push(event)).contains("-1"));
    let event = FleetEvent { endpoint: 9, ..event };
    assert!(refused(&|f| f.events.push(event)).contains("endpoint 9"));
}

/// The same requests by clients that do not wait for long.
struct Impatient(AzureTrace);

impl Workload for Impatient {
    fn block_tokens(&self) -> u32 {
        self.0.block_tokens()
    }

    fn next_request(&mut self) -> Option<crate::workload::SimRequest> {
        let mut request = self.0.next_request()?;
        request.patience = Some(Duration::from_millis(400));
        Some(request)
    }
}

#[test]
fn clients_who_go_away_leave_nothing_behind() {
    let mut fleet = Fleet::uniform(2, h100());
    fleet.endpoints[1].round_trip = Duration::from_millis(30);
    let crash = FleetChange::Crash { back_after: Some(Duration::from_secs(5)), keep_cache: true };
    fleet.events.push(FleetEvent { at: Time::from_millis_f64(4_500.0), endpoint: 1, change: crash });
    for policy in everyone() {
        let result = play_by(&fleet, &mut Impatient(plain(70.0, 1_500)), &policy, 0);
        let name = policy.name();
        let served: u64 = result.endpoints.iter().map(|e| e.requests).sum();
        assert!(result.cancelled > 10 && served > 300, "{name}: {} {served}", result.cancelled);
        assert_eq!(served + result.failed + result.rejected + result.cancelled, 1_500, "{name}");
        assert!(result.ttft_ms.p99 < 450.0, "{name}: {:?}", result.ttft_ms);
    }
}

#[test]
fn the_timeline_adds_up_and_shows_a_throttled_endpoint() {
    let mut fleet = Fleet::uniform(2, h100());
    let slow = FleetChange::Slow { slowness: 4.0 };
    fleet.events.push(FleetEvent { at: Time::from_millis_f64(30_000.0), endpoint: 0, change: slow });
    let options = RunOptions { sample_every: Some(Duration::from_secs(5)), ..RunOptions::default() };
    let policy = ours(PolicyKind::RoundRobin);
    let result = run(&fleet, &mut plain(6.0, 360), &policy, &options).unwrap();
    let timeline = &result.timeline;
    assert!((11..=14).contains(&timeline.len()), "{}", timeline.len());
    let arrived: u64 = timeline.iter().map(|point| point.arrived).sum();
    assert!((330..=360).contains(&arrived), "{arrived}");
    // Four times as slow, it has at least twice as many at a time.
    let there = |from: usize, to: usize| timeline[from..to].iter().map(|p| p.running[0]).sum::<u32>();
    assert!(there(7, 11) >= 2 * there(2, 6), "{} {}", there(7, 11), there(2, 6));
    assert!(timeline[1..11].iter().all(|p| p.busy[0] > 0.2 && p.busy[0] <= 1.0));
    assert!(timeline.iter().all(|p| p.met <= p.served && p.running.len() == 2));
}

#[test]
fn adapters_cost_their_load_once_while_they_fit() {
    let adapters = |slots: u32| {
        let mut fleet = Fleet::uniform(1, h100());
        fleet.endpoints[0].adapter_slots = slots;
        fleet.endpoints[0].adapter_load_ms = 500.0;
        let class = |adapter| Class { adapter: Some(adapter), ..Class::default() };
        let part = |adapter| -> Box<dyn Workload> {
            let spec = TenantsSpec { class: class(adapter), ..TenantsSpec::tasks(0.5, 30) };
            Box::new(Tenants::new(spec, u64::from(adapter)))
        };
        let mut mix = Mix::new(vec![part(0), part(1), part(2)]).unwrap();
        play(&fleet, &mut mix, PolicyKind::RoundRobin, 10).ttft_ms.mean
    };
    let (fit, thrash) = (adapters(3), adapters(1));
    assert!(fit < 60.0 && thrash > 200.0, "{fit} {thrash}");
}

#[test]
fn host_memory_keeps_what_the_accelerator_cannot_and_events_tell_of_it() {
    let hit = |host_tokens: u64, kv_events: Option<Duration>| {
        let mut fleet = Fleet::uniform(2, h100());
        fleet.kv_events = kv_events;
        for endpoint in &mut fleet.endpoints {
            endpoint.profile.kv_tokens = 60_000;
            endpoint.host_tokens = host_tokens;
        }
        play(&fleet, &mut groups(400), PolicyKind::Predictive, 100).prefix_hit
    };
    let told = Some(Duration::from_millis(5));
    let (none, host) = (hit(0, told), hit(2_000_000, told));
    assert!(host > none + 0.08, "{none} {host}");
    // Late news cost little.
    assert!(hit(2_000_000, Some(Duration::from_secs(1))) > host - 0.1);
}

#[test]
fn progress_is_told_and_time_is_accounted_for() {
    let told = std::cell::Cell::new(0);
    let clock = std::cell::Cell::new(0);
    let tick = || {
        clock.set(clock.get() + 7);
        clock.get()
    };
    let hear = |arrived| told.set(arrived);
    let options = RunOptions { progress: Some(&hear), clock: Some(&tick), ..RunOptions::default() };
    let fleet = Fleet::uniform(3, h100());
    let mut tasks = Tenants::new(TenantsSpec::tasks(300.0, 9_000), 1);
    let result = run(&fleet, &mut tasks, &ours(PolicyKind::LeastRequest), &options).unwrap();
    assert_eq!(told.get(), 8_192);
    let p = result.parts;
    let sum = p.workload + p.look_up + p.pick + p.index + p.settle + p.engine + p.report + p.rest;
    assert_eq!(sum + 7, clock.get());
    let quiet =
        play(&fleet, &mut Tenants::new(TenantsSpec::tasks(300.0, 9_000), 1), PolicyKind::LeastRequest, 0);
    assert_eq!(quiet.simulated, result.simulated);
}

#[test]
fn one_that_leaves_and_joins_again_is_a_new_one() {
    let mut fleet = Fleet::uniform(2, h100());
    for (second, change) in [(5.0, FleetChange::Leave), (15.0, FleetChange::Join)] {
        let at = Time::from_millis_f64(second * 1e3);
        fleet.events.push(FleetEvent { at, endpoint: 1, change });
    }
    for kv_events in [None, Some(Duration::from_millis(10))] {
        fleet.kv_events = kv_events;
        for policy in everyone() {
            let spec = TenantsSpec { tenants: 6, ..TenantsSpec::saas(2.0, 60) };
            let result = play_by(&fleet, &mut Tenants::new(spec, 3), &policy, 0);
            assert_eq!((result.failed, result.rejected), (0, 0), "{}", policy.name());
            assert_eq!(result.endpoints.iter().map(|e| e.requests).sum::<u64>(), 60);
        }
    }
}

#[test]
fn only_so_many_count_and_then_it_ends() {
    let fleet = Fleet::uniform(4, h100());
    let mut tenants = Tenants::new(TenantsSpec::saas(4.0, 10_000), 1);
    let options = RunOptions { seed: 1, warmup: 50, counted: Some(200), ..RunOptions::default() };
    let result = run(&fleet, &mut tenants, &ours(PolicyKind::Predictive), &options).unwrap();
    let served: u64 = result.endpoints.iter().map(|endpoint| endpoint.requests).sum();
    assert_eq!((result.requests, served), (200, 200));
    assert!((250..5_000).contains(&result.simulated), "{}", result.simulated);
}

#[test]
fn the_last_crash_decides_when_an_endpoint_is_back() {
    let crash = |at: u64, back: Option<u64>| {
        let back_after = back.map(Duration::from_secs);
        let change = FleetChange::Crash { back_after, keep_cache: false };
        (0..2).map(move |endpoint| FleetEvent { at: Time::from_nanos(at * 1_000_000_000), endpoint, change })
    };
    let rejected = |events: Vec<FleetEvent>| {
        let mut fleet = Fleet::uniform(2, h100());
        fleet.events = events;
        let mut tenants = Tenants::new(TenantsSpec::saas(3.0, 300), 1);
        let result = play(&fleet, &mut tenants, PolicyKind::RoundRobin, 0);
        assert!(result.ttft_ms.mean < 1e6 && result.e2e_ms.mean < 1e6, "{:?}", result.ttft_ms);
        result.rejected + result.failed
    };
    let short: Vec<FleetEvent> = crash(5, Some(5)).collect();
    let then_long: Vec<FleetEvent> = crash(5, Some(5)).chain(crash(6, Some(40))).collect();
    let long: Vec<FleetEvent> = crash(5, Some(41)).collect();
    let then_forever: Vec<FleetEvent> = crash(5, Some(20)).chain(crash(6, None)).collect();
    let short = rejected(short);
    assert!(rejected(then_long) > 2 * short);
    assert!(rejected(long) > 2 * short);
    assert!(rejected(then_forever) > 250);
}
