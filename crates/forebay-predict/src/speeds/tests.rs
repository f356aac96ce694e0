//! Simulated endpoints: what is learned of them, and how soon.

use super::*;
use crate::StepModel;
use crate::testing::{Lcg, at};

const BASE: StepModel = StepModel::H100_8B;

/// One request to an endpoint that really is as `truth`: predicted by `BASE`,
/// observed with relative noise, and half a step of it by chance.
fn first_token(speeds: &mut Speeds, slot: u32, truth: &StepModel, noise: f64, rng: &mut Lcg, t: f64) {
    let u = 300.0 + 3000.0 * rng.unit();
    let owed = if rng.unit() < 0.5 { 2000.0 * rng.unit() } else { 0.0 };
    let (streams, context) = (10.0 * rng.unit(), 10_000.0 * rng.unit());
    let ms = |m: &StepModel, tokens: f64| {
        m.prefill_ms(tokens, 500.0) * m.interference(streams, m.step_ms(streams, context))
    };
    let predicted = Predicted {
        wait_ms: ms(&BASE, owed),
        own_ms: ms(&BASE, u),
        fixed_ms: 1.0 + BASE.step_ms(streams, context) / 2.0,
    };
    let step = truth.step_ms(streams, context) * rng.unit();
    let observed = (ms(truth, owed) + ms(truth, u)) * rng.noise(noise) + 1.0 + step;
    speeds.first_token(slot, observed, predicted, at(t));
}

/// One report of decoded tokens.
fn tokens(speeds: &mut Speeds, slot: u32, truth: &StepModel, noise: f64, rng: &mut Lcg, t: f64) {
    let (streams, context) = (1.0 + 20.0 * rng.unit(), 20_000.0 * rng.unit());
    let observed = truth.step_ms(streams, context) * rng.noise(noise);
    speeds.tokens(slot, observed, BASE.step_ms(streams, context), 10.0 + 50.0 * rng.unit(), at(t));
}

/// A pool whose endpoints really are as `truths`, all in class 0.
struct Pool {
    speeds: Speeds,
    truths: Vec<StepModel>,
    rng: Lcg,
    t: f64,
}

impl Pool {
    fn new(truths: &[StepModel], seed: u64) -> Pool {
        let mut speeds = Speeds::new();
        for slot in 0..truths.len() {
            speeds.join(slot as u32, 0, 1.0);
        }
        Pool { speeds, truths: truths.to_vec(), rng: Lcg::new(seed), t: 0.0 }
    }

    /// Every endpoint answers `rate` requests a second and reports tokens
    /// twice a second, for `seconds`; `seen` is called after each round.
    fn run(&mut self, seconds: f64, rate: f64, mut seen: impl FnMut(&Speeds)) {
        let end = self.t + seconds;
        let mut due = 0.0;
        while self.t < end {
            self.t += 0.5;
            due += rate * 0.5;
            while due >= 1.0 {
                due -= 1.0;
                for (slot, truth) in self.truths.iter().enumerate() {
                    first_token(&mut self.speeds, slot as u32, truth, 0.2, &mut self.rng, self.t);
                }
            }
            for (slot, truth) in self.truths.iter().enumerate() {
                tokens(&mut self.speeds, slot as u32, truth, 0.1, &mut self.rng, self.t);
            }
            seen(&self.speeds);
        }
    }
}

#[test]
fn a_new_endpoint_reads_as_its_prior_says() {
    let mut speeds = Speeds::new();
    assert_eq!((speeds.prefill(7), speeds.decode(7)), (1.0, 1.0));
    speeds.join(7, 0, 1.0);
    assert_eq!((speeds.prefill(7), speeds.decode(7)), (1.0, 1.0));
    speeds.join(2, 0, 2.0);
    assert!((speeds.prefill(2) - 0.5).abs() < 1e-12);
    for (odd, reads) in [(f64::NAN, 1.0), (0.0, 1.0), (-1.0, 1.0), (1e-9, 6.0), (1e9, 0.25)] {
        speeds.join(2, 0, odd);
        assert!((speeds.decode(2) - reads).abs() < 1e-9, "{odd}: {}", speeds.decode(2));
    }
    speeds.leave(2);
    assert_eq!(speeds.prefill(2), 1.0);
}

#[test]
fn with_nothing_wrong_every_factor_is_exactly_1() {
    for seed in 0..16 {
        let mut pool = Pool::new(&[BASE; 8], seed);
        let (mut read, mut off) = (0, 0);
        pool.run(600.0, 1.0, |speeds| {
            for slot in 0..8 {
                read += 2;
                off += u32::from(speeds.prefill(slot) != 1.0) + u32::from(speeds.decode(slot) != 1.0);
            }
        });
        assert!(f64::from(off) < 0.01 * f64::from(read), "seed {seed}: {off} of {read} readings");
    }
}

#[test]
fn half_speed_is_found_within_20_first_tokens_and_forgotten_after_the_throttle() {
    for seed in 0..16 {
        // First tokens alone: non-streamed answers report nothing else.
        let mut pool = Pool::new(&[BASE; 4], seed);
        let slow = BASE.scaled(2.0, 2.0);
        let mut found = None;
        for i in 0..20 {
            pool.t += 0.4;
            for slot in 0..4 {
                let truth = if slot == 3 { slow } else { BASE };
                first_token(&mut pool.speeds, slot, &truth, 0.2, &mut pool.rng, pool.t);
            }
            if pool.speeds.prefill(3) >= 1.7 {
                found = found.or(Some(i));
            }
        }
        assert!(found.is_some(), "seed {seed}: {}", pool.speeds.prefill(3));

        // In a running pool, in both factors, within 10 s; and back within 40 s.
        let mut pool = Pool::new(&[BASE; 4], seed);
        pool.run(60.0, 3.0, |_| ());
        pool.truths[3] = slow;
        pool.run(10.0, 3.0, |_| ());
        let both = (pool.speeds.prefill(3), pool.speeds.decode(3));
        assert!(both.0 >= 1.7 && both.1 >= 1.7, "seed {seed}: {both:?}");
        assert_eq!((pool.speeds.prefill(0), pool.speeds.decode(0)), (1.0, 1.0));
        pool.truths[3] = BASE;
        pool.run(40.0, 3.0, |_| ());
        let both = (pool.speeds.prefill(3), pool.speeds.decode(3));
        assert_eq!(both, (1.0, 1.0), "seed {seed}");
    }
}

#[test]
fn a_throttle_by_a_fifth_is_found_within_60_token_reports() {
    for seed in 0..16 {
        let mut pool = Pool::new(&[BASE; 8], seed);
        pool.run(120.0, 1.0, |_| ());
        pool.truths[5] = BASE.scaled(1.25, 1.25);
        pool.run(30.0, 1.0, |_| ());
        let both = (pool.speeds.prefill(5), pool.speeds.decode(5));
        assert!(both.1 >= 1.12 && both.1 < 1.4, "seed {seed}: {both:?}");
        // First tokens alone would not have shown it: it follows the decode.
        assert!(both.0 >= 1.12, "seed {seed}: {both:?}");
        pool.truths[5] = BASE;
        pool.run(60.0, 1.0, |_| ());
        let both = (pool.speeds.prefill(5), pool.speeds.decode(5));
        assert_eq!(both, (1.0, 1.0), "seed {seed}");
    }
}

#[test]
fn outliers_have_no_effect() {
    for seed in 0..4 {
        let mut pool = Pool::new(&[BASE; 4], seed);
        let (mut read, mut off) = (0, 0);
        for i in 0..2000 {
            pool.t += 0.25;
            for slot in 0..4 {
                // One in twenty takes ten times as long.
                let factor = if pool.rng.unit() < 0.05 { 10.0 } else { 1.0 };
                let truth = BASE.scaled(factor, factor);
                first_token(&mut pool.speeds, slot, &truth, 0.2, &mut pool.rng, pool.t);
                tokens(&mut pool.speeds, slot, &truth, 0.1, &mut pool.rng, pool.t);
                if i > 10 {
                    read += 1;
                    let one = pool.speeds.prefill(slot) == 1.0 && pool.speeds.decode(slot) == 1.0;
                    off += u32::from(!one);
                }
            }
        }
        assert!(f64::from(off) < 0.02 * f64::from(read), "seed {seed}: {off} of {read}");
        // A single one moves a slow endpoint's factor by less than a tenth.
        pool.truths[1] = BASE.scaled(2.0, 2.0);
        pool.run(60.0, 2.0, |_| ());
        let before = (pool.speeds.prefill(1), pool.speeds.decode(1));
        pool.t += 0.5;
        let truth = BASE.scaled(20.0, 20.0);
        first_token(&mut pool.speeds, 1, &truth, 0.0, &mut pool.rng, pool.t);
        tokens(&mut pool.speeds, 1, &truth, 0.0, &mut pool.rng, pool.t);
        assert!((pool.speeds.prefill(1) / before.0 - 1.0).abs() < 0.1);
        assert!((pool.speeds.decode(1) / before.1 - 1.0).abs() < 0.1);
    }
}

#[test]
fn the_absolute_scale_is_learned_by_the_class_for_all_its_endpoints() {
    for factor in [0.1, 10.0, 500.0] {
        for seed in 0..4 {
            let mut pool = Pool::new(&[BASE.scaled(factor, factor); 8], seed);
            let truth = pool.truths[0];
            for i in 0..20 {
                pool.t += 0.3;
                // Only four of the eight are used at all.
                first_token(&mut pool.speeds, i % 4, &truth, 0.2, &mut pool.rng, pool.t);
                tokens(&mut pool.speeds, i % 4, &truth, 0.1, &mut pool.rng, pool.t);
            }
            for slot in 0..8 {
                let got = (pool.speeds.prefill(slot) / factor, pool.speeds.decode(slot) / factor);
                let near = 0.5..2.0;
                assert!(near.contains(&got.0) && near.contains(&got.1), "{factor} {seed} {slot}: {got:?}");
            }
            pool.run(60.0, 1.0, |_| ());
            for slot in 0..8 {
                let got = (pool.speeds.prefill(slot) / factor, pool.speeds.decode(slot) / factor);
                let near = 0.85..1.18;
                assert!(near.contains(&got.0) && near.contains(&got.1), "{factor} {seed} {slot}: {got:?}");
            }
            // One that joins now starts where the others are.
            pool.speeds.join(8, 0, 1.0);
            assert!((0.8..1.25).contains(&(pool.speeds.decode(8) / factor)));
        }
    }
}

#[test]
fn an_h100_beside_an_a100_is_seen_without_being_told() {
    for seed in 0..4 {
        let mut pool = Pool::new(&[BASE, StepModel::A100_8B, BASE, StepModel::A100_8B], seed);
        pool.run(60.0, 1.0, |_| ());
        let prefill = pool.speeds.prefill(1) / pool.speeds.prefill(0);
        let decode = pool.speeds.decode(3) / pool.speeds.decode(2);
        // Prefill alone is 2.86 times slower; less with the decode steps it shares.
        assert!((2.0..3.2).contains(&prefill), "seed {seed}: {prefill}");
        assert!((1.3..1.75).contains(&decode), "seed {seed}: {decode}");
        assert_eq!((pool.speeds.prefill(0), pool.speeds.decode(0)), (1.0, 1.0));
    }
}

#[test]
fn classes_are_told_apart_even_with_one_endpoint_each() {
    let mut speeds = Speeds::new();
    let mut rng = Lcg::new(9);
    for slot in 0..4 {
        speeds.join(slot, slot as u16, 1.0);
    }
    for i in 0..240 {
        for slot in 0..4 {
            let truth = if slot == 2 { BASE.scaled(1.25, 1.25) } else { BASE };
            first_token(&mut speeds, slot, &truth, 0.2, &mut rng, f64::from(i) / 4.0);
            tokens(&mut speeds, slot, &truth, 0.1, &mut rng, f64::from(i) / 4.0);
        }
    }
    assert!((1.12..1.4).contains(&speeds.decode(2)), "{}", speeds.decode(2));
    assert!([0, 1, 3].iter().all(|slot| speeds.decode(*slot) == 1.0));
}

#[test]
fn an_endpoint_that_was_avoided_is_tried_again() {
    let mut pool = Pool::new(&[BASE; 4], 2);
    pool.truths[0] = BASE.scaled(3.0, 3.0);
    pool.run(30.0, 2.0, |_| ());
    assert!(pool.speeds.prefill(0) > 2.4);
    // Nothing is sent there for ten minutes.
    for i in 0..1200 {
        pool.t += 0.5;
        for slot in 1..4 {
            tokens(&mut pool.speeds, slot, &BASE, 0.1, &mut pool.rng, pool.t);
            if i % 2 == 0 {
                first_token(&mut pool.speeds, slot, &BASE, 0.2, &mut pool.rng, pool.t);
            }
        }
    }
    assert_eq!((pool.speeds.prefill(0), pool.speeds.decode(0)), (1.0, 1.0));
}

#[test]
fn a_restart_and_a_new_model_start_over_where_they_should() {
    let mut pool = Pool::new(&[BASE.scaled(10.0, 10.0); 4], 3);
    pool.truths[1] = BASE.scaled(30.0, 30.0);
    pool.run(60.0, 2.0, |_| ());
    assert!(pool.speeds.decode(1) > 20.0);
    let report = pool.speeds.report(1, at(pool.t)).unwrap();
    assert!((25.0..36.0).contains(&report.measured_decode), "{report:?}");
    assert!(report.decode_evidence > 20.0 && report.prefill_evidence > 10.0);
    pool.speeds.reset(1);
    assert!((8.0..16.0).contains(&pool.speeds.decode(1)), "{}", pool.speeds.decode(1));
    pool.speeds.rebase(0, 10.0, 10.0);
    assert_eq!((pool.speeds.prefill(0), pool.speeds.decode(0)), (1.0, 1.0));
    assert_eq!(pool.speeds.report(9, at(0.0)), None);
}

/// A whole answer of an endpoint that really is as `truth`: until its first
/// token `own` milliseconds at speed 1, and `decode` after it.
fn answer(speeds: &mut Speeds, slot: u32, slow: (f64, f64), parts: (f64, f64), rng: &mut Lcg, t: f64) {
    let predicted = Predicted { wait_ms: 0.2 * parts.0, own_ms: 0.8 * parts.0, fixed_ms: 2.0 };
    let observed = (parts.0 * slow.0 + parts.1 * slow.1) * rng.noise(0.2) + 2.0;
    speeds.answer(slot, observed, predicted, parts.1, at(t));
}

#[test]
fn whole_answers_alone_show_an_endpoint_at_half_speed_and_no_other() {
    for seed in 0..8 {
        let mut rng = Lcg::new(seed);
        let mut speeds = Speeds::new();
        for slot in 0..8 {
            speeds.join(slot, 0, 1.0);
        }
        let (mut read, mut off) = (0, 0);
        for second in 0..300 {
            for slot in 0..8 {
                let slow = if slot == 3 && second >= 100 { (2.0, 2.0) } else { (1.0, 1.0) };
                let parts = (50.0 + 200.0 * rng.unit(), 200.0 + 2000.0 * rng.unit());
                answer(&mut speeds, slot, slow, parts, &mut rng, f64::from(second));
                if slot != 3 {
                    read += 2;
                    off += u32::from(speeds.prefill(slot) != 1.0) + u32::from(speeds.decode(slot) != 1.0);
                }
            }
        }
        let found = (speeds.prefill(3), speeds.decode(3));
        assert!((1.6..2.4).contains(&found.0) && (1.6..2.4).contains(&found.1), "seed {seed}: {found:?}");
        assert!(off * 33 < read, "seed {seed}: {off} of {read}");
    }
}

#[test]
fn whole_answers_make_no_endpoint_look_faster_than_those_that_nobody_asked() {
    // All are a hundred times as fast as their class, and only one is asked: the
    // one that looks fastest, as a balancer would.
    let mut speeds = Speeds::new();
    (0..4).for_each(|slot| speeds.join(slot, 0, 1.0));
    for i in 0..4000 {
        let t = f64::from(i) / 1000.0;
        let predicted = Predicted { wait_ms: 0.0, own_ms: 10.0, fixed_ms: 0.0 };
        speeds.answer(0, 2.5, predicted, 240.0, at(t));
        for slot in 1..4 {
            let (asked, other) = (speeds.decode(0), speeds.decode(slot));
            assert!(asked >= other * 0.999, "at {t} s: {asked} where nobody else is below {other}");
            assert!(speeds.prefill(0) >= speeds.prefill(slot) * 0.999);
        }
    }
    assert!(speeds.decode(3) < 0.5, "the class is known to be fast: {}", speeds.decode(3));
}

#[test]
fn what_a_whole_answer_took_does_not_blur_factors_that_are_known_apart() {
    // An A100 among H100s, known from streams, goes on with whole answers only.
    let mut truths = [BASE; 8];
    truths[5] = StepModel::A100_8B;
    let mut pool = Pool::new(&truths, 11);
    pool.run(60.0, 2.0, |_| ());
    let before = (pool.speeds.prefill(5), pool.speeds.decode(5));
    for i in 0..200 {
        let t = pool.t + f64::from(i) / 2.0;
        for slot in 0..8 {
            let slow = if slot == 5 { before } else { (1.0, 1.0) };
            answer(&mut pool.speeds, slot, slow, (200.0, 600.0), &mut pool.rng, t);
        }
    }
    let after = (pool.speeds.prefill(5), pool.speeds.decode(5));
    assert!((after.0 / before.0 - 1.0).abs() < 0.15, "{before:?} {after:?}");
    assert!((after.1 / before.1 - 1.0).abs() < 0.15, "{before:?} {after:?}");
}

#[test]
fn a_snapshot_goes_on_as_the_original_does() {
    let mut pool = Pool::new(&[BASE, StepModel::A100_8B, BASE], 4);
    pool.run(20.0, 2.0, |_| ());
    let text = serde_json::to_string(&pool.speeds).unwrap();
    let copy: Speeds = serde_json::from_str(&text).unwrap();
    // JSON rounds in the last digit here and there; what is decided is the same.
    for slot in 0..3 {
        assert!((copy.prefill(slot) / pool.speeds.prefill(slot) - 1.0).abs() < 1e-12);
    }
    let fresh = Speeds::new();
    let back: Speeds = serde_json::from_str(&serde_json::to_string(&fresh).unwrap()).unwrap();
    assert_eq!(back, fresh);
}

proptest::proptest! {
    #![proptest_config(proptest::test_runner::Config { failure_persistence: None, ..Default::default() })]
    #[test]
    fn no_input_breaks_the_clamps(
        calls in proptest::collection::vec(
            (0u8..8, 0u32..6, proptest::num::f64::ANY, proptest::num::f64::ANY, proptest::num::f64::ANY, 0u64..u64::MAX),
            1..200,
        )
    ) {
        let mut speeds = Speeds::new();
        for (what, slot, x, y, z, ns) in calls {
            let now = Time::from_nanos(ns);
            match what {
                0 => speeds.join(slot, (slot / 2) as u16, x),
                1 => speeds.leave(slot),
                2 => speeds.first_token(slot, x, Predicted { wait_ms: y.abs(), own_ms: z, fixed_ms: 1.0 }, now),
                3 => speeds.tokens(slot, x.abs(), y.abs(), z.abs(), now),
                4 => speeds.rebase((slot / 2) as u16, x, y),
                5 => speeds.answer(slot, x, Predicted { wait_ms: y.abs(), own_ms: z, fixed_ms: 1.0 }, y, now),
                6 => speeds.answer(
                    slot,
                    x.abs() % 1e5,
                    Predicted { wait_ms: y.abs() % 1e4, own_ms: z.abs() % 1e4, fixed_ms: 3.0 },
                    (x + y).abs() % 1e5,
                    now,
                ),
                _ => speeds.first_token(
                    slot,
                    x.abs() % 1e5,
                    Predicted { wait_ms: y.abs() % 1e4, own_ms: z.abs() % 1e4, fixed_ms: 3.0 },
                    now,
                ),
            }
            for slot in 0..6 {
                let all = [speeds.prefill(slot), speeds.decode(slot)];
                proptest::prop_assert!(all.iter().all(|s| s.is_finite() && *s > 1e-5 && *s < 1e5), "{all:?}");
            }
        }
    }
}
