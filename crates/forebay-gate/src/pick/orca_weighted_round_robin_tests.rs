use super::super::testing::Scene;
use super::*;

const CONFIG: OrcaConfig = OrcaConfig {
    blackout_period: Duration::from_secs(10),
    weight_expiration_period: Duration::from_secs(180),
    weight_update_period: Duration::from_secs(1),
    error_utilization_penalty: 1.0,
};

/// Nothing of ours ended there.
const UNSEEN: (f64, f64) = (0.0, 0.0);

fn load(qps: f32, utilization: f32, eps: f32) -> OrcaLoad {
    OrcaLoad { qps: Some(qps), utilization: Some(utilization), eps: Some(eps), ..OrcaLoad::default() }
}

fn secs(s: u64) -> Time {
    Time::from_nanos(s * 1_000_000_000)
}

#[test]
fn the_weight_is_that_of_the_proposal() {
    // qps, utilization, eps, penalty, weight
    let table = [
        (100.0, 0.5, 0.0, 1.0, 200.0),
        (100.0, 1.25, 0.0, 1.0, 80.0),
        (100.0, 0.5, 50.0, 1.0, 100.0),
        (100.0, 0.5, 50.0, 2.0, 100.0 / 1.5),
        (100.0, 0.5, 50.0, 0.0, 200.0),
        (100.0, 0.5, 50.0, f64::NAN, 200.0),
        (0.0, 0.5, 0.0, 1.0, 0.0),
        (100.0, 0.0, 0.0, 1.0, 0.0),
        (-3.0, 0.5, 0.0, 1.0, 0.0),
        (f32::NAN, f32::INFINITY, 0.0, 1.0, 0.0),
    ];
    for (qps, utilization, eps, penalty, want) in table {
        let mut weight = EndpointWeight::default();
        weight.update(secs(1), &load(qps, utilization, eps), UNSEEN, penalty);
        assert!((weight.weight - want).abs() < 1e-3, "{qps} {utilization} {eps} {penalty}: {weight:?}");
        assert_eq!(weight.non_empty_since.is_some(), want > 0.0);
    }
    let mut weight = EndpointWeight::default();
    weight.update(secs(1), &OrcaLoad::default(), UNSEEN, 1.0);
    assert_eq!(weight, EndpointWeight::default());
}

#[test]
fn blackout_and_expiration() {
    let mut weight = EndpointWeight::default();
    assert_eq!(weight.get(secs(1000), &CONFIG), 0.0);
    for at in 100..=109 {
        weight.update(secs(at), &load(10.0, 0.5, 0.0), UNSEEN, 1.0);
        assert_eq!(weight.get(secs(at), &CONFIG), 0.0, "blackout");
    }
    assert_eq!(weight.get(secs(110), &CONFIG), 20.0);
    // An empty report keeps the old weight and does not renew it.
    weight.update(secs(200), &load(0.0, 0.5, 0.0), UNSEEN, 1.0);
    assert_eq!(weight.get(secs(109 + 179), &CONFIG), 20.0);
    assert_eq!(weight.get(secs(109 + 180), &CONFIG), 0.0, "expired");
    weight.update(secs(300), &load(10.0, 0.5, 0.0), UNSEEN, 1.0);
    assert_eq!(weight.get(secs(309), &CONFIG), 0.0, "blackout begins anew");
    assert_eq!(weight.get(secs(310), &CONFIG), 20.0);
    let mut weight = EndpointWeight::default();
    weight.update(secs(1), &load(10.0, 0.5, 0.0), UNSEEN, 1.0);
    let none = OrcaConfig { blackout_period: Duration::ZERO, ..CONFIG };
    assert_eq!(weight.get(secs(1), &none), 20.0);
}

/// Every endpoint reports for twenty seconds; none: it says nothing.
fn reported(loads: &[Option<OrcaLoad>]) -> (Scene, OrcaWeightedRoundRobin) {
    let mut scene = Scene::new(loads.len());
    let mut policy = OrcaWeightedRoundRobin::default();
    for _ in 0..20 {
        for (slot, load) in loads.iter().enumerate() {
            if let Some(load) = load {
                scene.endpoints.set_orca(slot as u32, scene.now, *load);
            }
        }
        scene.pick(&mut policy);
        scene.after(Duration::from_secs(1));
    }
    (scene, policy)
}

#[test]
fn shares_follow_weights_and_the_unknown_have_the_mean() {
    let loads = [Some(load(100.0, 0.5, 0.0)), Some(load(100.0, 0.25, 0.0)), None];
    let (mut scene, mut policy) = reported(&loads);
    // 200, 400 and their mean 300.
    let counts = scene.counts(&mut policy, 900);
    for (count, want) in counts.iter().zip([200, 400, 300]) {
        assert!(count.abs_diff(want) <= 2, "{counts:?}");
    }
}

#[test]
fn with_fewer_than_two_weights_each_goes_in_turn() {
    for loads in [[None, None, None], [Some(load(100.0, 0.1, 0.0)), None, None]] {
        let (mut scene, mut policy) = reported(&loads);
        assert_eq!(scene.counts(&mut policy, 300), [100, 100, 100]);
    }
    // The same before the blackout is over.
    let mut scene = Scene::new(2);
    let mut policy = OrcaWeightedRoundRobin::default();
    scene.endpoints.set_orca(0, scene.now, load(100.0, 0.1, 0.0));
    scene.endpoints.set_orca(1, scene.now, load(100.0, 0.9, 0.0));
    assert_eq!(scene.counts(&mut policy, 10), [5, 5]);
}

#[test]
fn what_ended_here_stands_for_requests_that_a_report_does_not_count() {
    let update = |load: &OrcaLoad, seen| {
        let mut weight = EndpointWeight::default();
        weight.update(secs(1), load, seen, 1.0);
        weight.weight
    };
    let kv = OrcaLoad { utilization: Some(0.5), ..OrcaLoad::default() };
    assert_eq!(update(&kv, (4.0, 0.0)), 8.0);
    assert_eq!(update(&kv, (4.0, 2.0)), 4.0, "failures as a report's errors");
    assert_eq!(update(&kv, UNSEEN), 0.0);
    assert_eq!(update(&load(10.0, 0.5, 0.0), (4.0, 2.0)), 20.0, "what is reported is better");
}

#[test]
fn a_request_that_few_may_have_leaves_the_weights_of_all_as_they_are() {
    let (mut scene, mut policy) =
        reported(&[Some(load(100.0, 0.5, 0.0)), Some(load(100.0, 0.25, 0.0)), Some(load(100.0, 0.5, 0.0))]);
    scene.eligible = Some(vec![0, 1, 2]);
    scene.after(Duration::from_secs(1));
    // Only one endpoint has the version that is asked for when weights are read.
    scene.candidates = vec![2];
    assert_eq!(scene.pick(&mut policy), 2);
    scene.candidates = vec![0, 1, 2];
    let counts = scene.counts(&mut policy, 400);
    for (count, want) in counts.iter().zip([100, 200, 100]) {
        assert!(count.abs_diff(want) <= 2, "{counts:?}");
    }
}

#[test]
fn weights_are_read_once_in_an_update_period() {
    let (mut scene, mut policy) = reported(&[Some(load(100.0, 0.5, 0.0)), Some(load(100.0, 0.5, 0.0))]);
    scene.pick(&mut policy);
    scene.endpoints.set_orca(0, scene.now + Duration::from_nanos(1), load(100.0, 0.05, 0.0));
    let counts = scene.counts(&mut policy, 100);
    assert!(counts[0].abs_diff(50) <= 1, "{counts:?}");
    scene.after(Duration::from_secs(1));
    let counts = scene.counts(&mut policy, 110);
    assert!(counts[0].abs_diff(100) <= 1, "{counts:?}");
}

#[test]
fn one_that_was_not_a_candidate_does_not_catch_up() {
    let same = Some(load(100.0, 0.5, 0.0));
    let (mut scene, mut policy) = reported(&[same, same, same]);
    scene.candidates = vec![0, 1];
    scene.counts(&mut policy, 100);
    scene.candidates = vec![0, 1, 2];
    let counts = scene.counts(&mut policy, 90);
    assert!(counts.iter().all(|c| c.abs_diff(30) <= 1), "{counts:?}");
}

#[test]
fn a_new_holder_of_the_slot_is_unknown_and_a_ramp_lowers_the_weight() {
    let (mut scene, mut policy) =
        reported(&[Some(load(100.0, 0.5, 0.0)), Some(load(100.0, 0.5, 0.0)), Some(load(100.0, 0.05, 0.0))]);
    scene.leave(2);
    assert_eq!(scene.join("http://other"), 2);
    scene.after(Duration::from_secs(1));
    let counts = scene.counts(&mut policy, 300);
    assert!(counts.iter().all(|c| c.abs_diff(100) <= 2), "{counts:?}");
    scene.endpoints.set_state(2, forebay_core::EndpointState::Unready, scene.now);
    scene.endpoints.set_state(2, forebay_core::EndpointState::Ready, scene.now);
    scene.ramping = vec![2];
    scene.after(Duration::from_secs(1));
    // A tenth of the weight of the others.
    let counts = scene.counts(&mut policy, 210);
    assert!(counts[2].abs_diff(10) <= 2, "{counts:?}");
}
