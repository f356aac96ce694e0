use std::time::Duration;

use super::super::testing::{Scene, failure, first_token};
use super::*;

fn secs(s: f64) -> Time {
    Time::from_millis_f64(s * 1e3)
}

#[test]
fn peaks_count_at_once_and_fade_with_time() {
    let mut lateness = Lateness::default();
    lateness.observe(5.0, secs(100.0));
    assert_eq!(lateness.now(secs(100.0)), 5.0);
    // A good one right after changes little; one after ten seconds 1 − 1/e.
    lateness.observe(1.0, secs(100.01));
    assert!((lateness.now(secs(100.01)) - 4.996).abs() < 1e-3, "{lateness:?}");
    lateness.observe(1.0, secs(110.01));
    assert!((lateness.now(secs(110.01)) - (1.0 + 3.996 / std::f64::consts::E)).abs() < 1e-3);
    // Without news it is taken to be as predicted again.
    assert!((lateness.now(secs(200.0)) - 1.0).abs() < 1e-3);
    // Nonsense is not believed.
    lateness.observe(f64::NAN, secs(200.0));
    lateness.observe(f64::INFINITY, secs(200.0));
    assert!((lateness.now(secs(200.0)) - 1.0).abs() < 1e-3);
    lateness.observe(1e12, secs(200.0));
    assert_eq!(lateness.now(secs(200.0)), 100.0);
}

#[test]
fn an_endpoint_that_is_late_or_fails_is_avoided_until_it_is_old_news() {
    for told in [first_token(1000, 100.0, 0), failure()] {
        let mut scene = Scene::new(2);
        let mut policy = LeastLatency::default();
        policy.sent(&scene.view(), 0);
        policy.observed(0, scene.now, &told);
        assert_eq!(scene.counts(&mut policy, 50), [0, 50]);
        scene.after(Duration::from_secs(300));
        let counts = scene.counts(&mut policy, 50);
        assert!(counts[0] == 0, "not yet quite as good: {counts:?}");
        scene.load(1, 50.0);
        assert_eq!(scene.counts(&mut policy, 50), [50, 0]);
    }
}

#[test]
fn as_predicted_is_no_reason_however_long_it_takes() {
    let mut scene = Scene::new(2);
    let mut policy = LeastLatency::default();
    for slot in [0, 1] {
        policy.sent(&scene.view(), slot);
    }
    policy.observed(0, scene.now, &first_token(20_000, 20_000.0, 0));
    policy.observed(1, scene.now, &first_token(20, 20.0, 0));
    let counts = scene.counts(&mut policy, 400);
    assert!(counts[0].abs_diff(200) < 50, "{counts:?}");
    // What is owed there is.
    scene.load(0, 300.0);
    assert_eq!(scene.counts(&mut policy, 50), [0, 50]);
}

#[test]
fn a_new_holder_of_the_slot_inherits_nothing() {
    let mut scene = Scene::new(2);
    let mut policy = LeastLatency::default();
    policy.sent(&scene.view(), 0);
    policy.observed(0, scene.now, &failure());
    scene.leave(0);
    assert_eq!(scene.join("http://other"), 0);
    let counts = scene.counts(&mut policy, 400);
    assert!(counts[0].abs_diff(200) < 50, "{counts:?}");
}

#[test]
fn two_are_drawn_and_not_all() {
    let mut scene = Scene::new(4);
    let mut policy = LeastLatency::default();
    for slot in 1..4 {
        scene.load(slot, 100.0);
    }
    let counts = scene.counts(&mut policy, 1000);
    // Drawn among two in half of the cases.
    assert!(counts[0].abs_diff(500) < 70, "{counts:?}");
}
