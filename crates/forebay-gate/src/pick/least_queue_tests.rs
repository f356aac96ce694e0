use super::super::testing::Scene;
use super::*;

#[test]
fn output_that_is_still_to_come_counts_and_what_has_come_does_not() {
    let mut scene = Scene::new(2);
    let mut policy = LeastQueue::default();
    // Two short answers on one, one long on the other, all past their prefill.
    for (slot, output) in [(0, 100), (0, 100), (1, 2000)] {
        scene.facts.output_tokens = output;
        let mut charge = scene.load(slot, 25.0);
        scene.begin(slot, &mut charge);
        scene.endpoints.reduce_work(slot, u64::from(scene.facts.prompt_tokens));
    }
    scene.facts.output_tokens = 100;
    assert_eq!(scene.counts(&mut policy, 20), [20, 0]);
    // Most of the long one has come out.
    scene.endpoints.reduce_work(1, 1950 * WORK_PER_OUTPUT_TOKEN);
    assert_eq!(scene.counts(&mut policy, 20), [0, 20]);
}

#[test]
fn prompts_that_wait_are_not_taken_for_output() {
    let mut scene = Scene::new(1);
    scene.facts.prompt_tokens = 10_000;
    let first = scene.load(0, 300.0);
    scene.load(0, 300.0);
    let left = |scene: &Scene| tokens_left(scene.endpoints.row(0), &scene.endpoints.peer(0), 200.0);
    assert_eq!(left(&scene), 200.0);
    let mut first = first;
    scene.begin(0, &mut first);
    scene.endpoints.reduce_work(0, 10_000);
    assert_eq!(left(&scene), 200.0);
}

#[test]
fn it_prefers_who_holds_the_prompt_while_that_is_sooner() {
    let mut scene = Scene::new(3);
    scene.facts.prompt_tokens = 8000;
    scene.held[1] = 7000;
    let mut policy = LeastQueue::default();
    assert_eq!(scene.counts(&mut policy, 20), [0, 20, 0]);
    // Prefill owed there for longer than computing all of it elsewhere.
    scene.facts.output_tokens = 1;
    scene.load(1, 400.0);
    let counts = scene.counts(&mut policy, 200);
    assert!(counts[1] == 0 && counts[0].abs_diff(100) < 40, "{counts:?}");
}

#[test]
fn a_slower_endpoint_gets_less() {
    let mut scene = Scene::new(1);
    scene.facts.output_tokens = 500;
    let slow =
        forebay_core::EndpointFacts { weight: 0.5, ..forebay_core::EndpointFacts::named("http://slow") };
    let slot =
        scene.endpoints.insert(slow, forebay_core::EndpointState::Ready, forebay_core::Time::ZERO).slot;
    scene.candidates.push(slot);
    scene.held.push(0);
    scene.endpoints.weigh(&scene.candidates, |_| true, scene.now);
    let mut policy = LeastQueue::default();
    let mut counts = [0, 0];
    for _ in 0..30 {
        let slot = scene.pick(&mut policy);
        counts[slot as usize] += 1;
        let mut charge = scene.load(slot, 25.0);
        scene.begin(slot, &mut charge);
    }
    assert!(counts[0] > counts[1] + 6, "{counts:?}");
}
