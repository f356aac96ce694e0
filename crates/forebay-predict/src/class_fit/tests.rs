//! A class whose constants are not what its preset says.

use super::*;
use crate::testing::{Lcg, at};

const PRESET: StepModel = StepModel::H100_8B;

/// `n` samples of each kind, ten of each a second, from endpoints that really
/// are as `truth`; returns what was adopted.
fn run(
    fit: &mut ClassFit,
    truth: &StepModel,
    rng: &mut Lcg,
    from: f64,
    n: u32,
    spread: bool,
) -> Vec<Adopted> {
    let mut adopted = Vec::new();
    for i in 0..n {
        let (streams, context, uncached) = match spread {
            true => (
                (1.0 + 60.0 * rng.unit()).floor(),
                100_000.0 * rng.unit(),
                100.0 + 8000.0 * rng.unit() * rng.unit(),
            ),
            // Every request and every batch the same: a and b cannot be told apart.
            false => (10.0, 10_000.0, 1000.0),
        };
        let first: f64 = first_terms(truth, uncached, 500.0, streams, context).iter().sum();
        let outlier = if rng.unit() < 0.03 { 8.0 } else { 1.0 };
        fit.first_token(&FirstTokenSample {
            observed_ms: first * rng.noise(0.2) * outlier,
            wait_ms: 0.0,
            uncached,
            cached: 500.0,
            streams,
            context,
            deviation: 1.0,
        });
        fit.tokens(&TokenSample {
            observed_ms: truth.tpot_ms(streams, context, 0.1) * rng.noise(0.1) * outlier,
            streams,
            context,
            prefill_share: 0.1,
            deviation: 1.0,
        });
        adopted.extend(fit.adopt(at(from + f64::from(i) / 10.0)));
    }
    adopted
}

#[test]
fn wrong_constants_are_replaced_by_those_that_fit() {
    for seed in 0..4 {
        let truth = StepModel { a: 24.0, b: 0.015, c: 0.6e-6, d: 0.15e-3, e: 0.06, ..PRESET };
        let mut fit = ClassFit::new(PRESET);
        let adopted = run(&mut fit, &truth, &mut Lcg::new(seed), 0.0, 2000, true);
        assert!(fit.adopted() && !adopted.is_empty());
        let model = fit.model();
        for (got, want) in [(model.a, truth.a), (model.b, truth.b), (model.d, truth.d)] {
            assert!((got / want - 1.0).abs() < 0.15, "seed {seed}: {model:?}");
        }
        assert_eq!(adopted.last().unwrap().model, *model);
        let by: f64 = adopted.iter().map(|a| a.prefill_by).product();
        assert!((by - model.b / PRESET.b).abs() < 1e-9);
    }
}

#[test]
fn right_constants_and_right_shapes_stay() {
    for seed in 0..4 {
        for scale in [1.0, 3.0] {
            let mut fit = ClassFit::new(PRESET);
            let truth = PRESET.scaled(scale, scale);
            assert_eq!(run(&mut fit, &truth, &mut Lcg::new(seed), 0.0, 2000, true), []);
            assert_eq!(*fit.model(), PRESET);
        }
    }
}

#[test]
fn evidence_that_cannot_tell_the_constants_apart_changes_nothing() {
    let truth = StepModel { a: 30.0, b: 0.02, ..PRESET };
    let mut fit = ClassFit::new(PRESET);
    assert_eq!(run(&mut fit, &truth, &mut Lcg::new(1), 0.0, 2000, false), []);
    // Nor does hardware that is beyond the preset's reach: that is a scale.
    let truth = StepModel { a: 8.0 * 40.0, b: 0.0235 * 20.0, ..PRESET };
    let mut fit = ClassFit::new(PRESET);
    assert_eq!(run(&mut fit, &truth, &mut Lcg::new(1), 0.0, 2000, true), []);
}

#[test]
fn a_fit_that_is_no_longer_the_better_one_is_dropped() {
    let truth = StepModel { a: 24.0, b: 0.02, ..PRESET };
    let (mut fit, mut rng) = (ClassFit::new(PRESET), Lcg::new(3));
    run(&mut fit, &truth, &mut rng, 0.0, 2000, true);
    assert!(fit.adopted());
    run(&mut fit, &PRESET, &mut rng, 200.0, 3000, true);
    let near = (fit.model().a / PRESET.a - 1.0).abs() < 0.2 && (fit.model().b / PRESET.b - 1.0).abs() < 0.2;
    assert!(near, "{:?}", fit.model());
}

#[test]
fn nonsense_is_ignored() {
    let mut fit = ClassFit::new(PRESET);
    for bad in [f64::NAN, f64::INFINITY, -1.0, 0.0] {
        fit.tokens(&TokenSample {
            observed_ms: bad,
            streams: 1.0,
            context: 1.0,
            prefill_share: 0.0,
            deviation: 1.0,
        });
        fit.tokens(&TokenSample {
            observed_ms: 1.0,
            streams: 1.0,
            context: 1.0,
            prefill_share: 0.0,
            deviation: bad,
        });
        fit.first_token(&FirstTokenSample {
            observed_ms: 1.0,
            wait_ms: 0.0,
            uncached: bad,
            cached: 0.0,
            streams: 0.0,
            context: 0.0,
            deviation: 1.0,
        });
    }
    assert_eq!(fit, ClassFit::new(PRESET));
    // A preset of zeros predicts nothing and learns nothing, without harm.
    let zero = StepModel { a: 0.0, b: 0.0, c: 0.0, d: 0.0, e: 0.0, cap: 0.0, budget: 0.0 };
    let mut fit = ClassFit::new(zero);
    assert_eq!(run(&mut fit, &PRESET, &mut Lcg::new(1), 0.0, 500, true), []);
}
