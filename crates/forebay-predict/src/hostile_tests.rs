//! Whatever numbers come in, only finite ones in their ranges come out, and
//! every state goes through a snapshot.

use forebay_core::Time;
use proptest::num::f64::ANY;
use proptest::prelude::*;

use crate::*;

fn round_trip<T: serde::Serialize + serde::de::DeserializeOwned>(state: &T) -> T {
    serde_json::from_str(&serde_json::to_string(state).unwrap()).unwrap()
}

/// Values that are anything, or of a size that is not refused at once.
fn number() -> impl Strategy<Value = f64> {
    prop_oneof![ANY, 0.0..1e4, (0.0f64..300.0).prop_map(|x| (x - 150.0).exp())]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..Default::default() })]

    #[test]
    fn only_finite_numbers_come_out(
        calls in proptest::collection::vec((number(), number(), number(), number(), any::<u64>()), 1..200)
    ) {
        let mut gamma = TpotCorrection::new();
        let mut arrivals = Arrivals::new();
        let mut sum = DecayedSum::new(20.0);
        let mut network = NetworkTime::new();
        let mut stats = ErrorStats::new();
        let mut dog = Watchdog::default();
        let mut fit = ClassFit::new(StepModel::A100_8B);
        for (x, y, z, w, ns) in calls {
            let now = Time::from_nanos(ns);
            gamma.observe(x, y);
            arrivals.arrive(now);
            sum.add(x, now);
            network.observe(1, x, now);
            stats.observe(x, y, now);
            dog.observe(x, y, Some(z), now);
            fit.first_token(&FirstTokenSample {
                observed_ms: x, wait_ms: 0.0, uncached: y, cached: z, streams: w, context: z, deviation: 1.0,
            });
            fit.tokens(&TokenSample {
                observed_ms: x, streams: y, context: z, prefill_share: 0.0, deviation: w,
            });
            fit.adopt(now);
            prop_assert!((0.25..=4.0).contains(&gamma.value()));
            prop_assert!(arrivals.per_ms(now).is_finite() && arrivals.per_ms(now) >= 0.0);
            prop_assert!(sum.at(now).is_finite() && network.lowest_ms(1).is_finite());
            prop_assert!((0.0..=2.4).contains(&dog.error()) && (0.0..=1.0).contains(&dog.broken_share(now)));
            if let Some(s) = stats.summary(now) {
                prop_assert!([s.bias, s.mean, s.p50, s.p90].iter().all(|x| x.is_finite() && *x > 0.0), "{s:?}");
            }
            let (model, preset) = (fit.model(), StepModel::A100_8B);
            prop_assert!(model.valid());
            for (got, from) in [(model.a, preset.a), (model.b, preset.b), (model.d, preset.d)] {
                prop_assert!((0.124..8.01).contains(&(got / from)), "{model:?}");
            }
        }
        // A state with a number that is not finite would not come back.
        round_trip(&gamma);
        round_trip(&arrivals);
        round_trip(&sum);
        round_trip(&network);
        round_trip(&stats);
        round_trip(&dog);
        round_trip(&fit);
    }

    #[test]
    fn prices_of_sane_requests_are_finite(
        u in 0.0..2e6, h in 0.0..2e6, streams in 0.0..5e3, context in 0.0..1e7, share in -2.0..2.0,
    ) {
        for m in [StepModel::H100_8B, StepModel::guess("t4", "405b")] {
            let step = m.step_ms(streams, context);
            let all = [
                m.prefill_ms(u, h),
                step,
                m.interference(streams, step) - 1.0,
                m.memory_wait_ms(context, streams, 200.0, u, step),
            ];
            prop_assert!(all.iter().all(|x| x.is_finite() && *x >= 0.0), "{all:?}");
            let tpot = m.tpot_ms(streams, context, share);
            prop_assert!(tpot >= step && tpot.is_finite(), "{tpot}");
        }
    }
}
