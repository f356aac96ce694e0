use super::super::testing::Scene;
use super::*;

#[test]
fn a_session_stays_where_it_is_and_others_go_elsewhere() {
    let mut scene = Scene::new(4);
    let mut policy = SessionAffinity::default();
    let mut homes = Vec::new();
    for session in 0..8 {
        scene.facts.session = Some(session);
        let slot = scene.route(&mut policy);
        homes.push(slot);
        // As much on every endpoint, so that none is over the bound.
        scene.load(slot, 1.0);
    }
    for slot in 0..4 {
        assert_eq!(homes.iter().filter(|home| **home == slot).count(), 2, "{homes:?}");
    }
    for (session, home) in homes.iter().enumerate() {
        scene.facts.session = Some(session as u64);
        assert_eq!(scene.route(&mut policy), *home);
    }
}

#[test]
fn the_affinity_key_stands_in_for_a_session() {
    let mut scene = Scene::new(4);
    let mut policy = SessionAffinity::default();
    scene.facts.affinity = 77;
    let home = scene.route(&mut policy);
    assert!((0..20).all(|_| scene.route(&mut policy) == home));
    scene.facts.session = Some(77);
    assert_eq!(scene.route(&mut policy), home, "one key, one table");
}

#[test]
fn a_full_home_is_left_for_the_least_work_and_the_session_moves() {
    let mut scene = Scene::new(2);
    let mut policy = SessionAffinity::default();
    scene.facts.session = Some(1);
    let home = scene.route(&mut policy);
    let other = 1 - home;
    for _ in 0..4 {
        scene.load(home, 1.0);
    }
    // Its share would be ceil(1.25 · 5 / 2) = 4.
    assert_eq!(scene.route(&mut policy), other);
    scene.load(other, 1.0);
    assert_eq!(scene.route(&mut policy), other, "its cache is there now");
}

#[test]
fn an_endpoint_that_left_is_forgotten_and_one_that_pauses_is_not() {
    let mut scene = Scene::new(3);
    let mut policy = SessionAffinity::default();
    scene.facts.session = Some(1);
    let home = scene.route(&mut policy);
    scene.candidates.retain(|slot| *slot != home);
    let stand_in = scene.pick(&mut policy);
    assert_ne!(stand_in, home);
    scene.candidates = vec![0, 1, 2];
    assert_eq!(scene.pick(&mut policy), home);
    // Its slot has a new holder, who never served the session.
    scene.leave(home);
    assert_eq!(scene.join("http://other"), home);
    assert_eq!(policy.sessions.len(), 1);
    scene.pick(&mut policy);
    assert_eq!(policy.sessions.len(), 0);
}
