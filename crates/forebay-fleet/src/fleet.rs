//! The set of endpoints being watched, and the thread that does it.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::thread::JoinHandle;

use forebay_config::{Health, Secret};
use parking_lot::Mutex;
use tokio::runtime::{self, Handle};
use tokio::sync::oneshot;
use tokio::task::AbortHandle;
use tokio::time::Instant;

use crate::membership::Membership;
use crate::probe::{HttpProbe, Probe};
use crate::schedule::Schedule;
use crate::scrape::{ScrapeTarget, Scrapers};
use crate::warm_up::WarmUps;
use crate::watch::{Evidence, Watch, bounded};

/// One endpoint to watch.
#[derive(Clone, Debug, PartialEq)]
pub struct Target<Id> {
    /// How the owner names it.
    pub id: Id,
    /// Where it is: scheme, host and port, perhaps a path that every request has in front.
    pub url: String,
    /// How it is probed.
    pub health: Health,
    /// What the engine wants to be shown by whoever asks.
    pub key: Option<Secret>,
    /// Left in peace: not probed, and [`Starting`](forebay_core::EndpointState::Starting)
    /// until it is looked at again.
    pub paused: bool,
}

/// Watches endpoints until it is dropped.
pub struct Fleet<M: Membership, P: Probe = HttpProbe> {
    membership: Arc<M>,
    probe: Arc<P>,
    scrapers: Arc<Scrapers<M>>,
    warm_ups: Arc<WarmUps<M>>,
    seed: u64,
    origin: Instant,
    watched: Mutex<Watched<M::Id>>,
    handle: Handle,
    thread: Option<(oneshot::Sender<()>, JoinHandle<()>)>,
}

struct Watched<Id> {
    endpoints: BTreeMap<Id, Running<Id>>,
    /// How many loops have been started, for the phases.
    started: u64,
}

struct Running<Id> {
    target: Target<Id>,
    evidence: Evidence,
    task: AbortHandle,
}

impl<M: Membership, P: Probe> Fleet<M, P> {
    /// Starts the fleet's thread, with nothing to watch yet. `seed` spreads
    /// the probes of several processes.
    ///
    /// # Errors
    /// The system gives no thread or no event queue.
    pub fn start(membership: Arc<M>, probe: P, seed: u64) -> io::Result<Fleet<M, P>> {
        let runtime = runtime::Builder::new_current_thread().enable_all().build()?;
        let handle = runtime.handle().clone();
        let (stop, stopped) = oneshot::channel::<()>();
        let thread = std::thread::Builder::new().name("fleet".to_owned()).spawn(move || {
            // An error says that the fleet is gone, which is the same.
            let _ = runtime.block_on(stopped);
            // A name look-up may hang for long; nobody waits for it any more.
            runtime.shutdown_background();
        })?;
        let origin = Instant::now();
        let scrapers = Scrapers::new(Arc::clone(&membership), handle.clone(), origin, seed);
        let warm_ups = WarmUps::new(Arc::clone(&membership), handle.clone());
        Ok(Fleet {
            membership,
            probe: Arc::new(probe),
            scrapers: Arc::new(scrapers),
            warm_ups: Arc::new(warm_ups),
            seed,
            origin,
            watched: Mutex::new(Watched { endpoints: BTreeMap::new(), started: 0 }),
            handle,
            thread: Some((stop, thread)),
        })
    }

    /// Watches exactly `targets` from now on; of several with one id the last counts.
    ///
    /// An endpoint that stays keeps its state and its evidence, also when its
    /// settings changed, unless it was or is [paused](Target::paused). A new one is [`Starting`](forebay_core::EndpointState::Starting) and is
    /// probed at once. Of one that is gone nothing is reported any more,
    /// except what is just being reported on the fleet's thread.
    pub fn set_targets(&self, targets: Vec<Target<M::Id>>) {
        let mut watched = self.watched.lock();
        let wanted: BTreeMap<M::Id, Target<M::Id>> = targets.into_iter().map(|t| (t.id, t)).collect();
        watched.endpoints.retain(|id, running| {
            let stays = wanted.contains_key(id);
            if !stays {
                running.task.abort();
            }
            stays
        });
        let mut place = 0;
        for (id, target) in wanted {
            let before = watched.endpoints.remove(&id);
            let running = match before {
                Some(running) if running.target == target => running,
                before => {
                    let ordinal = watched.started;
                    watched.started += 1;
                    place += 1;
                    self.watch(target, before, ordinal, place - 1)
                }
            };
            watched.endpoints.insert(id, running);
        }
        let evidence = watched.endpoints.iter().map(|(id, running)| (*id, running.evidence.clone()));
        self.scrapers.set_evidence(evidence.collect());
    }

    fn watch(
        &self,
        target: Target<M::Id>,
        before: Option<Running<M::Id>>,
        ordinal: u64,
        place: u32,
    ) -> Running<M::Id> {
        if let Some(old) = &before {
            old.task.abort();
        }
        let moved = before.as_ref().is_some_and(|old| old.target.url != target.url);
        // While nobody looked, anything may have come there.
        let unseen = target.paused || before.as_ref().is_some_and(|old| old.target.paused);
        let evidence = match before {
            Some(old) if !moved => old.evidence,
            // Another address under the same name is another server.
            _ => Evidence::new(self.origin),
        };
        if unseen {
            evidence.forget();
        }
        let mut health = target.health.clone();
        health.interval = bounded(health.interval);
        health.timeout = bounded(health.timeout);
        let watch = Watch {
            id: target.id,
            url: format!("{}{}", target.url.trim_end_matches('/'), health.path),
            schedule: Schedule::new(health.interval, ordinal, self.seed),
            key: target.key.clone(),
            health,
            place,
            anew: moved || unseen,
            paused: target.paused,
            evidence: evidence.clone(),
            membership: Arc::clone(&self.membership),
            probe: Arc::clone(&self.probe),
            scrapers: Arc::clone(&self.scrapers),
        };
        let task = self.handle.spawn(watch.run()).abort_handle();
        Running { target, evidence, task }
    }

    /// Reads the signals of exactly `targets` from now on; of several with one
    /// id the last counts. Their ids are those of [`Fleet::set_targets`]: an
    /// endpoint that becomes ready is read at once.
    ///
    /// An endpoint that stays as it is goes on as it is. One with other
    /// settings starts anew, except that its restarts are still seen; its
    /// identity is told again. Of one that is gone nothing is told any more,
    /// except what is just being told on the fleet's thread.
    pub fn set_scrape_targets(&self, targets: Vec<ScrapeTarget<M::Id>>) {
        self.scrapers.set(targets);
    }

    /// Asks for the endpoint's models as soon as may be, as when it answers
    /// that it does not know one. Cheap, and does nothing for an endpoint that
    /// is not read; asked often, the endpoint is asked once a second.
    pub fn refresh_models(&self, id: M::Id) {
        self.scrapers.ask_models(id);
    }

    /// The endpoint answers a request for its expected model that it does not
    /// have that model. Until its list says that it has, nothing is to be sent
    /// there ([`Identity::Doubtful`](crate::Identity::Doubtful)); without a list
    /// it is believed for a minute at a time.
    pub fn model_denied(&self, id: M::Id) {
        self.scrapers.deny(id);
    }

    /// Who warms endpoints up, on the fleet's thread.
    pub fn warm_ups(&self) -> &Arc<WarmUps<M>> {
        &self.warm_ups
    }

    /// Where real traffic reports on this endpoint; none when it is not watched.
    pub fn evidence(&self, id: M::Id) -> Option<Evidence> {
        self.watched.lock().endpoints.get(&id).map(|running| running.evidence.clone())
    }
}

impl<M: Membership, P: Probe> Drop for Fleet<M, P> {
    fn drop(&mut self) {
        if let Some((stop, thread)) = self.thread.take() {
            let _ = stop.send(());
            // It has nothing to wait for. A panic there was logged there.
            let _ = thread.join();
        }
    }
}
