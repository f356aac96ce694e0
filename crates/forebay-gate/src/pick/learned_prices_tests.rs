use super::super::testing::{Scene, first_token};
use super::*;

/// What happened to the requests of one simulated world.
struct Run {
    policy: LearnedPrices,
    scene: Scene,
    /// Cost of everything, and what the default set would have cost.
    cost: f64,
    default: f64,
    tried: Vec<usize>,
}

impl Run {
    fn new() -> Run {
        let (policy, scene) = (LearnedPrices::default(), Scene::new(3));
        Run { policy, scene, cost: 0.0, default: 0.0, tried: vec![0; ARMS.len()] }
    }

    /// Requests of many sizes whose cost is `factor` of the arm times three
    /// times the ideal, give or take half.
    fn go(&mut self, requests: usize, factor: impl Fn(u8) -> f64) {
        self.go_and_lose(requests, factor, |_| 0.0);
    }

    /// … of which that share is lost at once.
    fn go_and_lose(&mut self, requests: usize, factor: impl Fn(u8) -> f64, losing: impl Fn(u8) -> f64) {
        (self.cost, self.default) = (0.0, 0.0);
        self.tried.fill(0);
        for _ in 0..requests {
            let tokens: u32 = self.scene.rng.random_range(20..2000);
            let noise = self.scene.rng.random_range(0.5..1.5);
            self.scene.pick(&mut self.policy);
            let note = self.policy.note();
            let arm = note.arm.unwrap();
            let ideal = f64::from(note.first_ms + note.token_ms * (tokens - 1) as f32);
            let cost = 3.0 * ideal * noise;
            self.cost += cost * factor(arm);
            self.default += cost * factor(DEFAULT);
            self.tried[usize::from(arm)] += 1;
            let cost_ms = Some((cost * factor(arm)) as f32 - note.others_ms);
            let lost = losing(arm) > 0.0 && self.scene.rng.random_bool(losing(arm));
            let (cost_ms, tokens) = if lost { (Some(1.0), 0) } else { (cost_ms, tokens) };
            let observed = Observed { cost_ms, tokens, note, lost, ttft: None, ..first_token(0, 0.0, 0) };
            self.policy.observed(0, self.scene.now, &observed);
        }
    }

    fn ratio(&self) -> f64 {
        self.cost / self.default
    }
}

#[test]
fn where_another_set_is_a_fifth_better_it_is_found() {
    for best in [1, 4] {
        let mut run = Run::new();
        let factor = |arm| if arm == best { 0.8 } else { 1.0 };
        run.go(6000, factor);
        run.go(4000, factor);
        assert!(run.tried[usize::from(best)] > 3700, "{best}: {:?}", run.tried);
        assert!(run.ratio() < 0.82, "{}", run.ratio());
    }
}

#[test]
fn where_the_default_is_best_it_stays_within_five_percent() {
    for worse in [1.02, 1.1, 1.5, 2.0, 10.0] {
        let mut run = Run::new();
        run.go(8000, |arm| if arm == DEFAULT { 1.0 } else { worse });
        assert!(run.ratio() < 1.05, "{worse}: {} {:?}", run.ratio(), run.tried);
        assert!(run.tried[0] > 7400, "{worse}: {:?}", run.tried);
    }
    // What is surely worse than the margin is hardly tried at all.
    let mut run = Run::new();
    run.go(8000, |arm| if arm == DEFAULT { 1.0 } else { 2.0 });
    assert!(run.tried[0] > 7700 && run.ratio() < 1.035, "{} {:?}", run.ratio(), run.tried);
}

#[test]
fn exploration_is_a_twentieth_even_when_nothing_differs() {
    let mut run = Run::new();
    run.go(10_000, |_| 1.0);
    let tried: usize = run.tried[1..].iter().sum();
    // All equal: one may take over for a while, which costs nothing.
    assert!(tried < 600 || run.ratio() < 1.01, "{:?}", run.tried);
}

#[test]
fn a_set_that_becomes_bad_gives_way() {
    let mut run = Run::new();
    run.go(6000, |arm| if arm == 3 { 0.8 } else { 1.0 });
    assert!(run.tried[3] > 2000, "{:?}", run.tried);
    run.go(1500, |arm| if arm == 3 { 1.6 } else { 1.0 });
    run.go(3000, |arm| if arm == 3 { 1.6 } else { 1.0 });
    assert!(run.tried[3] < 200, "{:?}", run.tried);
    assert!(run.ratio() < 1.05, "{}", run.ratio());
}

#[test]
fn circumstances_are_learned_apart() {
    let mut run = Run::new();
    let better = |arm| if arm == 2 { 0.7 } else { 1.0 };
    run.go(8000, better);
    let short = run.policy.books.iter().filter(|book| book.best == 2).count();
    assert_eq!(short, 1, "only that of the scene");
    run.scene.facts.prompt_tokens = 20_000;
    run.go(100, better);
    assert!(run.tried[0] > 85, "nothing is known of long prompts yet: {:?}", run.tried);
    // What is held need not be computed: it is as a short one again.
    run.scene.held[1] = 19_000;
    run.go(100, better);
    assert!(run.tried[2] > 80, "{:?}", run.tried);
    // Another profile, another cost: everything begins anew.
    run.scene.config.profile = Profile::Goodput;
    run.go(1, better);
    assert!(run.policy.books.iter().all(|book| book.best == DEFAULT));
}

#[test]
fn sets_that_do_not_differ_are_not_tried() {
    let mut run = Run::new();
    run.scene.config.profile = Profile::Lean;
    run.go(5000, |_| 1.0);
    // Lean counts no harm.
    assert_eq!((run.tried[3], run.tried[4]), (0, 0));
    assert!(run.tried[1] > 0);
}

#[test]
fn a_set_that_loses_requests_is_charged_for_them() {
    // What ends well there is a fifth cheaper, but an eighth does not.
    let mut run = Run::new();
    run.scene.facts.output_tokens = 1000;
    let (cheaper, losing) =
        (|arm| if arm == 4 { 0.8 } else { 1.0 }, |arm| if arm == 4 { 0.125 } else { 0.0 });
    run.go_and_lose(8000, cheaper, losing);
    assert!(run.tried[4] < 200, "{:?}", run.tried);
    // Where requests are lost whatever is chosen it is no fault of the choice.
    let mut run = Run::new();
    run.scene.facts.output_tokens = 1000;
    run.go_and_lose(6000, cheaper, |_| 0.02);
    run.go_and_lose(4000, cheaper, |_| 0.02);
    assert!(run.tried[4] > 3000, "{:?}", run.tried);
}

#[test]
fn requests_that_fail_or_run_out_of_time_are_charged_and_those_sent_again_are_not() {
    let pool = forebay_core::PoolId(0);
    let mut gate = crate::Gate::new(1);
    let config = crate::PoolConfig { policy: PolicyKind::Learned, ..crate::PoolConfig::default() };
    gate.apply(Time::ZERO, crate::Event::Configure(pool, config));
    for name in ["http://a", "http://b"] {
        let facts = forebay_core::EndpointFacts::named(name);
        gate.apply(Time::ZERO, crate::Event::Join(pool, facts, forebay_core::EndpointState::Ready));
    }
    let charged = |gate: &crate::Gate| {
        let Some(crate::pick::AnyPolicy::Learned(policy)) = gate.pools[0].as_ref().map(|pool| &pool.policy)
        else {
            panic!("another policy")
        };
        let arms = policy.books.iter().flat_map(|book| &book.arms);
        arms.map(|arm| arm.ratio().unwrap_or(0.0) * arm.requests()).sum::<f64>()
    };
    let send = |gate: &mut crate::Gate| {
        let facts =
            forebay_core::RequestFacts { prompt_tokens: 800, output_tokens: 50, ..Default::default() };
        match gate.submit(Time::ZERO, std::sync::Arc::new(facts)) {
            crate::Verdict::Go(decision) => decision.ticket,
            other => panic!("{other:?}"),
        }
    };
    let ticket = send(&mut gate);
    gate.repick(Time::ZERO, ticket, crate::RepickReason::Connect);
    assert_eq!(charged(&gate), 0.0);
    gate.apply(Time::ZERO, crate::Event::Cancelled(ticket));
    assert_eq!(charged(&gate), 0.0);
    let mut before = 0.0;
    for failure in [forebay_core::Failure::TotalTimeout, forebay_core::Failure::Status] {
        let ticket = send(&mut gate);
        let end = forebay_core::EndKind::Failed(failure);
        let outcome = forebay_core::Outcome::without_answer(end, std::time::Duration::from_millis(3));
        gate.apply(Time::ZERO, crate::Event::Outcome(ticket, outcome));
        let now = charged(&gate);
        assert!(now - before > 0.9 * LOST, "{failure:?}: {before} {now}");
        before = now;
    }
}

#[test]
fn nonsense_teaches_nothing() {
    let mut run = Run::new();
    run.scene.pick(&mut run.policy);
    let before = run.policy.clone();
    let note = run.policy.note();
    let told = |cost_ms, tokens, note| Observed { cost_ms, tokens, note, ..first_token(10, 10.0, 0) };
    for observed in [
        told(None, 10, note),
        told(Some(f32::NAN), 10, note),
        told(Some(f32::NEG_INFINITY), 10, note),
        told(Some(100.0), 0, note),
        told(Some(100.0), 10, Note::default()),
        told(Some(100.0), 10, Note { context: 200, ..note }),
        Observed { lost: true, ..told(Some(f32::NAN), 0, note) },
        Observed { lost: true, ..told(None, 0, note) },
    ] {
        run.policy.observed(0, run.scene.now, &observed);
        assert_eq!(run.policy, before, "{observed:?}");
    }
}
