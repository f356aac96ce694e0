//! What all workers of the data plane share.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};

use forebay_config::Limits;
use forebay_live::Live;
use forebay_metrics::{Metrics, RouteMetrics};
use tokio::sync::watch;

use crate::endpoint::Endpoint;
use crate::ids::RequestIds;
use crate::read::BodyMemory;
use crate::registry::Registry;
use crate::rule::CandidateSignals;

/// How far the graceful end has come.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum DrainPhase {
    /// Normal work.
    Serving,
    /// Still accepting; every answer asks its client to connect elsewhere next time.
    Announcing,
    /// Nothing new is accepted; what is under way goes on.
    Closing,
}

/// Settings of the data plane that are not of a pool.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// Bounds on clients.
    pub limits: Limits,
    /// Name the endpoint in `x-forebay-endpoint`.
    pub endpoint_header: bool,
    /// Say how long the gateway and the engine took in `server-timing`.
    pub server_timing: bool,
    /// Say in `x-forebay-held-tokens` what the endpoint was taken to hold.
    pub held_tokens_header: bool,
    /// Believe `x-forebay-*` request headers.
    pub trust_control_headers: bool,
    /// One log line for each request.
    pub access_log: bool,
}

/// The data plane.
pub struct Proxy {
    live: Arc<Live<Endpoint>>,
    registry: Registry,
    settings: Settings,
    metrics: Metrics,
    unrouted: RouteMetrics,
    pub(crate) ids: RequestIds,
    pub(crate) memory: BodyMemory,
    in_flight: AtomicU32,
    pub(crate) connections: AtomicU32,
    phase: watch::Sender<DrainPhase>,
    candidates: OnceLock<Arc<dyn CandidateSignals>>,
}

impl Proxy {
    /// A data plane that is not listening yet. `seed` makes its request ids.
    pub fn new(
        live: Arc<Live<Endpoint>>,
        registry: Registry,
        settings: Settings,
        metrics: Metrics,
        seed: u64,
    ) -> Proxy {
        Proxy {
            live,
            registry,
            memory: BodyMemory::new(settings.limits.body_memory),
            settings,
            unrouted: metrics.unrouted(),
            metrics,
            ids: RequestIds::new(seed),
            in_flight: AtomicU32::new(0),
            connections: AtomicU32::new(0),
            phase: watch::Sender::new(DrainPhase::Serving),
            candidates: OnceLock::new(),
        }
    }

    /// The Gates.
    pub fn live(&self) -> &Arc<Live<Endpoint>> {
        &self.live
    }

    /// The names that clients may ask for.
    pub fn registry(&self) -> &Registry {
        &self.registry
    }

    /// The metrics.
    pub fn metrics(&self) -> &Metrics {
        &self.metrics
    }

    /// Says who knows what endpoints told of themselves; the first to say so
    /// stays. Until then rules are not asked.
    pub fn set_candidates(&self, candidates: Arc<dyn CandidateSignals>) {
        let _ = self.candidates.set(candidates);
    }

    pub(crate) fn candidates(&self) -> Option<&dyn CandidateSignals> {
        self.candidates.get().map(|candidates| &**candidates)
    }

    pub(crate) fn settings(&self) -> &Settings {
        &self.settings
    }

    pub(crate) fn unrouted(&self) -> &RouteMetrics {
        &self.unrouted
    }

    /// How far the graceful end has come.
    pub fn phase(&self) -> DrainPhase {
        *self.phase.borrow()
    }

    /// Goes on to the next phase of the graceful end; never back.
    pub fn set_phase(&self, phase: DrainPhase) {
        self.phase.send_if_modified(|now| {
            let further = phase > *now;
            *now = phase.max(*now);
            further
        });
    }

    pub(crate) fn subscribe(&self) -> watch::Receiver<DrainPhase> {
        self.phase.subscribe()
    }

    /// Open client connections.
    pub fn open_connections(&self) -> u32 {
        self.connections.load(Ordering::Relaxed)
    }

    /// Requests being read or answered.
    pub fn requests_in_flight(&self) -> u32 {
        self.in_flight.load(Ordering::Relaxed)
    }

    /// Takes a place among all requests of the gateway; none when it is full.
    pub(crate) fn enter(self: &Arc<Self>) -> Option<InFlight> {
        let limit = self.settings.limits.in_flight;
        let before = self.in_flight.fetch_add(1, Ordering::Relaxed);
        // Made before the check, so that its drop takes back what was added.
        let place = InFlight { proxy: Arc::clone(self) };
        (limit == 0 || before < limit).then_some(place)
    }
}

impl std::fmt::Debug for Proxy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Proxy").field("registry", &self.registry).finish_non_exhaustive()
    }
}

/// A place among all requests of the gateway.
pub(crate) struct InFlight {
    proxy: Arc<Proxy>,
}

impl Drop for InFlight {
    fn drop(&mut self) {
        self.proxy.in_flight.fetch_sub(1, Ordering::Relaxed);
    }
}
