//! Each rival by its own rule.

use std::sync::Arc;

use forebay_core::LoadReport;
use rand_core::SeedableRng;

use super::*;

/// A fleet of four as a rival sees it.
struct Scene {
    loads: Vec<Load>,
    known: Vec<Known>,
    held: Vec<u32>,
    candidates: Vec<u32>,
    really: Vec<u32>,
    now: u64,
    exact: bool,
    affinity: u64,
}

impl Scene {
    fn new() -> Scene {
        let profile = *Profile::by_name("h100-8b").unwrap();
        Scene {
            loads: vec![Load::default(); 4],
            known: (0..4).map(|_| Known { profile, weight: 1.0, report: None, orca: None }).collect(),
            held: vec![0; 4],
            candidates: vec![0, 1, 2, 3],
            really: vec![0; 4],
            now: 0,
            exact: true,
            affinity: 1,
        }
    }

    /// So many requests of 1,000 tokens at each, all decoding.
    fn busy(mut self, requests: [u32; 4]) -> Scene {
        for (load, n) in self.loads.iter_mut().zip(requests) {
            *load = Load { in_flight: n, context: u64::from(n) * 1000, streams: n, ..Load::default() };
        }
        self.really = requests.to_vec();
        self
    }

    /// So many prompt tokens of each still to be computed.
    fn owing(mut self, tokens: [u64; 4]) -> Scene {
        for (load, n) in self.loads.iter_mut().zip(tokens) {
            load.prefill_tokens = n;
            load.prefill_ms = n as f64 * 0.0235;
        }
        self
    }

    fn holding(mut self, held: [u32; 4]) -> Scene {
        self.held = held.to_vec();
        self
    }

    fn approximate(mut self) -> Scene {
        self.exact = false;
        self
    }

    fn ask<R>(&self, ask: impl FnOnce(&View<'_>) -> R) -> R {
        let chain: Arc<[u64]> = Arc::from([1, 2, 3, 4]);
        ask(&View {
            now: self.now,
            candidates: &self.candidates,
            loads: &self.loads,
            known: &self.known,
            held: &self.held,
            really: &self.really,
            prompt: 2_048,
            chain: &chain,
            block_tokens: 512,
            affinity: self.affinity,
            exact: self.exact,
        })
    }

    /// Every endpoint that is picked in many tries.
    fn picks(&self, kind: BaselineKind, knobs: &[f64]) -> Vec<u32> {
        let mut rival = kind.make(&Knobs(knobs.to_vec()));
        let mut rng = Pcg64Mcg::seed_from_u64(7);
        let mut picks: Vec<u32> =
            (0..40).map(|_| self.ask(|view| rival.pick(view, &mut rng)).unwrap()).collect();
        picks.sort_unstable();
        picks.dedup();
        picks
    }
}

#[test]
fn names_and_knobs_are_whole() {
    for &kind in BaselineKind::ALL {
        assert_eq!(kind.as_str().parse(), Ok(kind));
        for knob in kind.knobs() {
            assert!(!knob.tries.is_empty() && !knob.what.is_empty(), "{kind} {}", knob.name);
            assert!(knob.default.is_finite());
        }
        // Odd values and too many of them do no harm.
        Scene::new().picks(kind, &[f64::NAN, -1.0, f64::INFINITY, 1e300, -0.0, 3.0, 4.0]);
    }
    assert!("predictive".parse::<BaselineKind>().is_err());
}

#[test]
fn plain_rules_go_by_requests_in_flight() {
    let scene = Scene::new().busy([5, 3, 3, 9]);
    assert_eq!(scene.picks(BaselineKind::RoundRobin, &[]), [0, 1, 2, 3]);
    assert_eq!(scene.picks(BaselineKind::LeastRequest, &[]), [1, 2]);
    assert_eq!(scene.picks(BaselineKind::PowerOfTwo, &[4.0]), [1, 2]);
    assert_eq!(scene.picks(BaselineKind::PowerOfTwo, &[]), [0, 1, 2]);
    let owing = scene.owing([0, 9_000, 0, 0]);
    assert_eq!(owing.picks(BaselineKind::LeastRequest, &[0.5]), [2]);
}

#[test]
fn sglang_balances_only_past_both_thresholds() {
    let held = Scene::new().holding([0, 1_536, 1_024, 0]).busy([0, 60, 0, 0]);
    assert_eq!(held.picks(BaselineKind::Sglang, &[]), [1]);
    assert_eq!(held.picks(BaselineKind::Sglang, &[0.3, 32.0]), [0]);
    // Without news from engines a short match is none.
    let short = Scene::new().holding([0, 512, 0, 0]).busy([2, 3, 1, 2]);
    assert_eq!(short.picks(BaselineKind::Sglang, &[]), [1]);
    assert_eq!(short.approximate().picks(BaselineKind::Sglang, &[]), [2]);
}

#[test]
fn dynamo_adds_prefill_less_credit_to_decode_blocks() {
    // 1: 128 own blocks, 96 held: 32 + 128 decode; others 128 + 128.
    let scene = Scene::new().holding([0, 1_536, 0, 0]);
    assert_eq!(scene.picks(BaselineKind::Dynamo, &[]), [1]);
    // With 2,400 tokens being prefilled there, 150 blocks, it is dearer by 54.
    let owing = scene.owing([0, 2_400, 0, 0]);
    assert_eq!(owing.picks(BaselineKind::Dynamo, &[]), [0, 2, 3]);
    assert_eq!(owing.picks(BaselineKind::Dynamo, &[4.0]), [1]);
    // Blocks in flight count once, and leave with their request.
    let mut rival = BaselineKind::Dynamo.make(&Knobs::default());
    let mut rng = Pcg64Mcg::seed_from_u64(1);
    let scene = Scene::new();
    let chain: Arc<[u64]> = Arc::from([1, 2, 3, 4]);
    scene.ask(|view| {
        let mut is_picked =
            |rival: &mut Box<dyn Rival>| (0..60).any(|_| rival.pick(view, &mut rng) == Some(2));
        assert!(is_picked(&mut rival));
        for _ in 0..2 {
            rival.sent(view, 2);
            // What is there already costs no further block.
            assert!(is_picked(&mut rival));
        }
        let other: Arc<[u64]> = Arc::from([9]);
        rival.sent(&View { chain: &other, ..*view }, 2);
        assert!(!is_picked(&mut rival));
        rival.ended(2, &Ended { chain: &chain, tail: 0, output: 1 });
        assert!(!is_picked(&mut rival));
        rival.ended(2, &Ended { chain: &other, tail: 1_536, output: 1 });
        assert!(is_picked(&mut rival));
    });
}

#[test]
fn llmd_weighs_what_was_last_scraped() {
    let mut scene = Scene::new().holding([0, 1_024, 0, 0]);
    assert_eq!(scene.picks(BaselineKind::LlmdScorers, &[]), [1]);
    let report =
        |waiting, kv| LoadReport { waiting: Some(waiting), kv_usage: Some(kv), ..LoadReport::default() };
    scene.known[1].report = Some(report(10, 0.9));
    scene.known[0].report = Some(report(0, 0.0));
    // 2·.5 + .1 + 0 against 0 + 1 + 1.
    assert_eq!(scene.picks(BaselineKind::LlmdScorers, &[]), [0, 2, 3]);
    assert_eq!(scene.picks(BaselineKind::LlmdScorers, &[5.0]), [1]);
}

#[test]
fn the_affinity_filter_lets_go_when_it_costs_too_much() {
    let near = Scene::new().holding([0, 1_700, 0, 0]).owing([0, 30_000, 0, 0]);
    assert_eq!(near.picks(BaselineKind::LlmdAffinity, &[]), [1]);
    // 30,000 tokens are 705 ms here.
    assert_eq!(near.picks(BaselineKind::LlmdAffinity, &[0.8, 500.0]), [0, 2, 3]);
    assert_eq!(near.picks(BaselineKind::LlmdAffinity, &[0.9]), [0, 2, 3]);
}

#[test]
fn mooncake_takes_the_soonest_first_token() {
    let scene = Scene::new().holding([0, 1_536, 0, 0]).owing([0, 1_000, 0, 9_000]);
    assert_eq!(scene.picks(BaselineKind::Mooncake, &[]), [1]);
    let later = Scene::new().holding([0, 1_536, 0, 0]).owing([0, 2_000, 0, 9_000]);
    assert_eq!(later.picks(BaselineKind::Mooncake, &[]), [0, 2]);
    assert_eq!(later.picks(BaselineKind::Mooncake, &[0.5]), [1]);
}

#[test]
fn preble_exploits_only_what_is_mostly_cached_and_balanced() {
    let scene = Scene::new().holding([0, 1_536, 0, 0]).busy([1, 1, 1, 1]);
    assert_eq!(scene.picks(BaselineKind::Preble, &[]), [1]);
    let uneven = Scene::new().holding([0, 1_536, 0, 0]).busy([1, 9, 1, 1]);
    assert_eq!(uneven.picks(BaselineKind::Preble, &[]), [0, 2, 3]);
}

#[test]
fn aibrix_looks_at_holders_that_are_not_too_busy() {
    let scene = Scene::new().holding([0, 512, 1_024, 0]);
    assert_eq!(scene.picks(BaselineKind::Aibrix, &[]), [2]);
    // Mean 3.25, deviation 2.05.
    let scene = scene.busy([2, 3, 6, 2]);
    assert_eq!(scene.picks(BaselineKind::Aibrix, &[]), [1]);
    assert_eq!(scene.picks(BaselineKind::Aibrix, &[8.0, 2.0]), [2]);
    // Apart by more than eight: only the least loaded.
    let scene = scene.busy([2, 3, 11, 2]);
    assert_eq!(scene.picks(BaselineKind::Aibrix, &[]), [0, 3]);
}

#[test]
fn a_bounded_hash_moves_on_along_the_ring() {
    let mut scene = Scene::new();
    let home = scene.picks(BaselineKind::BoundedHash, &[]);
    assert_eq!(home.len(), 1);
    let mut loads = [1; 4];
    loads[home[0] as usize] = 9;
    scene = scene.busy(loads);
    let other = scene.picks(BaselineKind::BoundedHash, &[]);
    assert!(other.len() == 1 && other != home);
    assert_eq!(scene.picks(BaselineKind::BoundedHash, &[3.5]), home);
    let all: std::collections::BTreeSet<u32> = (0..64)
        .map(|affinity| {
            scene = Scene::new();
            scene.affinity = affinity;
            scene.picks(BaselineKind::BoundedHash, &[])[0]
        })
        .collect();
    assert_eq!(all.len(), 4);
}

#[test]
fn orca_weights_are_requests_over_utilization_once_reports_have_come_for_long() {
    let mut scene = Scene::new();
    let mut rival = BaselineKind::OrcaWrr.make(&Knobs::default());
    let mut rng = Pcg64Mcg::seed_from_u64(7);
    let mut count = |scene: &Scene| {
        let mut picks = [0u32; 4];
        for _ in 0..400 {
            picks[scene.ask(|view| rival.pick(view, &mut rng)).unwrap() as usize] += 1;
        }
        picks
    };
    let tell = |scene: &mut Scene, second: u64| {
        scene.now = second * 1_000_000_000;
        for (endpoint, known) in scene.known.iter_mut().enumerate().take(3) {
            let utilization = Some(if endpoint == 0 { 0.2 } else { 0.4 });
            known.orca = Some((scene.now, OrcaLoad { utilization, qps: Some(10.0), ..OrcaLoad::default() }));
        }
    };
    tell(&mut scene, 1);
    assert_eq!(count(&scene), [100; 4]);
    tell(&mut scene, 12);
    // 2 : 1 : 1, and the one that says nothing gets their mean, 4/3.
    let picks = count(&scene);
    for (got, want) in picks.iter().zip([150.0, 75.0, 75.0, 100.0]) {
        assert!((f64::from(*got) / want - 1.0).abs() < 0.05, "{picks:?}");
    }
    scene.now = 400 * 1_000_000_000;
    let picks = count(&scene);
    assert!(picks.iter().all(|n| n.abs_diff(100) < 4), "{picks:?}");
}

#[test]
fn prequal_avoids_the_hot_and_takes_the_fast() {
    let mut scene = Scene::new().busy([30, 2, 2, 2]);
    let mut rival = BaselineKind::Prequal.make(&Knobs(vec![3.0, 0.7]));
    let mut rng = Pcg64Mcg::seed_from_u64(7);
    for endpoint in 0..4u32 {
        for _ in 0..20 {
            let ms = if endpoint == 2 { 50.0 } else { 200.0 };
            rival.first_token(endpoint, ms, scene.really[endpoint as usize]);
        }
    }
    let mut picks = [0u32; 4];
    for i in 0..500u64 {
        scene.now = i * 20_000_000;
        picks[scene.ask(|view| rival.pick(view, &mut rng)).unwrap() as usize] += 1;
    }
    assert!(picks[2] > 250 && picks[0] < 25, "{picks:?}");
}

#[test]
fn what_peers_have_counts_until_they_say_otherwise() {
    use forebay_core::{Prefix, RequestFacts};
    let endpoints: Vec<_> = (0..2)
        .map(|i| crate::fleet::EndpointSpec::new(format!("e{i}"), Profile::by_name("h100-8b").unwrap()))
        .collect();
    let desk = || {
        let mut desk = Desk::new(BaselineKind::LeastRequest, &Knobs::default(), &endpoints, true, 64, 1);
        (0..2).for_each(|number| {
            desk.join(number);
        });
        desk
    };
    let (mut a, mut b) = (desk(), desk());
    let facts =
        Arc::new(RequestFacts { prompt_tokens: 100, prefix: Prefix::default(), ..RequestFacts::default() });
    let really = [0, 0];
    let (first, at) = a.submit(0, Arc::clone(&facts), &really).unwrap();
    let all = |a: &Desk, b: &Desk| -> Vec<Load> {
        let sum = |(x, y): (&Load, &Load)| {
            let mut sum = *x;
            sum.add(y);
            sum
        };
        a.own().iter().zip(b.own()).map(sum).collect()
    };
    let told = all(&a, &b);
    b.hear_of_all(&told);
    let (_, other) = b.submit(0, Arc::clone(&facts), &really).unwrap();
    assert_ne!(at, other);
    // It ends here, and the peer goes on believing the old word.
    a.progress(5, first);
    a.end(first, 3);
    assert_eq!(a.own().to_vec(), vec![Load::default(); 2]);
    let told = all(&a, &b);
    b.hear_of_all(&told);
    let (_, third) = b.submit(0, facts, &really).unwrap();
    assert_eq!(third, at);
    assert_eq!((a.unsettled(), b.unsettled()), (0, 2));
}
