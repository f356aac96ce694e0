//! What endpoints told of themselves, in the form that rules read it: one cell
//! for each endpoint, written at each scrape and read without waiting.

use std::collections::BTreeMap;
use std::sync::Arc;

use arc_swap::ArcSwap;
use forebay_config::{Config, Pool};
use forebay_core::{PoolId, Time};
use forebay_live::{EndpointKey, Live};
use forebay_proxy::{CandidateSignals, Endpoint};
use forebay_rule::EndpointVars;
use forebay_wire::signals::Signals;

/// Every endpoint of every pool that has a rule.
pub(crate) struct Candidates {
    live: Arc<Live<Endpoint>>,
    /// By the pools' ids; empty for pools without a rule.
    pools: Vec<Vec<Candidate>>,
    told: BTreeMap<EndpointKey, Arc<ArcSwap<Told>>>,
}

/// What does not change of an endpoint, and what does.
struct Candidate {
    key: EndpointKey,
    name: String,
    zone: String,
    accelerator: String,
    version: String,
    told: Arc<ArcSwap<Told>>,
}

/// The last figures.
#[derive(Default)]
struct Told {
    at: Option<Time>,
    running: Option<f64>,
    waiting: Option<f64>,
    kv_usage: Option<f64>,
    throughput: Option<f64>,
    gpu_utilization: Option<f64>,
    gpu_temperature: Option<f64>,
    gpu_throttled: Option<bool>,
    custom: [Option<f64>; forebay_core::CUSTOM_SIGNALS],
}

impl Candidates {
    /// Nothing is told yet.
    pub(crate) fn new(config: &Config, live: Arc<Live<Endpoint>>) -> Candidates {
        let views = live.endpoints();
        let keys: BTreeMap<&str, EndpointKey> =
            views.iter().map(|view| (&*view.member.name, view.key)).collect();
        let mut told: BTreeMap<EndpointKey, Arc<ArcSwap<Told>>> = BTreeMap::new();
        let candidates = |pool: &Pool| {
            if pool.rule.is_none() {
                return Vec::new();
            }
            let of = pool.endpoints.iter().filter_map(|endpoint| {
                let key = *keys.get(&*endpoint.name)?;
                Some(Candidate {
                    key,
                    name: endpoint.name.clone(),
                    zone: endpoint.zone.clone().unwrap_or_default(),
                    accelerator: endpoint.accelerator.clone().unwrap_or_default(),
                    version: endpoint.version.clone().unwrap_or_default(),
                    told: Arc::clone(told.entry(key).or_default()),
                })
            });
            of.collect()
        };
        let pools = config.pools.iter().map(candidates).collect();
        Candidates { live, pools, told }
    }

    /// An endpoint told its load.
    pub(crate) fn set(&self, id: EndpointKey, at: Time, signals: &Signals) {
        let Some(told) = self.told.get(&id) else { return };
        told.store(Arc::new(Told {
            at: Some(at),
            running: signals.running.map(f64::from),
            waiting: signals.waiting.map(f64::from),
            kv_usage: signals.kv_usage.map(f64::from),
            throughput: signals.generation_throughput.map(f64::from),
            gpu_utilization: signals.gpu.utilization.map(f64::from),
            gpu_temperature: signals.gpu.temperature_c.map(f64::from),
            gpu_throttled: signals.gpu.throttled(),
            custom: signals.custom,
        }));
    }
}

impl CandidateSignals for Candidates {
    fn each(&self, pool: PoolId, each: &mut dyn FnMut(EndpointKey, &EndpointVars<'_>)) {
        let Some(candidates) = self.pools.get(pool.index()) else { return };
        let now = self.live.clock().now();
        for candidate in candidates {
            let told = candidate.told.load();
            let vars = EndpointVars {
                name: &candidate.name,
                zone: &candidate.zone,
                accelerator: &candidate.accelerator,
                version: &candidate.version,
                running: told.running,
                waiting: told.waiting,
                kv_usage: told.kv_usage,
                throughput: told.throughput,
                gpu_utilization: told.gpu_utilization,
                gpu_temperature: told.gpu_temperature,
                gpu_throttled: told.gpu_throttled,
                signal_age: told.at.map(|at| now.since(at).as_secs_f64()),
                signals: told.custom,
                ..EndpointVars::default()
            };
            each(candidate.key, &vars);
        }
    }
}
