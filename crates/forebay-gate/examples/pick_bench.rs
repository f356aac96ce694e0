//! Prints what a decision costs: `cargo run --release -p forebay-gate --example pick_bench`.
//!
//! One decision is a `submit` of a 4,096-token prompt and, later, the outcome that settles it, with as
//! many requests in flight as there are endpoints, times eight. It is what the
//! Gate's lock is held for.

use std::sync::Arc;
use std::time::{Duration, Instant};

use forebay_core::*;
use forebay_gate::*;

const POOL: PoolId = PoolId(0);

#[expect(clippy::disallowed_methods, reason = "a benchmark measures time")]
fn now() -> Instant {
    Instant::now()
}

/// A 4,096-token prompt of 64 blocks, a quarter of it shared by many.
fn facts(n: u64, ids: &[EndpointId]) -> Arc<RequestFacts> {
    let group = n % 50;
    let chain: Arc<[u64]> =
        (0..64u64).map(|i| if i < 16 { group * 1000 + i } else { n * 100_000 + i }).collect();
    let holds = |i: usize| (i as u64).wrapping_mul(31) % 50 == group;
    let matches = ids
        .iter()
        .enumerate()
        .filter(|(i, _)| holds(*i))
        .map(|(_, id)| PrefixMatch { endpoint: *id, tokens: 1024 })
        .collect();
    Arc::new(RequestFacts {
        pool: POOL,
        prompt_tokens: 4096,
        output_tokens: 200,
        stream: true,
        affinity: n.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 40,
        slo: Slo { ttft_ms: Some(2000.0), tpot_ms: Some(50.0) },
        prefix: Prefix { chain, block_tokens: 64.0, matches, exact: true },
        ..RequestFacts::default()
    })
}

/// Nanoseconds of a decision: median and 99th percentile.
fn measure(policy: PolicyKind, endpoints: usize) -> (u64, u64) {
    let mut gate = Gate::new(1);
    gate.apply(Time::ZERO, Event::Configure(POOL, PoolConfig { policy, ..PoolConfig::default() }));
    let ids: Vec<EndpointId> = (0..endpoints)
        .filter_map(|i| {
            let facts = EndpointFacts::named(format!("http://10.0.{}.{}:8000", i / 256, i % 256));
            gate.apply(Time::ZERO, Event::Join(POOL, facts, EndpointState::Ready)).joined
        })
        .collect();
    let mut in_flight = std::collections::VecDeque::new();
    let mut times = Vec::new();
    for n in 0..40_000u64 {
        // 20 requests per second and endpoint.
        let at = Time::from_nanos(n * 50_000_000 / endpoints as u64);
        let facts = facts(n, &ids);
        let start = now();
        let verdict = gate.submit(at, facts);
        let mut took = start.elapsed();
        if let Verdict::Go(decision) = verdict {
            in_flight.push_back(decision.ticket);
        }
        if in_flight.len() > endpoints * 8
            && let Some(ticket) = in_flight.pop_front()
        {
            let outcome = Outcome::without_answer(EndKind::Finished, Duration::ZERO);
            let start = now();
            gate.apply(at, Event::Outcome(ticket, outcome));
            took += start.elapsed();
        }
        if n > 20_000 {
            times.push(took.as_nanos() as u64);
        }
    }
    times.sort_unstable();
    (times[times.len() / 2], times[times.len() * 99 / 100])
}

fn main() {
    println!("{:<26} {:>20} {:>20} {:>20}", "policy", "8 endpoints", "64", "1,000");
    println!("{:<26} {:>20} {:>20} {:>20}", "", "p50 / p99 ns", "p50 / p99 ns", "p50 / p99 ns");
    for policy in PolicyKind::ALL {
        let cells: Vec<String> = [8, 64, 1000]
            .map(|n| measure(policy, n))
            .iter()
            .map(|(median, p99)| format!("{median} / {p99}"))
            .collect();
        println!("{:<26} {:>20} {:>20} {:>20}", policy.as_str(), cells[0], cells[1], cells[2]);
    }
}
