//! Where the fleet's findings and the data plane's meet.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

use forebay_config::Config;
use forebay_core::{EndpointState, LoadReport, ModelId, PoolId};
use forebay_fleet::{Evidence, Fleet, Identity, Membership, Scraped, WarmUpEnd, WarmUps};
use forebay_live::{EndpointKey, Live};
use forebay_metrics::{EndpointStateLabel, Page};
use forebay_proxy::{Endpoint, EndpointSignals, Proxy};
use forebay_wire::signals::{Dialect, ResidentModel, Signals};
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::candidates::Candidates;
use crate::signals_table::SignalsTable;
use crate::warming::Warming;

/// Carries what probes and scrapes find to the Gates and the metrics.
pub(crate) struct Members {
    live: Arc<Live<Endpoint>>,
    proxy: Arc<Proxy>,
    table: Arc<SignalsTable>,
    /// What rules read.
    candidates: Arc<Candidates>,
    warming: Warming,
    endpoints: BTreeMap<EndpointKey, Arc<Endpoint>>,
    pools: BTreeMap<EndpointKey, Arc<[PoolId]>>,
    /// Pools whose adapters are found out, by their ids.
    discovering: Vec<bool>,
    known: Mutex<Known>,
}

/// What was found out and decides with other findings.
#[derive(Default)]
struct Known {
    /// The state that the probes found.
    probed: BTreeMap<EndpointKey, EndpointState>,
    /// Whether each endpoint serves what it should, where that was told.
    models: BTreeMap<EndpointKey, ModelCheck>,
    /// Adapters that each endpoint lists.
    adapters: BTreeMap<EndpointKey, Vec<String>>,
    /// What an operator decided, which counts above everything else.
    wanted: BTreeMap<EndpointKey, EndpointState>,
}

/// Whether an endpoint serves its pool's model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ModelCheck {
    /// It lists it.
    Listed,
    /// It lists nothing that could be read, and is taken to serve it.
    Unlisted,
    /// It serves another one.
    Other,
    /// It is being found out, because something else may answer there.
    Checking,
}

impl ModelCheck {
    /// The word for it in status.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            ModelCheck::Listed => "listed",
            ModelCheck::Unlisted => "unlisted",
            ModelCheck::Other => "other",
            ModelCheck::Checking => "checking",
        }
    }
}

impl Members {
    pub(crate) fn new(proxy: Arc<Proxy>, table: Arc<SignalsTable>, config: &Config) -> Members {
        let live = Arc::clone(proxy.live());
        let views = live.endpoints();
        let keys = views.iter().map(|view| (&*view.member.name, view.key)).collect();
        let warming = Warming::new(config, &keys);
        let pools = views.iter().map(|view| (view.key, Arc::clone(&view.pools))).collect();
        let endpoints = views.into_iter().map(|view| (view.key, view.member)).collect();
        let discovering = config.pools.iter().map(|pool| pool.discover_adapters).collect();
        let candidates = Arc::new(Candidates::new(config, Arc::clone(&live)));
        proxy.set_candidates(Arc::<Candidates>::clone(&candidates));
        Members {
            live,
            proxy,
            table,
            candidates,
            warming,
            endpoints,
            pools,
            discovering,
            known: Mutex::default(),
        }
    }

    pub(crate) fn endpoints(&self) -> impl Iterator<Item = (EndpointKey, &Arc<Endpoint>)> {
        self.endpoints.iter().map(|(key, endpoint)| (*key, endpoint))
    }

    /// Says who warms endpoints up.
    pub(crate) fn set_warm_ups(&self, warm_ups: Weak<WarmUps<Members>>) {
        self.warming.set_warm_ups(warm_ups);
    }

    /// Ready is who answers its probes, serves what it should and is warm,
    /// unless an operator decided otherwise.
    fn settle_state(&self, id: EndpointKey) {
        // Held until the Gate knows: what was decided last is told last.
        let known = self.known.lock();
        let model = known.models.get(&id);
        let is_other = model == Some(&ModelCheck::Other);
        let is_doubtful = model == Some(&ModelCheck::Checking);
        let state = match (known.wanted.get(&id), known.probed.get(&id)) {
            (Some(wanted), _) => *wanted,
            (None, Some(EndpointState::Ready)) if is_other => EndpointState::Unready,
            (None, Some(EndpointState::Ready)) if is_doubtful => EndpointState::Starting,
            (None, Some(EndpointState::Ready)) if !self.warming.admits(id) => EndpointState::Starting,
            (None, Some(probed)) => *probed,
            (None, None) => return,
        };
        let takes_requests = match state {
            EndpointState::Ready => true,
            // What was picked before may still go.
            EndpointState::Draining => !is_other && !is_doubtful,
            _ => false,
        };
        let endpoint = self.endpoints.get(&id);
        if let Some(endpoint) = endpoint.filter(|_| takes_requests) {
            endpoint.upstream().open();
        }
        self.live.set_state(id, state);
        if let Some(endpoint) = endpoint {
            if !takes_requests {
                // A request that was picked before must not reach whoever comes there next.
                endpoint.upstream().close();
            }
            if let Some(label) = EndpointStateLabel::from_word(state.as_str()) {
                endpoint.upstream().metrics().state(label);
            }
        }
    }

    /// Whether the endpoint serves its pool's model; none while nobody looked.
    pub(crate) fn model_check(&self, id: EndpointKey) -> Option<ModelCheck> {
        self.known.lock().models.get(&id).copied()
    }

    /// An operator wants the endpoint in this state, or as its probes say, where
    /// it is `probed`.
    pub(crate) fn want(&self, id: EndpointKey, state: Option<EndpointState>, probed: bool) {
        {
            let mut known = self.known.lock();
            let now = self.live.load(id).map(|load| load.state);
            match state {
                Some(state) => {
                    if probed && state == EndpointState::Disabled {
                        // Nobody looks at it meanwhile: it comes back as a new one does.
                        known.probed.insert(id, EndpointState::Starting);
                    } else if let Some(now) = now {
                        // Where nobody probes, what it was is all that is known.
                        known.probed.entry(id).or_insert(now);
                    }
                    known.wanted.insert(id, state);
                }
                None => {
                    known.wanted.remove(&id);
                }
            }
        }
        self.settle_state(id);
    }

    /// What an operator decided of an endpoint; none when nothing.
    pub(crate) fn wanted(&self, id: EndpointKey) -> Option<EndpointState> {
        self.known.lock().wanted.get(&id).copied()
    }

    /// The adapters that an endpoint lists.
    pub(crate) fn adapters(&self, id: EndpointKey) -> Vec<String> {
        self.known.lock().adapters.get(&id).cloned().unwrap_or_default()
    }

    /// The adapters that all endpoints list.
    pub(crate) fn all_adapters(&self) -> Vec<String> {
        self.known.lock().adapters.values().flatten().cloned().collect()
    }

    fn name(&self, id: EndpointKey) -> &str {
        self.endpoints.get(&id).map_or("", |endpoint| &endpoint.name)
    }

    /// Everything that is known of adapters, told to whom it concerns.
    fn tell_adapters(&self, id: EndpointKey) {
        let Some(pools) = self.pools.get(&id) else { return };
        let known = self.known.lock();
        for pool in pools.iter().filter(|pool| self.discovering.get(pool.index()).is_some_and(|on| *on)) {
            let members = self.pools.iter().filter(|(_, of)| of.contains(pool)).map(|(key, _)| key);
            let listed = members.filter_map(|key| known.adapters.get(key)).flatten().map(String::as_str);
            self.proxy.registry().discover(*pool, listed);
        }
        let ids: Vec<ModelId> = known
            .adapters
            .get(&id)
            .into_iter()
            .flatten()
            .filter_map(|name| self.proxy.registry().adapter(name))
            .collect();
        drop(known);
        self.live.adapters(id, ids);
    }
}

impl Membership for Members {
    type Id = EndpointKey;

    fn set_state(&self, id: EndpointKey, state: EndpointState) {
        if state != EndpointState::Ready {
            self.warming.cool(id);
        }
        self.known.lock().probed.insert(id, state);
        self.settle_state(id);
    }

    fn probed(&self, id: EndpointKey, result: forebay_metrics::Probe) {
        if let Some(endpoint) = self.endpoints.get(&id) {
            endpoint.upstream().metrics().probe(result);
        }
    }

    fn in_flight(&self, id: EndpointKey) -> u32 {
        self.live.load(id).map_or(0, |load| load.in_flight)
    }

    fn signals(&self, id: EndpointKey, at: Instant, signals: &Signals) {
        let at = self.live.clock().time(at.into_std());
        self.table.set(id, at, signals);
        self.candidates.set(id, at, signals);
        let report = LoadReport {
            at,
            running: signals.running,
            waiting: signals.waiting,
            kv_usage: signals.kv_usage,
            kv_tokens: signals.kv_tokens.and_then(|tokens| u32::try_from(tokens).ok()),
            waiting_tokens: signals.waiting_tokens,
            throughput: signals.generation_throughput,
            custom: signals.custom.map(|value| value.map(|value| value as f32)),
        };
        let pool = self.pools.get(&id).and_then(|pools| pools.first());
        let block = pool.map_or(0.0, |pool| self.proxy.registry().block_tokens(*pool));
        self.live.report(id, report, block);
        if let Some(adapters) = &signals.adapters {
            let registry = self.proxy.registry();
            let loaded = adapters.loaded.iter().filter_map(|name| registry.adapter(name)).collect();
            self.live.loaded(id, loaded, adapters.max);
        }
    }

    fn models(&self, id: EndpointKey, models: &[ResidentModel]) {
        // Of another model than the pool's they are none of the pool's.
        let is_other = self.model_check(id) == Some(ModelCheck::Other);
        let adapters = models.iter().filter(|model| model.parent.is_some() && !is_other);
        let adapters: Vec<String> = adapters.map(|model| model.id.clone()).collect();
        let changed = {
            let mut known = self.known.lock();
            let old = known.adapters.insert(id, adapters.clone());
            old.as_ref() != Some(&adapters)
        };
        if changed {
            self.tell_adapters(id);
        }
    }

    fn restarted(&self, id: EndpointKey) {
        tracing::info!(url = self.name(id), "the engine began anew; what it held is forgotten");
        self.live.restarted(id);
        if let Some(endpoint) = self.endpoints.get(&id) {
            endpoint.upstream().renew();
        }
        if self.warming.cool(id) {
            self.settle_state(id);
        }
    }

    fn warmed(&self, id: EndpointKey, end: &WarmUpEnd) {
        self.warming.ended(id, end);
        self.settle_state(id);
    }

    fn identity(&self, id: EndpointKey, identity: Identity<'_>) {
        let check = match identity {
            Identity::Doubtful => ModelCheck::Checking,
            Identity::Matches => ModelCheck::Listed,
            Identity::Unlisted => ModelCheck::Unlisted,
            Identity::Mismatch { found } => {
                tracing::warn!(
                    url = self.name(id),
                    found,
                    "the endpoint serves another model than its pool's"
                );
                ModelCheck::Other
            }
        };
        self.known.lock().models.insert(id, check);
        if check == ModelCheck::Other {
            // Whoever is there now, what the one before held is not there.
            self.live.restarted(id);
            self.warming.cool(id);
        }
        self.settle_state(id);
    }

    fn detected(&self, id: EndpointKey, dialect: Dialect) {
        self.table.set_dialect(id, dialect);
        if let Some(endpoint) = self.endpoints.get(&id) {
            endpoint.set_names_adapters_on_base(dialect == Dialect::Sglang);
        }
    }

    fn scraped(&self, _: EndpointKey, scraped: &Scraped) {
        if let Some(page) = Page::from_word(scraped.page.label()) {
            self.proxy.metrics().scraped(page, scraped.took);
        }
    }

    fn scrape_failed(&self, id: EndpointKey, why: &'static str) {
        self.table.failed(id, why);
    }
}

/// Carries what real traffic shows to the fleet.
pub(crate) struct Traffic {
    pub(crate) evidence: Evidence,
    pub(crate) fleet: Weak<Fleet<Members>>,
    pub(crate) id: EndpointKey,
}

impl EndpointSignals for Traffic {
    fn succeeded(&self) {
        self.evidence.succeeded();
    }

    fn connect_failed(&self) {
        self.evidence.connect_failed();
    }

    fn model_missing(&self) {
        if let Some(fleet) = self.fleet.upgrade() {
            fleet.refresh_models(self.id);
        }
    }

    fn model_denied(&self) {
        if let Some(fleet) = self.fleet.upgrade() {
            fleet.model_denied(self.id);
        }
    }
}
