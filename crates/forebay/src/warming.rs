//! Which endpoints have had their warm-up.

use std::collections::BTreeMap;
use std::sync::{OnceLock, Weak};

use forebay_config::Config;
use forebay_fleet::{WarmUpEnd, WarmUpPlan, WarmUps};
use forebay_live::EndpointKey;
use parking_lot::Mutex;

use crate::members::Members;
use crate::pools::warm_up_plan;

/// Endpoints whose pools want a warm-up, and how far each one is.
pub(crate) struct Warming {
    plans: BTreeMap<EndpointKey, WarmUpPlan>,
    warm_ups: OnceLock<Weak<WarmUps<Members>>>,
    /// Those that are not in it are cold.
    warmth: Mutex<BTreeMap<EndpointKey, Warmth>>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Warmth {
    Warming,
    Warm,
}

impl Warming {
    /// `keys` by the endpoints' names.
    pub(crate) fn new(config: &Config, keys: &BTreeMap<&str, EndpointKey>) -> Warming {
        let mut plans = BTreeMap::new();
        for pool in &config.pools {
            for endpoint in &pool.endpoints {
                if let (Some(key), Some(plan)) = (keys.get(&*endpoint.name), warm_up_plan(pool, endpoint)) {
                    plans.entry(*key).or_insert(plan);
                }
            }
        }
        Warming { plans, warm_ups: OnceLock::new(), warmth: Mutex::default() }
    }

    /// Says who sends the requests; until then everybody counts as warm.
    pub(crate) fn set_warm_ups(&self, warm_ups: Weak<WarmUps<Members>>) {
        let _ = self.warm_ups.set(warm_ups);
    }

    /// Whether an endpoint that is ready otherwise may be picked. A cold one
    /// begins its warm-up.
    pub(crate) fn admits(&self, id: EndpointKey) -> bool {
        let Some(plan) = self.plans.get(&id) else { return true };
        let Some(warm_ups) = self.warm_ups.get().and_then(Weak::upgrade) else { return true };
        let mut warmth = self.warmth.lock();
        match warmth.get(&id) {
            Some(Warmth::Warm) => true,
            Some(Warmth::Warming) => false,
            None => {
                warmth.insert(id, Warmth::Warming);
                let (url, requests) = (&plan.url, plan.requests);
                tracing::info!(url, requests, "the endpoint is warmed up before it gets requests");
                warm_ups.begin(id, plan.clone());
                false
            }
        }
    }

    /// An endpoint went away or began anew. Says whether it is to be warmed up again.
    pub(crate) fn cool(&self, id: EndpointKey) -> bool {
        if !self.plans.contains_key(&id) {
            return false;
        }
        if self.warmth.lock().remove(&id) == Some(Warmth::Warming)
            && let Some(warm_ups) = self.warm_ups.get().and_then(Weak::upgrade)
        {
            warm_ups.stop(id);
        }
        true
    }

    /// A warm-up ended, well or not.
    pub(crate) fn ended(&self, id: EndpointKey, end: &WarmUpEnd) {
        self.warmth.lock().insert(id, Warmth::Warm);
        let url = self.plans.get(&id).map_or("", |plan| &plan.url);
        match end {
            WarmUpEnd::Warm => tracing::info!(url, "the endpoint is warm"),
            WarmUpEnd::GivenUp { answered, why } => {
                tracing::warn!(url, answered, why, "the endpoint gets requests without its whole warm-up");
            }
        }
    }
}
