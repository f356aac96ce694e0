//! The loop that watches one endpoint, and what traffic tells it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use forebay_config::{Health, Secret};
use forebay_core::{EndpointState, Time};
use forebay_metrics::Probe as ProbeLabel;
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::judge::{Judge, Traffic, Verdict};
use crate::membership::Membership;
use crate::probe::{Probe, ProbeFailure};
use crate::schedule::Schedule;
use crate::scrape::{Look, Scrapers};

/// Where the data plane reports what real requests say of one endpoint.
/// Cloning is cheap; reporting takes no lock.
#[derive(Clone, Debug)]
pub struct Evidence {
    shared: Arc<Shared>,
}

#[derive(Debug)]
pub(crate) struct Shared {
    origin: Instant,
    /// Nanoseconds since the origin, plus one; 0 for never.
    succeeded: AtomicU64,
    refused: AtomicU64,
    suspected: Notify,
    state: Mutex<EndpointState>,
}

impl Evidence {
    pub(crate) fn new(origin: Instant) -> Evidence {
        Evidence {
            shared: Arc::new(Shared {
                origin,
                succeeded: AtomicU64::new(0),
                refused: AtomicU64::new(0),
                suspected: Notify::new(),
                state: Mutex::new(EndpointState::Starting),
            }),
        }
    }

    /// The endpoint answered a real request well. Worth reporting with the
    /// first event of a stream and with its end: a long generation shows
    /// meanwhile that the engine lives.
    pub fn succeeded(&self) {
        self.shared.succeeded.store(self.shared.stamp(), Relaxed);
    }

    /// A connection to the endpoint could not be made: it is probed at once.
    pub fn connect_failed(&self) {
        self.shared.refused.store(self.shared.stamp(), Relaxed);
        self.shared.suspected.notify_one();
    }

    /// The state that the probes have found.
    pub fn state(&self) -> EndpointState {
        *self.shared.state.lock()
    }

    /// Nothing is known of the endpoint any more.
    pub(crate) fn forget(&self) {
        *self.shared.state.lock() = EndpointState::Starting;
    }
}

impl Shared {
    fn now(&self) -> Time {
        Time::ZERO + self.origin.elapsed()
    }

    fn stamp(&self) -> u64 {
        self.now().as_nanos().saturating_add(1)
    }

    fn traffic(&self) -> Traffic {
        let read = |cell: &AtomicU64| cell.load(Relaxed).checked_sub(1).map(Time::from_nanos);
        Traffic { succeeded: read(&self.succeeded), refused: read(&self.refused) }
    }

    async fn sleep_until(&self, at: Time) {
        match self.origin.checked_add(at.since(Time::ZERO)) {
            Some(at) => tokio::time::sleep_until(at).await,
            None => std::future::pending().await,
        }
    }
}

/// After so many looks at the list of models, each beside a probe that succeeds,
/// an endpoint is taken as it is.
const LOOKS: u32 = 3;

/// What one loop needs besides its endpoint's evidence.
pub(crate) struct Watch<M: Membership, P> {
    pub(crate) id: M::Id,
    /// Base and path of the probe together.
    pub(crate) url: String,
    /// What the engine wants to be shown.
    pub(crate) key: Option<Secret>,
    pub(crate) health: Health,
    pub(crate) schedule: Schedule,
    /// Its place among those that were added together.
    pub(crate) place: u32,
    /// The owner may know it as ready, from another address or another time.
    pub(crate) anew: bool,
    /// It is left in peace.
    pub(crate) paused: bool,
    pub(crate) evidence: Evidence,
    pub(crate) membership: Arc<M>,
    pub(crate) probe: Arc<P>,
    pub(crate) scrapers: Arc<Scrapers<M>>,
}

impl<M: Membership, P: Probe> Watch<M, P> {
    /// Probes for ever; ends by being dropped.
    pub(crate) async fn run(self) {
        let shared = &self.evidence.shared;
        if self.anew {
            self.membership.set_state(self.id, EndpointState::Starting);
        }
        if self.paused {
            return;
        }
        if !self.health.enabled {
            self.change(EndpointState::Ready, "it is not probed");
            return;
        }
        let health = &self.health;
        let state = self.evidence.state();
        let mut judge = Judge::new(state, health.interval, health.fall, health.rise);
        let mut looks = 0;
        shared.sleep_until(self.schedule.first(shared.now(), self.place)).await;
        loop {
            let started = shared.now();
            let result = self.probe.probe(&self.url, self.key.as_ref(), health.timeout).await;
            let ended = shared.now();
            let (verdict, label, reason) = match &result {
                Ok(()) => (Verdict::Good, ProbeLabel::Ok, "its probe succeeded"),
                Err(ProbeFailure::NoConnection(why)) => (Verdict::Refused, ProbeLabel::Failed, why.as_str()),
                Err(ProbeFailure::Unhealthy(why)) => (Verdict::Bad, ProbeLabel::Failed, why.as_str()),
            };
            self.membership.probed(self.id, label);
            let before = judge;
            match judge.probed(verdict, started, ended, shared.traffic()) {
                Some(EndpointState::Ready) if !self.is_known(started, looks + 1 >= LOOKS).await => {
                    tracing::debug!(url = %self.url, "its models cannot be read yet");
                    judge = before;
                    looks += 1;
                    shared.suspected.notify_one();
                }
                Some(state) => {
                    looks = 0;
                    self.change(state, reason);
                }
                None if verdict != Verdict::Good => {
                    looks = 0;
                    tracing::debug!(url = %self.url, reason, "a probe failed");
                }
                None => {}
            }
            self.pause(ended).await;
        }
    }

    /// Waits until it has been told who answers there. False when that could
    /// not be found out this time.
    async fn is_known(&self, since: Time, last: bool) -> bool {
        let look = async {
            loop {
                match self.scrapers.look(self.id, since, last).await {
                    Look::Over => tokio::task::yield_now().await,
                    look => break look,
                }
            }
        };
        match tokio::time::timeout(self.health.timeout, look).await {
            Ok(look) => look != Look::Failed,
            Err(_) => last,
        }
    }

    /// Waits for the next turn, or for traffic to ask for one.
    async fn pause(&self, ended: Time) {
        let shared = &self.evidence.shared;
        shared.sleep_until(ended + self.schedule.min_gap()).await;
        tokio::select! {
            () = shared.sleep_until(self.schedule.next(ended)) => {}
            () = shared.suspected.notified() => {}
        }
    }

    fn change(&self, state: EndpointState, reason: &str) {
        let before = std::mem::replace(&mut *self.evidence.shared.state.lock(), state);
        if before == state {
            return;
        }
        self.membership.set_state(self.id, state);
        if state == EndpointState::Ready {
            self.scrapers.became_ready(self.id);
        }
        let (from, to) = (before.as_str(), state.as_str());
        if state == EndpointState::Unready {
            tracing::warn!(url = %self.url, from, to, reason, "endpoint changed state");
        } else {
            tracing::info!(url = %self.url, from, to, reason, "endpoint changed state");
        }
    }
}

/// Keeps a time limit within what a timer can hold.
pub(crate) fn bounded(limit: Duration) -> Duration {
    limit.clamp(Duration::from_millis(1), Duration::from_secs(24 * 3600))
}
