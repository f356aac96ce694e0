//! Decisions with the names of everything in them.

use std::collections::BTreeMap;

use forebay_admin::{CandidateView, DecisionView};
use forebay_core::{EndpointId, ModelId};
use forebay_gate::Candidate;
use forebay_live::{EndpointKey, GateDecision};

use super::StatusPage;

impl StatusPage {
    /// The newest decisions, newest first, at most `last`.
    pub(super) fn explain(&self, last: usize) -> Vec<DecisionView> {
        let live = self.proxy.live();
        let now = live.clock().now();
        let endpoints = live.endpoints();
        let names: BTreeMap<EndpointKey, &str> =
            endpoints.iter().map(|view| (view.key, view.member.name.as_str())).collect();
        let adapters = self.adapter_names();
        let view = |decision: GateDecision| {
            let why = decision.record;
            let name = |id: EndpointId| {
                let key = EndpointKey { gate: decision.gate, id };
                names.get(&key).map_or_else(String::new, |name| (*name).to_owned())
            };
            let pool = self.config.pools.get(why.pool.index());
            let base = pool.map_or_else(String::new, |pool| pool.model.clone());
            DecisionView {
                age_seconds: now.since(why.at).as_secs_f64(),
                pool: pool.map_or_else(String::new, |pool| pool.name.clone()),
                model: adapters.get(&why.model).map_or(base, Clone::clone),
                endpoint: name(why.endpoint),
                policy: why.policy.to_string(),
                fallback: why.fallback,
                shadow: why.shadow.map(name),
                prompt_tokens: why.prompt_tokens,
                output_tokens: why.output_tokens,
                candidates: why.candidates,
                score: why.score,
                in_flight: why.in_flight,
                reason: why.reason(name),
                candidates_priced: why.top().map(|candidate| priced(candidate, name)).collect(),
            }
        };
        live.decisions(last).into_iter().map(view).collect()
    }

    /// Adapters by the ids that decisions know them by.
    fn adapter_names(&self) -> BTreeMap<ModelId, String> {
        let registry = self.proxy.registry();
        let configured = self.config.pools.iter().flat_map(|pool| pool.adapters.iter().cloned());
        let listed = self.members.all_adapters();
        configured.chain(listed).filter_map(|name| Some((registry.adapter(&name)?, name))).collect()
    }
}

fn priced(candidate: &Candidate, name: impl Fn(EndpointId) -> String) -> CandidateView {
    let t = &candidate.terms;
    CandidateView {
        endpoint: name(candidate.endpoint),
        held_tokens: t.held_tokens,
        wait_ms: t.wait_ms,
        prefill_ms: t.prefill_ms,
        fixed_ms: t.fixed_ms,
        ttft_ms: t.ttft_ms,
        extra_ms: t.extra_ms,
        decode_ms: t.decode_ms,
        harm_ms: t.harm_ms,
        capacity_ms: t.capacity_ms,
        price_ms: t.price_ms,
        crowding_ms: t.crowding_ms,
        tpot_ms: t.tpot_ms,
        miss: t.miss,
        miss_ms: t.miss_ms,
        total_ms: t.total_ms,
    }
}
