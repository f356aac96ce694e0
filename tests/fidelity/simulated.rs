//! The other side: the fleet as the gateway sees it, in the simulator.

use std::time::Duration;

use forebay_core::Time;
use forebay_gate::{PolicyKind, PoolConfig};
use forebay_sim::engine::Profile;
use forebay_sim::fleet::{Fleet, PolicySpec, RunOptions, run};
use forebay_sim::workload::SimRequest;

use crate::requests::Once;
use crate::{KV_TOKENS, PROFILE};

/// Runs of one policy: what it draws at random is drawn so many times. Of
/// `random`, the mean of one run is off by 6 % (standard deviation), of others by
/// less than 3 %.
const SEEDS: u64 = 20;

/// What came of it, in engine time.
#[derive(Clone, Copy, Debug)]
pub struct Simulated {
    pub ttft_ms: f64,
    pub prefix_hit: f64,
    /// Share of the requests that were served within their limits.
    pub goodput: f64,
}

/// Means over the runs of a policy. A gateway knows only wall time, and to it
/// engines that run `time_scale` times faster than life are simply fast ones:
/// so they are here, and times are scaled afterwards.
pub fn simulate(
    requests: &[SimRequest],
    endpoints: &[String],
    policy: PolicyKind,
    overhead: Duration,
    time_scale: f64,
) -> Simulated {
    let profile = Profile { kv_tokens: KV_TOKENS, ..*Profile::by_name(PROFILE).unwrap() };
    let mut fleet = Fleet::uniform(endpoints.len(), &profile);
    for (endpoint, name) in fleet.endpoints.iter_mut().zip(endpoints) {
        endpoint.name.clone_from(name);
        endpoint.slowness = 1.0 / time_scale;
    }
    // What a busy endpoint is asked every, unless configured otherwise.
    fleet.scrape_every = Duration::from_millis(100);
    fleet.gateway_overhead = overhead;
    let policy = PolicySpec::Ours(PoolConfig { policy, ..PoolConfig::default() });
    let mut mean = Simulated { ttft_ms: 0.0, prefix_hit: 0.0, goodput: 0.0 };
    for seed in 1..=SEEDS {
        let options = RunOptions { seed, ..RunOptions::default() };
        let result = run(&fleet, &mut Once(requests.iter()), &policy, &options).unwrap();
        assert_eq!((result.requests, result.failed, result.rejected), (requests.len() as u64, 0, 0));
        mean.ttft_ms += result.ttft_ms.mean * time_scale / SEEDS as f64;
        mean.prefix_hit += result.prefix_hit / SEEDS as f64;
        mean.goodput += result.goodput / SEEDS as f64;
    }
    mean
}

/// The same requests so many times as fast.
pub fn faster(requests: &[SimRequest], times: f64) -> Vec<SimRequest> {
    let mut requests = requests.to_vec();
    for request in &mut requests {
        request.arrival = Time::from_millis_f64(request.arrival.as_millis_f64() / times);
    }
    requests
}
