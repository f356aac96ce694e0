//! A fleet in several pools: each has gateways and traffic of its own, and is
//! simulated by itself.

use forebay_sim::fleet::{ClassResult, EndpointResult, Fleet, FleetEvent, SimResult, TimelinePoint, Times};

use super::plan::Stage;
use super::traffic::Load;

/// The part of a fleet that is one of its pools. Endpoints go to pools in turn,
/// so that each pool has its part of every group.
pub(super) fn part(fleet: &Fleet, pool: usize, pools: usize) -> Fleet {
    let endpoints = fleet.endpoints.iter().skip(pool).step_by(pools).cloned().collect();
    let events = fleet
        .events
        .iter()
        .filter(|event| event.endpoint % pools == pool)
        .map(|event| FleetEvent { endpoint: event.endpoint / pools, ..*event })
        .collect();
    Fleet { endpoints, events, ..fleet.clone() }
}

/// A pool's part of the traffic.
pub(super) fn stage(stage: Stage, pool: usize, pools: usize) -> Stage {
    let part = |all: u64| (all * (pool as u64 + 1)) / pools as u64 - all * pool as u64 / pools as u64;
    let requests = part(stage.requests);
    let load = match stage.load {
        Load::Rate(rate) | Load::AsRecorded(rate) if pools > 1 => Load::Rate(rate / pools as f64),
        Load::Concurrency(all) => Load::Concurrency((part(all as u64) as usize).max(1)),
        other => other,
    };
    Stage { load, requests, warmup: part(stage.warmup).min(requests.saturating_sub(1)) }
}

/// A pool's seed: its requests are its own.
pub(super) fn seed(seed: u64, pool: usize) -> u64 {
    seed ^ (pool as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// One result from those of all pools. Percentiles are the means of the pools',
/// by requests: exact where pools fare alike, as they do with traffic drawn alike.
pub(super) fn merged(mut results: Vec<SimResult>) -> SimResult {
    if results.len() == 1
        && let Some(only) = results.pop()
    {
        return only;
    }
    let sum = |count: &dyn Fn(&SimResult) -> u64| results.iter().map(count).sum::<u64>();
    let served = |result: &SimResult| result.endpoints.iter().map(|endpoint| endpoint.requests).sum::<u64>();
    let all_served = sum(&served);
    let mean = |weight: &dyn Fn(&SimResult) -> f64, value: &dyn Fn(&SimResult) -> f64| {
        weighted(results.iter().map(|result| (weight(result), value(result))))
    };
    let arrived = |result: &SimResult| result.requests as f64;
    let by_served = |result: &SimResult| served(result) as f64;
    let times = |which: &dyn Fn(&SimResult) -> Times| {
        together(results.iter().map(|result| (served(result) as f64, which(result))))
    };
    let (endpoints, busiest, busiest_tokens) = endpoints(&results, all_served);
    let timelines: Vec<&[TimelinePoint]> = results.iter().map(|result| result.timeline.as_slice()).collect();
    SimResult {
        policy: results.first().map(|result| result.policy.clone()).unwrap_or_default(),
        requests: sum(&|result| result.requests),
        failed: sum(&|result| result.failed),
        rejected: sum(&|result| result.rejected),
        cancelled: sum(&|result| result.cancelled),
        ttft_ms: times(&|result| result.ttft_ms),
        tpot_ms: times(&|result| result.tpot_ms),
        e2e_ms: times(&|result| result.e2e_ms),
        tokens_per_second: results.iter().map(|result| result.tokens_per_second).sum(),
        goodput: mean(&arrived, &|result| result.goodput),
        prefix_hit: mean(&by_served, &|result| result.prefix_hit),
        busiest,
        busiest_tokens,
        repicked: sum(&|result| result.repicked),
        classes: classes(&results),
        timeline: timeline(&timelines, endpoints.len()),
        endpoints,
        simulated: sum(&|result| result.simulated),
        sim_seconds: results.iter().map(|result| result.sim_seconds).fold(0.0, f64::max),
        ..SimResult::default()
    }
}

fn weighted(values: impl Iterator<Item = (f64, f64)>) -> f64 {
    let (sum, weights) =
        values.fold((0.0, 0.0), |(sum, weights), (weight, value)| (sum + weight * value, weights + weight));
    if weights > 0.0 { sum / weights } else { 0.0 }
}

fn together(times: impl Iterator<Item = (f64, Times)>) -> Times {
    let all: Vec<(f64, Times)> = times.collect();
    let mean = |pick: fn(&Times) -> f64| weighted(all.iter().map(|(weight, times)| (*weight, pick(times))));
    Times { mean: mean(|t| t.mean), p50: mean(|t| t.p50), p95: mean(|t| t.p95), p99: mean(|t| t.p99) }
}

/// Of the whole fleet, in its order; and the busiest over the mean by requests and by tokens.
fn endpoints(results: &[SimResult], served: u64) -> (Vec<EndpointResult>, f64, f64) {
    let pools = results.len();
    let count: usize = results.iter().map(|result| result.endpoints.len()).sum();
    let output: f64 = results.iter().map(|result| result.tokens_per_second).sum();
    let all: Vec<EndpointResult> = (0..count)
        .filter_map(|at| {
            let pool = &results[at % pools];
            let endpoint = pool.endpoints.get(at / pools)?.clone();
            // The pool's part of all tokens is taken to be its part of those generated.
            let part = if output > 0.0 { pool.tokens_per_second / output } else { 0.0 };
            Some(EndpointResult {
                share: endpoint.requests as f64 / served.max(1) as f64,
                token_share: endpoint.token_share * part,
                ..endpoint
            })
        })
        .collect();
    let most = |share: fn(&EndpointResult) -> f64| all.iter().map(share).fold(0.0, f64::max) * count as f64;
    let (requests, tokens) = (most(|endpoint| endpoint.share), most(|endpoint| endpoint.token_share));
    (all, requests, tokens)
}

fn classes(results: &[SimResult]) -> Vec<ClassResult> {
    let Some(most) = results.iter().map(|result| &result.classes).max_by_key(|classes| classes.len()) else {
        return Vec::new();
    };
    let class = |priority: i32| {
        let all: Vec<&ClassResult> = results
            .iter()
            .filter_map(|result| result.classes.iter().find(|class| class.priority == priority))
            .collect();
        let by_requests = |class: &&ClassResult| class.requests as f64;
        ClassResult {
            priority,
            requests: all.iter().map(|class| class.requests).sum(),
            goodput: weighted(all.iter().map(|class| (by_requests(class), class.goodput))),
            ttft_ms: together(all.iter().map(|class| (by_requests(class), class.ttft_ms))),
            e2e_ms: together(all.iter().map(|class| (by_requests(class), class.e2e_ms))),
        }
    };
    most.iter().map(|found| class(found.priority)).collect()
}

/// Stretch by stretch; a pool that is done has nothing any more.
fn timeline(pools: &[&[TimelinePoint]], endpoints: usize) -> Vec<TimelinePoint> {
    let stretches = pools.iter().map(|points| points.len()).max().unwrap_or(0);
    let stretch = |at: usize| {
        let points: Vec<Option<&TimelinePoint>> = pools.iter().map(|points| points.get(at)).collect();
        let there = || points.iter().copied().flatten();
        let sum = |count: fn(&TimelinePoint) -> u64| there().map(count).sum::<u64>();
        TimelinePoint {
            at: there().map(|point| point.at).fold(0.0, f64::max),
            arrived: sum(|point| point.arrived),
            served: sum(|point| point.served),
            met: sum(|point| point.met),
            ttft_ms: weighted(there().map(|point| (point.served as f64, point.ttft_ms))),
            busy: spread(&points, endpoints, |point| &point.busy),
            sent: spread(&points, endpoints, |point| &point.sent),
            running: spread(&points, endpoints, |point| &point.running),
            waiting: spread(&points, endpoints, |point| &point.waiting),
        }
    };
    (0..stretches).map(stretch).collect()
}

/// Values by endpoint of the whole fleet, in its order.
fn spread<T: Copy + Default>(
    pools: &[Option<&TimelinePoint>],
    endpoints: usize,
    which: fn(&TimelinePoint) -> &Vec<T>,
) -> Vec<T> {
    let value = |at: usize| {
        let point = pools.get(at % pools.len().max(1)).copied().flatten()?;
        which(point).get(at / pools.len()).copied()
    };
    (0..endpoints).map(|at| value(at).unwrap_or_default()).collect()
}

#[cfg(test)]
mod tests {
    use forebay_sim::engine::Profile;

    use super::*;

    #[test]
    fn pools_share_endpoints_and_requests_and_nothing_is_lost() {
        let fleet = Fleet::uniform(10, Profile::by_name("h100-8b").unwrap());
        let names = |pool| part(&fleet, pool, 3).endpoints.iter().map(|e| e.name.clone()).collect::<Vec<_>>();
        assert_eq!(names(0), ["e0", "e3", "e6", "e9"]);
        assert_eq!(names(2), ["e2", "e5", "e8"]);
        let all = Stage { load: Load::Rate(9.0), requests: 1_000, warmup: 100 };
        let parts: Vec<Stage> = (0..3).map(|pool| stage(all, pool, 3)).collect();
        assert_eq!(parts.iter().map(|part| part.requests).sum::<u64>(), 1_000);
        assert_eq!(parts.iter().map(|part| part.warmup).sum::<u64>(), 100);
        assert_eq!(parts[1].load, Load::Rate(3.0));
        assert_eq!(stage(all, 0, 1), all);
        assert_eq!(seed(7, 0), 7);
        assert_ne!(seed(7, 1), seed(7, 2));
    }

    #[test]
    fn results_are_put_together_in_the_fleets_order() {
        let endpoint = |name: &str, requests, token_share| EndpointResult {
            name: name.to_owned(),
            requests,
            token_share,
            ..EndpointResult::default()
        };
        let point = |sent: &[u32], served, ttft_ms| TimelinePoint {
            sent: sent.to_vec(),
            served,
            ttft_ms,
            ..TimelinePoint::default()
        };
        let one = SimResult {
            requests: 40,
            goodput: 0.5,
            tokens_per_second: 30.0,
            ttft_ms: Times { mean: 100.0, ..Times::default() },
            endpoints: vec![endpoint("a", 10, 0.25), endpoint("c", 20, 0.75)],
            timeline: vec![point(&[1, 2], 2, 10.0), point(&[3, 4], 1, 5.0)],
            ..SimResult::default()
        };
        let other = SimResult {
            requests: 10,
            goodput: 1.0,
            tokens_per_second: 10.0,
            ttft_ms: Times { mean: 200.0, ..Times::default() },
            endpoints: vec![endpoint("b", 10, 1.0)],
            timeline: vec![point(&[9], 2, 20.0)],
            ..SimResult::default()
        };
        let both = merged(vec![one.clone(), other]);
        assert_eq!((both.requests, both.goodput, both.ttft_ms.mean), (50, 0.6, 125.0));
        let names: Vec<&str> = both.endpoints.iter().map(|e| e.name.as_str()).collect();
        assert_eq!((names, both.endpoints[2].share), (vec!["a", "b", "c"], 0.5));
        assert_eq!((both.endpoints[2].token_share, both.busiest), (0.5625, 1.5));
        assert_eq!(both.timeline[0].sent, [1, 9, 2]);
        assert_eq!((both.timeline[0].ttft_ms, &both.timeline[1].sent), (15.0, &vec![3, 0, 4]));
        assert_eq!(merged(vec![one.clone()]), one);
    }
}
