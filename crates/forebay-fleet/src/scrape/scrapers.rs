//! All endpoints that are read.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use forebay_core::{EndpointState, Time};
use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::task::AbortHandle;
use tokio::time::Instant;

use super::ScrapeTarget;
use super::fetch::Pages;
use super::follow::Follow;
use super::lanes::Lanes;
use super::nudge::{Look, Nudge, Question};
use super::past::Past;
use crate::membership::Membership;
use crate::watch::{Evidence, bounded};

/// How soon an idle endpoint that gets work is read again.
const PULSE: Duration = Duration::from_millis(100);

/// Endpoints that are not read any more and whose past is kept, should they
/// come back.
const MAX_FORMER: usize = 4096;

/// What every loop uses.
pub(crate) struct Shared<M: Membership> {
    pub(crate) membership: Arc<M>,
    pub(crate) pages: Pages,
    pub(crate) lanes: Lanes,
    pub(crate) seed: u64,
    /// Of those that are probed.
    evidence: Mutex<BTreeMap<M::Id, Evidence>>,
    origin: Instant,
}

impl<M: Membership> Shared<M> {
    pub(crate) fn now(&self) -> Time {
        Time::ZERO + self.origin.elapsed()
    }

    /// Nobody listens at the endpoint, so it seems: it is probed at once.
    pub(crate) fn suspect(&self, id: M::Id) {
        if let Some(evidence) = self.evidence.lock().get(&id)
            && evidence.state() == EndpointState::Ready
        {
            evidence.connect_failed();
        }
    }

    pub(crate) async fn sleep_until(&self, at: Time) {
        match self.origin.checked_add(at.since(Time::ZERO)) {
            Some(at) => tokio::time::sleep_until(at).await,
            None => std::future::pending().await,
        }
    }
}

/// The endpoints that are read, and how to reach their loops.
pub(crate) struct Scrapers<M: Membership> {
    shared: Arc<Shared<M>>,
    handle: Handle,
    running: Mutex<Running<M::Id>>,
    /// The same loops for the pulse, which must not wait for a change of targets.
    nudges: Arc<Mutex<Nudges<M::Id>>>,
}

type Nudges<Id> = Arc<[(Id, Arc<Nudge>)]>;

struct Running<Id> {
    loops: BTreeMap<Id, Scraper<Id>>,
    /// What those were that are not read any more.
    former: BTreeMap<Id, Former<Id>>,
    /// How many loops have been started, for the phases.
    started: u64,
    pulse: Option<AbortHandle>,
}

struct Scraper<Id> {
    target: ScrapeTarget<Id>,
    nudge: Arc<Nudge>,
    past: Arc<Mutex<Past>>,
    task: AbortHandle,
}

struct Former<Id> {
    target: ScrapeTarget<Id>,
    past: Arc<Mutex<Past>>,
}

impl<Id> Scraper<Id> {
    /// Its loop ends.
    fn end(self) -> Former<Id> {
        self.task.abort();
        self.nudge.end();
        Former { target: self.target, past: self.past }
    }
}

impl<M: Membership> Scrapers<M> {
    pub(crate) fn new(membership: Arc<M>, handle: Handle, origin: Instant, seed: u64) -> Scrapers<M> {
        let (pages, lanes) = (Pages::new(), Lanes::new());
        Scrapers {
            shared: Arc::new(Shared { membership, pages, lanes, seed, evidence: Mutex::default(), origin }),
            handle,
            running: Mutex::new(Running {
                loops: BTreeMap::new(),
                former: BTreeMap::new(),
                started: 0,
                pulse: None,
            }),
            nudges: Arc::new(Mutex::new(Arc::from([]))),
        }
    }

    /// Reads exactly `targets` from now on.
    pub(crate) fn set(&self, targets: Vec<ScrapeTarget<M::Id>>) {
        let running = &mut *self.running.lock();
        let wanted: BTreeMap<M::Id, ScrapeTarget<M::Id>> = targets.into_iter().map(|t| (t.id, t)).collect();
        let gone = running.loops.extract_if(.., |id, _| !wanted.contains_key(id));
        running.former.extend(gone.map(|(id, scraper)| (id, scraper.end())));
        let mut place = 0;
        for (id, target) in wanted {
            let before = running.loops.remove(&id);
            let scraper = match before {
                Some(scraper) if scraper.target == target => scraper,
                before => {
                    let ordinal = running.started;
                    running.started += 1;
                    place += 1;
                    let former = before.map(Scraper::end).or_else(|| running.former.remove(&id));
                    self.follow(target, former, ordinal, place - 1)
                }
            };
            running.loops.insert(id, scraper);
        }
        while running.former.len() > MAX_FORMER {
            running.former.pop_first();
        }
        let nudges = running.loops.iter().map(|(id, scraper)| (*id, Arc::clone(&scraper.nudge)));
        *self.nudges.lock() = nudges.collect();
        if running.pulse.is_none() && !running.loops.is_empty() {
            let pulse = pulse(Arc::clone(&self.shared), Arc::clone(&self.nudges));
            running.pulse = Some(self.handle.spawn(pulse).abort_handle());
        }
    }

    fn follow(
        &self,
        target: ScrapeTarget<M::Id>,
        before: Option<Former<M::Id>>,
        ordinal: u64,
        place: u32,
    ) -> Scraper<M::Id> {
        let past = match before {
            // Other settings for the same server: what it was still counts.
            Some(old) if old.target.url == target.url && old.target.dialect == target.dialect => {
                old.past.lock().expect_anew();
                old.past
            }
            _ => Arc::default(),
        };
        let nudge = Arc::new(Nudge::default());
        let mut kept = target.clone();
        kept.interval_min = bounded(kept.interval_min);
        kept.interval_max = bounded(kept.interval_max);
        kept.slow_interval = bounded(kept.slow_interval);
        kept.timeout = bounded(kept.timeout);
        let follow = Follow {
            target: kept,
            shared: Arc::clone(&self.shared),
            nudge: Arc::clone(&nudge),
            past: Arc::clone(&past),
            ordinal,
            place,
        };
        let task = self.handle.spawn(follow.run()).abort_handle();
        Scraper { target, nudge, past, task }
    }

    /// The endpoint's models are read as soon as may be.
    pub(crate) fn ask_models(&self, id: M::Id) {
        if let Some(scraper) = self.running.lock().loops.get(&id) {
            scraper.nudge.ask_models();
        }
    }

    /// The endpoint's own answers say that it does not have the expected model.
    pub(crate) fn deny(&self, id: M::Id) {
        if let Some(scraper) = self.running.lock().loops.get(&id) {
            scraper.nudge.deny();
        }
    }

    /// Waits until it is known who answers at the endpoint: by a look that begins
    /// after `since`. With `last`, an endpoint whose list does not come is taken
    /// as it is. Of an endpoint that is not read nobody knows more.
    pub(crate) async fn look(&self, id: M::Id, since: Time, last: bool) -> Look {
        let nudge = self.running.lock().loops.get(&id).map(|scraper| Arc::clone(&scraper.nudge));
        match nudge {
            Some(nudge) => nudge.look(Question { since, last }).await,
            None => Look::Unlisted,
        }
    }

    /// The endpoint has become ready: its load is read at once.
    pub(crate) fn became_ready(&self, id: M::Id) {
        if let Some(scraper) = self.running.lock().loops.get(&id) {
            scraper.nudge.ask_load();
        }
    }

    /// Which endpoints are probed, and where to say that something is amiss.
    pub(crate) fn set_evidence(&self, evidence: BTreeMap<M::Id, Evidence>) {
        *self.shared.evidence.lock() = evidence;
    }
}

/// Wakes the loops of idle endpoints that have got work.
async fn pulse<M: Membership>(shared: Arc<Shared<M>>, nudges: Arc<Mutex<Nudges<M::Id>>>) {
    loop {
        tokio::time::sleep(PULSE).await;
        let nudges = Arc::clone(&nudges.lock());
        for (id, nudge) in nudges.iter() {
            if nudge.is_resting() && shared.membership.in_flight(*id) > 0 {
                nudge.ask_load();
            }
        }
    }
}
