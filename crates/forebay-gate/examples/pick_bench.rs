//! Prints what a decision costs: `cargo run --release -p forebay-gate --example pick_bench`.
//!
//! One decision is a `submit` and, later, the outcome that settles it, with as
//! many requests in flight as there are endpoints, times eight. It is what the
//! Gate's lock is held for.

use std::time::{Duration, Instant};

use forebay_core::*;
use forebay_gate::*;

const POOL: PoolId = PoolId(0);

#[expect(clippy::disallowed_methods, reason = "a benchmark measures time")]
fn now() -> Instant {
    Instant::now()
}

fn facts(n: u64) -> RequestFacts {
    RequestFacts {
        pool: POOL,
        model: ModelId(0),
        priority: Priority::STANDARD,
        prompt_tokens: 500 + (n % 4096) as u32,
        output_tokens: 200,
        stream: true,
        affinity: n.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 40,
    }
}

/// Nanoseconds of a decision: median and 99th percentile.
fn measure(policy: PolicyKind, endpoints: usize) -> (u64, u64) {
    let mut gate = Gate::new(1);
    gate.apply(Time::ZERO, Event::Configure(POOL, PoolConfig { policy, ..PoolConfig::default() }));
    for i in 0..endpoints {
        let facts = EndpointFacts { name: format!("http://10.0.{}.{}:8000", i / 256, i % 256), weight: 1.0 };
        gate.apply(Time::ZERO, Event::Join(POOL, facts, EndpointState::Ready));
    }
    let mut in_flight = std::collections::VecDeque::new();
    let mut times = Vec::new();
    for n in 0..40_000u64 {
        let at = Time::from_nanos(n * 1000);
        let start = now();
        let verdict = gate.submit(at, &facts(n));
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
    println!("{:<22} {:>20} {:>20} {:>20}", "policy", "8 endpoints", "64", "1,000");
    println!("{:<22} {:>20} {:>20} {:>20}", "", "p50 / p99 ns", "p50 / p99 ns", "p50 / p99 ns");
    for policy in PolicyKind::ALL {
        let cells: Vec<String> = [8, 64, 1000]
            .map(|n| measure(policy, n))
            .iter()
            .map(|(median, p99)| format!("{median} / {p99}"))
            .collect();
        println!("{:<22} {:>20} {:>20} {:>20}", policy.as_str(), cells[0], cells[1], cells[2]);
    }
}
