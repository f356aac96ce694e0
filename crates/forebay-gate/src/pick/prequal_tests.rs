use rand_core::SeedableRng;

use super::super::testing::{Scene, failure, first_token};
use super::*;

/// `latencies[i]` is seen at slot i, when it had `loads[i]` in flight.
fn scene(latencies: &[u64], loads: &[u32]) -> (Scene, Prequal) {
    let mut scene = Scene::new(latencies.len());
    let mut policy = Prequal::default();
    for (slot, (&ms, &load)) in latencies.iter().zip(loads).enumerate() {
        let slot = slot as u32;
        policy.sent(&scene.view(), slot);
        for _ in 0..5 {
            policy.observed(slot, scene.now, &first_token(ms, 100.0, load));
        }
        for _ in 0..load {
            scene.load(slot, 1.0);
        }
    }
    (scene, policy)
}

#[test]
fn cold_ones_go_by_latency_and_not_by_load() {
    let (mut scene, mut policy) = scene(&[50, 30, 80, 60, 20], &[1, 3, 2, 2, 9]);
    // Slot 4 is the fastest, and hot: above the others' counts.
    for _ in 0..20 {
        policy.probes.clear();
        assert_eq!(scene.pick(&mut policy), 1);
    }
}

#[test]
fn when_all_are_hot_the_fewest_requests_go() {
    let (mut scene, mut policy) = scene(&[10, 20, 30], &[7, 6, 8]);
    // The fleet was idle a moment ago.
    for _ in 0..PROBES {
        policy.probes.push_back((scene.now, 1.0));
    }
    assert_eq!(scene.pick(&mut policy), 1);
    // A second later that is forgotten, and they are cold but for the busiest.
    scene.after(Duration::from_millis(1500));
    assert_eq!(scene.pick(&mut policy), 0);
}

#[test]
fn the_threshold_is_the_quantile_of_the_probes() {
    let mut policy = Prequal::default();
    assert_eq!(policy.threshold(), f32::INFINITY);
    for count in 1..=16 {
        policy.probes.push_back((Time::ZERO, count as f32));
    }
    // .8409 of the way from the first to the last of sixteen: 12.6 steps.
    assert_eq!(policy.threshold(), 13.0);
    policy.probes.truncate(1);
    assert_eq!(policy.threshold(), 1.0);
}

#[test]
fn latency_is_that_of_a_similar_load() {
    let mut known = Known::default();
    let now = Time::from_nanos(1_000_000_000);
    for (in_flight, ms) in [(0, 10.0), (0, 12.0), (1, 11.0), (0, 14.0), (1, 13.0), (20, 500.0), (21, 600.0)] {
        known.first_token(Latency { at: now, in_flight, ms });
    }
    assert_eq!(known.latency_ms(0, now), Some(12.0));
    assert!(known.latency_ms(20, now) > Some(12.0));
    assert_eq!(known.latency_ms(0, now + Duration::from_secs(11)), None);
    for i in 0..1000 {
        known.first_token(Latency { at: now, in_flight: i, ms: 1.0 });
    }
    assert_eq!(known.latencies.len(), LATENCIES);
}

#[test]
fn failing_fast_is_not_being_fast() {
    let (mut scene, mut policy) = scene(&[20, 40, 45], &[0, 0, 0]);
    assert_eq!(scene.pick(&mut policy), 0);
    for _ in 0..6 {
        policy.observed(0, scene.now, &failure());
        policy.observed(0, scene.now, &first_token(1, 100.0, 0));
        policy.observed(0, scene.now, &failure());
    }
    assert_eq!(scene.counts(&mut policy, 10), [0, 10, 0]);
    // Also when the others are hot and it is idle.
    scene.load(1, 1.0);
    scene.load(2, 1.0);
    for _ in 0..PROBES {
        policy.probes.push_back((scene.now, 0.0));
    }
    assert_ne!(scene.pick(&mut policy), 0);
    // It is forgiven in time, and a new holder of its slot never did it.
    scene.leave(0);
    scene.join("http://other");
    assert_eq!(scene.pick(&mut policy), 0);
}

#[test]
fn five_different_ones_are_asked() {
    let candidates: Vec<u32> = (0..9).collect();
    let mut rng = Pcg64Mcg::seed_from_u64(1);
    let mut counts = [0; 9];
    for _ in 0..9000 {
        let mut drawn = draw(&candidates, &mut rng);
        drawn.sort_unstable();
        drawn.dedup();
        assert_eq!(drawn.len(), ASKED);
        drawn.iter().for_each(|slot| counts[*slot as usize] += 1);
    }
    assert!(counts.iter().all(|c| (4700..5300).contains(c)), "{counts:?}");
    assert_eq!(draw(&candidates[..3], &mut rng).len(), 3);
    assert!(draw(&[], &mut rng).is_empty());
}

#[test]
fn an_idle_fleet_is_used_evenly() {
    let mut scene = Scene::new(4);
    let counts = scene.counts(&mut Prequal::default(), 4000);
    assert!(counts.iter().all(|c| c.abs_diff(1000) < 150), "{counts:?}");
}
