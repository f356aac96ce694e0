use super::super::testing::Scene;
use super::*;

#[test]
fn the_longest_prefix_wins_until_its_holder_has_its_share() {
    let mut scene = Scene::new(4);
    scene.held = vec![0, 200, 800, 100];
    let mut seen = Vec::new();
    for _ in 0..8 {
        let slot = scene.pick(&mut PrefixAffinity);
        scene.load(slot, 1.0);
        seen.push(slot);
    }
    // Room for ceil(1.25 · 3 / 4) = 1 with the third, for ceil(1.25 · 4 / 4) = 2 with the fourth.
    assert_eq!(seen[..5], [2, 1, 3, 2, 1]);
    let most = (0..4).map(|slot| scene.endpoints.in_flight(slot)).max();
    assert!(most <= Some(3), "{seen:?}");
}

#[test]
fn equal_prefixes_go_by_load() {
    let mut scene = Scene::new(3);
    scene.held = vec![500, 500, 0];
    scene.facts.output_tokens = 1000;
    scene.load(0, 1.0);
    scene.facts.output_tokens = 100;
    // Both within the bound.
    scene.load(1, 1.0);
    scene.load(2, 1.0);
    assert_eq!(scene.counts(&mut PrefixAffinity, 10), [0, 10, 0]);
}

#[test]
fn nobody_holds_it_the_least_work_decides() {
    let mut scene = Scene::new(3);
    scene.facts.output_tokens = 5000;
    scene.load(0, 1.0);
    scene.facts.output_tokens = 10;
    scene.load(1, 1.0);
    scene.load(1, 1.0);
    assert_eq!(scene.counts(&mut PrefixAffinity, 10), [0, 0, 10]);
    scene.facts.output_tokens = 5000;
    scene.load(2, 1.0);
    scene.facts.output_tokens = 10;
    // Two short ones are less than one long one.
    assert_eq!(scene.counts(&mut PrefixAffinity, 10), [0, 10, 0]);
}

#[test]
fn one_after_another_goes_round_an_idle_fleet() {
    let mut scene = Scene::new(4);
    let mut counts = [0; 4];
    for _ in 0..40 {
        let slot = scene.pick(&mut PrefixAffinity);
        counts[slot as usize] += 1;
        let charge = scene.load(slot, 25.0);
        scene.end(slot, &charge);
        scene.after(std::time::Duration::from_millis(30));
    }
    assert_eq!(counts, [10; 4]);
}
