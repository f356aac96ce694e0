//! Where the fleet's findings and the data plane's meet.

use std::collections::BTreeMap;
use std::sync::Arc;

use forebay_core::EndpointState;
use forebay_fleet::{Evidence, Membership};
use forebay_live::{EndpointKey, Live};
use forebay_metrics::EndpointStateLabel;
use forebay_proxy::{Endpoint, EndpointSignals};

/// Carries what probes find to the Gates and the metrics.
pub(crate) struct Members {
    live: Arc<Live<Endpoint>>,
    endpoints: BTreeMap<EndpointKey, Arc<Endpoint>>,
}

impl Members {
    pub(crate) fn new(live: Arc<Live<Endpoint>>) -> Members {
        let endpoints = live.endpoints().into_iter().map(|view| (view.key, view.member)).collect();
        Members { live, endpoints }
    }

    pub(crate) fn endpoints(&self) -> impl Iterator<Item = (EndpointKey, &Arc<Endpoint>)> {
        self.endpoints.iter().map(|(key, endpoint)| (*key, endpoint))
    }
}

impl Membership for Members {
    type Id = EndpointKey;

    fn set_state(&self, id: EndpointKey, state: EndpointState) {
        self.live.set_state(id, state);
        if let Some(endpoint) = self.endpoints.get(&id)
            && let Some(label) = EndpointStateLabel::from_word(state.as_str())
        {
            endpoint.upstream().metrics().state(label);
        }
    }

    fn probed(&self, id: EndpointKey, result: forebay_metrics::Probe) {
        if let Some(endpoint) = self.endpoints.get(&id) {
            endpoint.upstream().metrics().probe(result);
        }
    }
}

/// Carries what real traffic shows to the fleet.
pub(crate) struct Traffic(pub(crate) Evidence);

impl EndpointSignals for Traffic {
    fn succeeded(&self) {
        self.0.succeeded();
    }

    fn connect_failed(&self) {
        self.0.connect_failed();
    }
}
