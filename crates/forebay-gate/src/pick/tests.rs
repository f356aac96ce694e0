//! What each policy promises.

use forebay_core::*;
use proptest::prelude::*;
use rand_core::SeedableRng;
use rand_pcg::Pcg64Mcg;

use super::*;
use crate::endpoints::Endpoints;

fn fleet(weights: &[f64]) -> (Endpoints, Vec<u32>) {
    let mut endpoints = Endpoints::default();
    let slots = weights
        .iter()
        .enumerate()
        .map(|(i, &weight)| {
            let facts = EndpointFacts { weight, ..EndpointFacts::named(format!("http://10.0.0.{i}:8000")) };
            endpoints.insert(facts, EndpointState::Ready, Time::ZERO).slot
        })
        .collect();
    (endpoints, slots)
}

fn facts(affinity: u64) -> RequestFacts {
    RequestFacts { prompt_tokens: 10, output_tokens: 10, affinity, ..RequestFacts::default() }
}

fn policy(kind: PolicyKind) -> AnyPolicy {
    make(kind)
}

/// A pick by a policy in a pool of which nothing is known.
trait Choose {
    fn choose(
        &mut self,
        candidates: &[u32],
        endpoints: &Endpoints,
        facts: &RequestFacts,
        rng: &mut Pcg64Mcg,
    ) -> Option<Pick>;
}

impl Choose for AnyPolicy {
    fn choose(
        &mut self,
        candidates: &[u32],
        endpoints: &Endpoints,
        facts: &RequestFacts,
        rng: &mut Pcg64Mcg,
    ) -> Option<Pick> {
        let (learned, config) = (Learned::default(), PoolConfig::default());
        let (now, held, extra, ramping): (_, &[u32], &[f32], &[u32]) = (Time::ZERO, &[], &[], &[]);
        let view = View {
            now,
            candidates,
            eligible: candidates,
            endpoints,
            facts,
            held,
            extra,
            loading: extra,
            share: 1.0,
            ramping,
            learned: &learned,
            config: &config,
        };
        self.pick(&view, rng)
    }
}

/// Picks `n` times without load, one affinity key each, and counts.
fn counts(kind: PolicyKind, weights: &[f64], n: u64) -> Vec<u32> {
    let (endpoints, slots) = fleet(weights);
    let mut policy = policy(kind);
    let mut rng = Pcg64Mcg::seed_from_u64(3);
    let mut counts = vec![0; weights.len()];
    for i in 0..n {
        let pick = policy.choose(&slots, &endpoints, &facts(i), &mut rng).unwrap();
        counts[pick.slot as usize] += 1;
    }
    counts
}

#[test]
fn nobody_is_picked_when_nobody_is_there() {
    let (endpoints, _) = fleet(&[1.0]);
    let mut rng = Pcg64Mcg::seed_from_u64(3);
    for kind in PolicyKind::ALL {
        assert_eq!(policy(kind).choose(&[], &endpoints, &facts(1), &mut rng), None, "{kind}");
    }
}

#[test]
fn round_robin_takes_turns_whoever_comes_or_goes() {
    let (endpoints, slots) = fleet(&[1.0, 5.0, 1.0, 1.0]);
    let mut policy = policy(PolicyKind::RoundRobin);
    let mut rng = Pcg64Mcg::seed_from_u64(3);
    let mut pick =
        |candidates: &[u32]| policy.choose(candidates, &endpoints, &facts(0), &mut rng).unwrap().slot;
    assert_eq!([pick(&slots), pick(&slots)], [0, 1]);
    // Endpoint 1 goes after its turn: 2 is still next.
    assert_eq!([pick(&[0, 2, 3]), pick(&[0, 2, 3]), pick(&slots), pick(&slots)], [2, 3, 0, 1]);
}

#[test]
fn weighted_round_robin_is_exact_and_smooth() {
    assert_eq!(counts(PolicyKind::WeightedRoundRobin, &[5.0, 1.0, 1.0], 70), [50, 10, 10]);
    let (endpoints, slots) = fleet(&[5.0, 1.0, 1.0]);
    let mut policy = policy(PolicyKind::WeightedRoundRobin);
    let mut rng = Pcg64Mcg::seed_from_u64(3);
    let turns: Vec<u32> =
        (0..7).map(|_| policy.choose(&slots, &endpoints, &facts(0), &mut rng).unwrap().slot).collect();
    assert_eq!(turns, [0, 0, 1, 0, 2, 0, 0]);
}

#[test]
fn weights_are_followed_at_random_and_by_hash() {
    for kind in [PolicyKind::Random, PolicyKind::ConsistentHash] {
        let counts = counts(kind, &[1.0, 2.0, 1.0], 8000);
        for (count, want) in counts.iter().zip([2000, 4000, 2000]) {
            assert!(count.abs_diff(want) < 250, "{kind}: {counts:?}");
        }
    }
}

#[test]
fn ties_are_spread_over_the_fleet() {
    for kind in [PolicyKind::LeastRequest, PolicyKind::LeastWork, PolicyKind::PowerOfTwo] {
        let counts = counts(kind, &[1.0; 4], 4000);
        assert!(counts.iter().all(|c| c.abs_diff(1000) < 150), "{kind}: {counts:?}");
    }
}

#[test]
fn least_request_divides_by_weight() {
    let (mut endpoints, slots) = fleet(&[1.0, 3.0]);
    let mut policy = policy(PolicyKind::LeastRequest);
    let mut rng = Pcg64Mcg::seed_from_u64(3);
    for _ in 0..8 {
        let pick = policy.choose(&slots, &endpoints, &facts(0), &mut rng).unwrap();
        endpoints.add_load(pick.slot, 1);
    }
    assert_eq!((endpoints.in_flight(0), endpoints.in_flight(1)), (2, 6));
}

#[test]
fn least_work_sees_that_one_long_request_outweighs_many_short_ones() {
    let (mut endpoints, slots) = fleet(&[1.0, 1.0]);
    endpoints.add_load(0, 100_000);
    for _ in 0..20 {
        endpoints.add_load(1, 100);
    }
    let mut rng = Pcg64Mcg::seed_from_u64(3);
    let mut pick = |kind| policy(kind).choose(&slots, &endpoints, &facts(0), &mut rng).unwrap().slot;
    assert_eq!(pick(PolicyKind::LeastWork), 1);
    assert_eq!(pick(PolicyKind::LeastRequest), 0);
}

#[test]
fn a_hash_keeps_its_endpoint_when_another_leaves() {
    let (endpoints, slots) = fleet(&[1.0; 5]);
    let mut policy = policy(PolicyKind::ConsistentHash);
    let mut rng = Pcg64Mcg::seed_from_u64(3);
    let fewer: Vec<u32> = slots.iter().copied().filter(|&s| s != 2).collect();
    let mut moved = 0;
    for key in 0..1000 {
        let before = policy.choose(&slots, &endpoints, &facts(key), &mut rng).unwrap().slot;
        let after = policy.choose(&fewer, &endpoints, &facts(key), &mut rng).unwrap().slot;
        if before == 2 {
            moved += 1;
        } else {
            assert_eq!(before, after);
        }
    }
    assert!((150..250).contains(&moved), "{moved}");
}

proptest! {
    #[test]
    fn a_hash_never_exceeds_its_bound(
        weights in prop::collection::vec(0.1f64..8.0, 1..12),
        keys in prop::collection::vec(0u64..4, 1..200),
    ) {
        let (mut endpoints, slots) = fleet(&weights);
        let mut policy = policy(PolicyKind::ConsistentHash);
        let mut rng = Pcg64Mcg::seed_from_u64(3);
        let sum: f64 = weights.iter().sum();
        for (n, key) in keys.iter().enumerate() {
            let pick = policy.choose(&slots, &endpoints, &facts(*key), &mut rng).unwrap();
            endpoints.add_load(pick.slot, 1);
            let bound = (1.25 * (n + 1) as f64 * weights[pick.slot as usize] / sum).ceil();
            prop_assert!(f64::from(endpoints.in_flight(pick.slot)) <= bound);
        }
    }

    #[test]
    fn only_candidates_are_picked(
        weights in prop::collection::vec(0.1f64..8.0, 1..12),
        loads in prop::collection::vec((0usize..12, 1u64..10_000), 0..40),
        mask in any::<u16>(),
        key in any::<u64>(),
    ) {
        let (mut endpoints, slots) = fleet(&weights);
        for (i, work) in loads {
            endpoints.add_load(slots[i % slots.len()], work);
        }
        let candidates: Vec<u32> = slots.into_iter().filter(|s| mask & (1 << s) != 0).collect();
        let mut rng = Pcg64Mcg::seed_from_u64(key);
        for kind in PolicyKind::ALL {
            let pick = policy(kind).choose(&candidates, &endpoints, &facts(key), &mut rng);
            prop_assert_eq!(pick.is_some(), !candidates.is_empty());
            prop_assert!(pick.is_none_or(|p| candidates.contains(&p.slot)));
        }
    }
}
