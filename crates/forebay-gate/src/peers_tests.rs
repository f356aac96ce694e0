//! Several gateways before the same endpoints.

use std::collections::BTreeMap;
use std::sync::Arc;

use forebay_core::{EndpointFacts, EndpointId, EndpointState, PoolId, RequestFacts, Slo, TicketId, Time};

use crate::{Event, Gate, PeerWord, PoolConfig, Progress, Verdict};

const POOL: PoolId = PoolId(0);

fn at(ms: u64) -> Time {
    Time::from_nanos(60_000_000_000 + ms * 1_000_000)
}

fn gate(seed: u64, endpoints: usize) -> (Gate, Vec<EndpointId>) {
    let mut gate = Gate::new(seed);
    gate.apply(Time::ZERO, Event::Configure(POOL, PoolConfig::default()));
    let join = |i| {
        let facts = EndpointFacts::named(format!("http://e{i}"));
        gate.apply(Time::ZERO, Event::Join(POOL, facts, EndpointState::Ready)).joined.unwrap()
    };
    let ids = (0..endpoints).map(join).collect();
    (gate, ids)
}

fn request() -> Arc<RequestFacts> {
    Arc::new(RequestFacts {
        pool: POOL,
        prompt_tokens: 4_000,
        output_tokens: 200,
        stream: true,
        slo: Slo { ttft_ms: Some(2_000.0), tpot_ms: Some(50.0) },
        ..RequestFacts::default()
    })
}

fn go(gate: &mut Gate, now: Time) -> (TicketId, EndpointId) {
    match gate.submit(now, request()) {
        Verdict::Go(decision) => (decision.ticket, decision.endpoint),
        other => panic!("{other:?}"),
    }
}

fn tell(from: &Gate, number: u32, to: &mut Gate, now: Time) {
    to.apply(now, Event::Peer(number, Some(Arc::new(from.word(now)))));
}

#[test]
fn what_a_peer_sent_is_seen_and_gone_when_it_ends() {
    let ((mut a, ids), (mut b, _)) = (gate(1, 4), gate(2, 4));
    let mut tickets = Vec::new();
    let mut sent: BTreeMap<EndpointId, u32> = BTreeMap::new();
    for i in 0..6 {
        let (ticket, endpoint) = go(&mut a, at(i));
        *sent.entry(endpoint).or_default() += 1;
        tickets.push(ticket);
    }
    a.apply(at(50), Event::Progress(vec![Progress { ticket: tickets[0], tokens: 1 }]));
    tell(&a, 0, &mut b, at(51));
    for id in &ids {
        let slot = b.endpoints.slot(*id).unwrap();
        assert_eq!(b.endpoints.peer(slot).requests, sent.get(id).copied().unwrap_or(0));
    }
    // Whoever has least of the others gets the next one.
    let (_, endpoint) = go(&mut b, at(52));
    assert_eq!(sent.get(&endpoint), sent.values().min());
    // Told twice is told once; nothing new changes nothing.
    let before = b.clone();
    tell(&a, 0, &mut b, at(53));
    b.apply(at(54), Event::Peer(0, None));
    assert!(ids.iter().all(|id| {
        let slot = b.endpoints.slot(*id).unwrap();
        b.endpoints.peer(slot).requests == before.endpoints.peer(slot).requests
    }));
    for ticket in tickets {
        a.apply(at(60), Event::Cancelled(ticket));
    }
    tell(&a, 0, &mut b, at(61));
    for id in &ids {
        let peer = b.endpoints.peer(b.endpoints.slot(*id).unwrap());
        assert_eq!((peer.requests, peer.streams, peer.owed_us, peer.context, peer.work), (0, 0, 0, 0, 0));
    }
}

#[test]
fn a_peer_that_is_gone_has_nothing_any_more() {
    let ((mut a, ids), (mut b, _)) = (gate(1, 3), gate(2, 3));
    for i in 0..9 {
        go(&mut a, at(i));
    }
    tell(&a, 0, &mut b, at(10));
    let sum = |b: &Gate| ids.iter().map(|id| b.endpoints.peer(id.index() as u32).requests).sum::<u32>();
    assert_eq!(sum(&b), 9);
    b.apply(at(9_000), Event::Timer);
    assert_eq!(sum(&b), 9);
    b.apply(at(11_000), Event::Timer);
    assert_eq!(sum(&b), 0);
}

#[test]
fn words_of_endpoints_and_classes_that_are_unknown_do_no_harm() {
    let (mut gate, ids) = gate(1, 2);
    let load = crate::PeerLoad {
        requests: u32::MAX,
        streams: u32::MAX,
        owed_us: u64::MAX,
        work: u64::MAX,
        context: u64::MAX,
        blocks: u64::MAX,
        tail: u64::MAX,
        dispatched_ms: f32::NAN,
        classes: [u32::MAX; 8],
    };
    let stranger = EndpointId { slot: 99, generation: 7 };
    let word = PeerWord {
        arrivals_per_ms: f64::NAN,
        classes: Vec::new(),
        loads: vec![(stranger, load), (ids[1], load), (ids[1], load)],
    };
    for number in [0, u32::MAX] {
        gate.apply(at(1), Event::Peer(number, Some(Arc::new(word.clone()))));
    }
    gate.apply(at(2), Event::Among { me: u32::MAX, gateways: 0 });
    let (_, endpoint) = go(&mut gate, at(3));
    assert_eq!(endpoint, ids[0], "the other one is full");
}

/// Where cold requests go while no gateway hears of the others.
fn reach(me: u32, gateways: u32, endpoints: usize) -> Vec<EndpointId> {
    let (mut gate, _) = gate(u64::from(me), endpoints);
    gate.apply(at(0), Event::Among { me, gateways });
    let mut seen: Vec<EndpointId> = (0..400).map(|i| go(&mut gate, at(i)).1).collect();
    seen.sort_unstable();
    seen.dedup();
    seen
}

#[test]
fn windows_cover_the_fleet_and_overlap_by_half() {
    let windows: Vec<Vec<EndpointId>> = (0..4).map(|me| reach(me, 4, 16)).collect();
    assert!(windows.iter().all(|window| window.len() == 8), "{windows:?}");
    let mut by_endpoint: BTreeMap<EndpointId, u32> = BTreeMap::new();
    for endpoint in windows.iter().flatten() {
        *by_endpoint.entry(*endpoint).or_default() += 1;
    }
    assert_eq!(by_endpoint.len(), 16, "every endpoint is somebody's");
    assert!(by_endpoint.values().all(|gateways| *gateways == 2), "{by_endpoint:?}");
    // Few endpoints or few gateways: everybody uses all.
    assert_eq!(reach(0, 2, 16).len(), 16);
    assert_eq!(reach(3, 8, 4).len(), 4);
    assert_eq!(reach(3, 8, 6).len(), 4);
}

#[test]
fn what_is_held_outside_the_window_is_still_sent_there() {
    let (mut gate, ids) = gate(1, 16);
    gate.apply(at(0), Event::Among { me: 0, gateways: 8 });
    let inside = reach(0, 8, 16);
    let outside = *ids.iter().find(|id| !inside.contains(id)).unwrap();
    let mut facts = (*request()).clone();
    facts.prefix.matches.push(forebay_core::PrefixMatch { endpoint: outside, tokens: 3_900 });
    let Verdict::Go(decision) = gate.submit(at(1), Arc::new(facts)) else { panic!("it goes") };
    assert_eq!(decision.endpoint, outside);
}

#[test]
fn words_that_are_news_open_the_whole_fleet() {
    let ((mut a, _), (mut b, _)) = (gate(1, 16), gate(2, 16));
    b.apply(at(0), Event::Among { me: 1, gateways: 8 });
    let mut seen = Vec::new();
    for i in 0..400u64 {
        // One request in 20 ms here and there, and a word every 10 ms.
        if i % 2 == 0 {
            go(&mut a, at(10 * i));
            seen.push(go(&mut b, at(10 * i + 1)).1);
        }
        tell(&a, 0, &mut b, at(10 * i + 5));
    }
    seen.sort_unstable();
    seen.dedup();
    assert_eq!(seen.len(), 16);
}

#[test]
fn a_prefix_that_gateways_share_fills_the_memory_once() {
    let ((mut a, ids), (mut b, _)) = (gate(1, 1), gate(2, 1));
    let chain: Arc<[u64]> = (1..=4_000).collect();
    let facts = || {
        let mut facts = (*request()).clone();
        facts.prompt_tokens = 256_000;
        facts.output_tokens = 10;
        facts.prefix.chain = Arc::clone(&chain);
        facts.prefix.block_tokens = 64.0;
        Arc::new(facts)
    };
    for gate in [&mut a, &mut b] {
        assert!(matches!(gate.submit(at(0), facts()), Verdict::Go(_)));
    }
    tell(&a, 0, &mut b, at(1));
    let slot = b.endpoints.slot(ids[0]).unwrap();
    assert_eq!(b.endpoints.distinct_share(slot, 64.0, 10.0), 1.0, "nothing is known of it yet");
    let report = forebay_core::LoadReport {
        at: at(2),
        running: Some(2),
        kv_usage: Some(0.6),
        kv_tokens: Some(427_000),
        ..forebay_core::LoadReport::default()
    };
    b.apply(at(2), Event::Report(ids[0], report));
    let share = b.endpoints.distinct_share(slot, 64.0, 10.0);
    assert!((share - 0.5).abs() < 0.01, "{share}");
    // And it goes on being half of what is told when more of the same comes.
    assert!(matches!(a.submit(at(3), facts()), Verdict::Go(_)));
    tell(&a, 0, &mut b, at(4));
    assert!((b.endpoints.distinct_share(slot, 64.0, 10.0) - 0.5).abs() < 0.01);
}

#[test]
fn words_after_a_long_silence_are_numbers() {
    // Nothing was sent here for more than half an hour.
    let ((mut a, ids), (mut b, _)) = (gate(1, 2), gate(2, 2));
    let now = at(3_000_000);
    let (_, endpoint) = go(&mut a, now);
    tell(&a, 0, &mut b, now);
    for id in &ids {
        let slot = b.endpoints.slot(*id).unwrap();
        let share = b.endpoints.prefill_share(slot, b.endpoints.decay(now));
        assert!(share.is_finite(), "{share}");
        assert_eq!(share > 0.0, *id == endpoint, "{share}");
    }
    assert_ne!(go(&mut b, now).1, endpoint);
}
