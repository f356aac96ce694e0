//! What the control plane shows of a running gateway.

use std::collections::BTreeMap;
use std::sync::Arc;

use forebay_admin::{
    BodyEdit, DecisionView, EndpointStatus, PoolReadiness, PoolStatus, Readiness, RequestTotals, Status,
    StatusSource,
};
use forebay_config::Config;
use forebay_core::PoolId;
use forebay_live::{EndpointKey, GateDecision};
use forebay_proxy::{DrainPhase, Proxy};

use crate::signals_table::SignalsTable;

/// Reads the state of the gateway when asked.
pub(crate) struct StatusPage {
    proxy: Arc<Proxy>,
    table: Arc<SignalsTable>,
    config: Config,
    file: Option<String>,
}

impl StatusPage {
    pub(crate) fn new(
        proxy: Arc<Proxy>,
        table: Arc<SignalsTable>,
        config: Config,
        file: Option<String>,
    ) -> StatusPage {
        StatusPage { proxy, table, config, file }
    }

    fn pools(&self) -> Vec<PoolStatus> {
        let endpoints = self.proxy.live().endpoints();
        self.config
            .pools
            .iter()
            .enumerate()
            .map(|(i, pool)| {
                let id = PoolId(i as u32);
                let view = self.proxy.live().pool(id);
                let (ready, in_flight) = view.map_or((0, 0), |view| (view.ready, view.in_flight));
                let members = endpoints.iter().filter(|view| view.pools.contains(&id));
                PoolStatus {
                    name: pool.name.clone(),
                    model: pool.model.clone(),
                    policy: pool.policy.to_string(),
                    ready,
                    in_flight: u64::from(in_flight),
                    endpoints: members
                        .map(|view| EndpointStatus {
                            id: format!("{}.{}.{}", view.key.gate, view.key.id.slot, view.key.id.generation),
                            pool: pool.name.clone(),
                            url: view.member.name.clone(),
                            state: view.load.state.as_str().to_owned(),
                            weight: view.load.weight,
                            in_flight: u64::from(view.load.in_flight),
                            requests: view.load.picked,
                            signal_age_seconds: self
                                .table
                                .with(view.key, |told| told.at)
                                .flatten()
                                .map(|at| self.proxy.live().clock().now().since(at).as_secs_f64()),
                        })
                        .collect(),
                }
            })
            .collect()
    }
}

impl StatusSource for StatusPage {
    fn status(&self) -> Status {
        let metrics = self.proxy.metrics();
        let pools = self.config.pools.len();
        let total = (0..pools).map(|i| self.proxy.registry().requests(PoolId(i as u32))).sum();
        Status {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            uptime_seconds: self.proxy.live().clock().now().as_millis_f64() / 1e3,
            config_file: self.file.clone(),
            draining: self.proxy.phase() != DrainPhase::Serving,
            requests: RequestTotals {
                total,
                rejected: metrics.rejected_total(),
                retries: metrics.retried_total(),
                in_flight: u64::from(self.proxy.requests_in_flight()),
                client_connections: u64::from(self.proxy.open_connections()),
            },
            pools: self.pools(),
            body_edits: self
                .config
                .models
                .iter()
                .map(|alias| {
                    let targets: Vec<&str> = alias.targets.iter().map(|target| &*target.model).collect();
                    BodyEdit {
                        model: alias.name.clone(),
                        field: "model".to_owned(),
                        reason: format!(
                            "an alias of {}: its value is replaced on the way in and out",
                            targets.join(", ")
                        ),
                    }
                })
                .collect(),
        }
    }

    fn ready(&self) -> Readiness {
        let draining = self.proxy.phase() != DrainPhase::Serving;
        Readiness {
            serving: !draining,
            draining,
            pools: self
                .config
                .pools
                .iter()
                .enumerate()
                .map(|(i, pool)| PoolReadiness {
                    name: pool.name.clone(),
                    ready: self.proxy.live().pool(PoolId(i as u32)).map_or(0, |pool| pool.ready),
                })
                .collect(),
        }
    }

    fn decisions(&self, last: usize) -> Vec<DecisionView> {
        let live = self.proxy.live();
        let now = live.clock().now();
        let names: BTreeMap<EndpointKey, String> =
            live.endpoints().into_iter().map(|view| (view.key, view.member.name.clone())).collect();
        let view = |decision: GateDecision| {
            let why = decision.record;
            let name = |id| names.get(&EndpointKey { gate: decision.gate, id }).cloned().unwrap_or_default();
            let pool = self.config.pools.get(why.pool.index()).map(|pool| pool.name.clone());
            DecisionView {
                age_seconds: now.since(why.at).as_secs_f64(),
                pool: pool.unwrap_or_default(),
                endpoint: name(why.endpoint),
                policy: why.policy.to_string(),
                candidates: why.candidates,
                score: why.score,
                in_flight: why.in_flight,
                reason: why.reason(name),
            }
        };
        live.decisions(last).into_iter().map(view).collect()
    }

    fn metrics(&self) -> String {
        let metrics = self.proxy.metrics();
        for view in self.proxy.live().endpoints() {
            let (in_flight, requests) = (u64::from(view.load.in_flight), view.load.picked);
            view.member.upstream().metrics().load(in_flight, requests);
        }
        metrics.set_process(forebay_admin::process_stats());
        metrics.render()
    }
}
