use std::sync::Arc;
use std::time::Duration;

use forebay_core::*;

use crate::*;

const POOL: PoolId = PoolId(0);

fn at(ms: u64) -> Time {
    Time::from_nanos(1_000_000_000 + ms * 1_000_000)
}

fn gate(config: PoolConfig, endpoints: &[&str]) -> Gate {
    let mut gate = Gate::new(1);
    gate.apply(at(0), Event::Configure(POOL, config));
    for name in endpoints {
        gate.apply(at(0), Event::Join(POOL, EndpointFacts::named(*name), EndpointState::Ready));
    }
    gate
}

fn send(gate: &mut Gate, now: Time) -> Decision {
    let facts = RequestFacts {
        pool: POOL,
        prompt_tokens: 1_000,
        output_tokens: 50,
        stream: true,
        ..RequestFacts::default()
    };
    match gate.submit(now, Arc::new(facts)) {
        Verdict::Go(decision) => decision,
        other => panic!("expected Go, got {other:?}"),
    }
}

fn finished(tokens: u64, estimated: bool, ttft_ms: u64, duration_ms: u64) -> Outcome {
    Outcome {
        end: EndKind::Finished,
        ttft: Some(Duration::from_millis(ttft_ms)),
        duration: Duration::from_millis(duration_ms),
        usage: Some(Usage { completion_tokens: tokens, estimated, ..Usage::default() }),
    }
}

#[test]
fn predicted_lengths_and_times_per_token_are_compared_with_what_came() {
    let mut gate = gate(PoolConfig::default(), &["a"]);
    let pool = |gate: &Gate, now| gate.pool(POOL, now).unwrap();
    let first = send(&mut gate, at(0));
    let predicted_ms = gate.decisions(1).next().unwrap().top().next().unwrap().terms.tpot_ms;
    assert!(predicted_ms > 0.0);
    assert_eq!((pool(&gate, at(0)).tpot_error, pool(&gate, at(0)).output_error), (None, None));
    // 100 tokens where 50 were expected, each three times as long as predicted.
    let took = (f64::from(predicted_ms) * 3.0 * 99.0).round() as u64;
    gate.apply(at(200 + took), Event::Outcome(first.ticket, finished(100, false, 200, 200 + took)));
    let now = at(200 + took);
    let (tpot, output) = (pool(&gate, now).tpot_error.unwrap(), pool(&gate, now).output_error.unwrap());
    assert!((tpot.bias - 3.0).abs() < 0.05 && tpot.count == 1, "{tpot:?}");
    assert!((output.bias - 2.0).abs() < 1e-6 && output.count == 1, "{output:?}");

    // Few tokens say little of the time of each; an estimate says nothing of the length.
    for (tokens, estimated) in [(3, false), (80, true)] {
        let ticket = send(&mut gate, now).ticket;
        gate.apply(now, Event::Outcome(ticket, finished(tokens, estimated, 200, 900)));
    }
    let (tpot, output) = (pool(&gate, now).tpot_error.unwrap(), pool(&gate, now).output_error.unwrap());
    assert_eq!((tpot.count, output.count), (2, 2));
    // Nothing is known of what broke off.
    let ticket = send(&mut gate, now).ticket;
    gate.apply(now, Event::Cancelled(ticket));
    assert_eq!(pool(&gate, now).output_error.unwrap().count, 2);
}

#[test]
fn what_a_shadow_policy_would_cost_is_kept_by_its_sign() {
    // Round robin sends every second request to the busy one, which the shadow avoids.
    let config = |policy, shadow| PoolConfig { policy, shadow: Some(shadow), ..PoolConfig::default() };
    let sums = |policy, shadow| {
        let mut gate = gate(config(policy, shadow), &["a", "b"]);
        for n in 0..40 {
            let ticket = send(&mut gate, at(n)).ticket;
            // Only what went to one of them ends.
            if n % 2 == 0 {
                gate.apply(at(n), Event::Outcome(ticket, finished(50, false, 1, 1)));
            }
        }
        let load = gate.pool(POOL, at(40)).unwrap();
        assert_eq!(load.shadow_asked, 40);
        (load.shadow_dearer_ms, load.shadow_cheaper_ms)
    };
    let (dearer, cheaper) = sums(PolicyKind::RoundRobin, PolicyKind::Predictive);
    assert!(cheaper > 300.0 && dearer == 0.0, "dearer {dearer}, cheaper {cheaper}");
    let (dearer, cheaper) = sums(PolicyKind::Predictive, PolicyKind::RoundRobin);
    assert!(dearer > 300.0 && cheaper == 0.0, "dearer {dearer}, cheaper {cheaper}");
}
