//! The loop that reads one endpoint.

use std::sync::Arc;
use std::time::Duration;

use forebay_core::Time;
use forebay_wire::signals::Signals;
use parking_lot::Mutex;
use tokio::time::Instant;

use super::ScrapeTarget;
use super::ask::{Asker, is_busy};
use super::counters::Counters;
use super::detect::find;
use super::engine::Engine;
use super::failure::ScrapeFailure;
use super::gpu::{self, Gpus};
use super::nudge::Nudge;
use super::pace::Pace;
use super::past::{Found, Past, Verdict};
use super::scrapers::Shared;
use super::verify::Denial;
use crate::membership::{Identity, Membership};
use crate::schedule::Schedule;

/// An engine that tells no load is looked at again after this: its pages may
/// come up later than its API.
const LOOK_AGAIN: Duration = Duration::from_secs(60);

/// After so many failures in a row another engine may be there.
const LOST_AFTER: u32 = 2;

/// Single failures are not logged.
const LOGGED_AFTER: u32 = 3;

/// What one loop is given.
pub(crate) struct Follow<M: Membership> {
    pub(crate) target: ScrapeTarget<M::Id>,
    pub(crate) shared: Arc<Shared<M>>,
    pub(crate) nudge: Arc<Nudge>,
    pub(crate) past: Arc<Mutex<Past>>,
    pub(crate) ordinal: u64,
    /// Its place among those that were added together.
    pub(crate) place: u32,
}

/// When each thing is to be asked next.
pub(super) struct Due {
    pub(super) load: Time,
    pub(super) models: Time,
    /// Which engine it is.
    look: Time,
}

/// One loop as it goes.
pub(super) struct Loop<M: Membership> {
    pub(super) given: Arc<Follow<M>>,
    pub(super) pace: Pace,
    pub(super) slow: Schedule,
    pub(super) due: Due,
    pub(super) engine: Option<Engine>,
    /// The metrics page, where it is beside a load feed of its own.
    pub(super) counters: Counters,
    pub(super) gpus: Arc<Gpus>,
    pub(super) models_asked: Option<Time>,
    /// When the last look at its models began that came to a list.
    pub(super) looked: Option<Time>,
    /// When it was last looked at which engine answers.
    pub(super) found: Option<Time>,
    /// What the labels of the last page said of the expected model.
    pub(super) labels_say: Option<bool>,
    pub(super) denial: Denial,
    pub(super) models_failed: u32,
    /// The endpoint answers, but not with its models.
    pub(super) unlisted: bool,
    /// Nobody answered when the load was asked for: nothing else is tried.
    unreachable: bool,
    logged: bool,
}

impl<M: Membership> Follow<M> {
    /// Reads for ever; ends by being dropped.
    pub(crate) async fn run(self) {
        let given = Arc::new(self);
        let gpus = Arc::new(Gpus::default());
        let mut state = Loop::new(Arc::clone(&given), Arc::clone(&gpus));
        tokio::join!(gpus.follow(&given), state.run());
    }
}

impl<M: Membership> Loop<M> {
    fn new(given: Arc<Follow<M>>, gpus: Arc<Gpus>) -> Loop<M> {
        let (target, seed) = (&given.target, given.shared.seed);
        let pace = Pace::new(target.interval_min, target.interval_max, given.ordinal, seed);
        let first = pace.first(given.shared.now(), given.place);
        Loop {
            slow: Schedule::new(target.slow_interval, given.ordinal, seed),
            due: Due { load: first, models: first, look: Time::MAX },
            given,
            pace,
            engine: None,
            counters: Counters::default(),
            gpus,
            models_asked: None,
            looked: None,
            found: None,
            labels_say: None,
            denial: Denial::default(),
            models_failed: 0,
            unlisted: false,
            unreachable: false,
            logged: false,
        }
    }

    async fn run(&mut self) {
        let shared = Arc::clone(&self.given.shared);
        loop {
            self.wait().await;
            // Somebody waits for whoever is asked who they are, and they answered just now.
            let slow_lane = self.pace.is_failing() && self.given.nudge.question().is_none();
            let _place = shared.lanes.enter(slow_lane).await;
            self.turn().await;
        }
    }

    pub(super) fn id(&self) -> M::Id {
        self.given.target.id
    }

    pub(super) fn now(&self) -> Time {
        self.given.shared.now()
    }

    pub(super) fn membership(&self) -> &M {
        &self.given.shared.membership
    }

    pub(super) fn asker(&self) -> Asker<'_, M> {
        let target = &self.given.target;
        Asker { shared: &self.given.shared, id: target.id, limit: target.timeout }
    }

    /// Whether there is anything to ask for the load.
    fn tells_load(&self) -> bool {
        self.engine.as_ref().is_none_or(Engine::tells_load)
    }

    fn next(&self) -> Time {
        let Due { load, models, look } = self.due;
        let models = if self.unreachable && !self.is_in_doubt() { Time::MAX } else { models };
        if self.engine.is_none() {
            load
        } else if self.unreachable {
            load.min(models)
        } else {
            load.min(models).min(look)
        }
    }

    /// Waits until something is due.
    async fn wait(&mut self) {
        loop {
            let now = self.now();
            if self.given.nudge.question().is_some() {
                return;
            }
            if self.given.nudge.take_load() {
                self.due.load = now;
            }
            if self.given.nudge.take_denied() {
                self.take_denial();
            }
            if self.given.nudge.take_models() {
                // Whoever asks with each of a thousand answers gets it once.
                let gap = self.given.target.slow_interval.min(Duration::from_secs(10)) / 10;
                let soonest = self.models_asked.map_or(now, |asked| asked + gap);
                self.due.models = self.due.models.min(soonest);
            }
            let next = self.next();
            if next <= now {
                return;
            }
            self.given.nudge.rest(self.tells_load() && self.pace.is_resting());
            tokio::select! {
                () = self.given.shared.sleep_until(next) => {}
                () = self.given.nudge.asked() => {}
                page = self.counters.read() => {
                    self.given.nudge.rest(false);
                    self.take_counters(page).await;
                }
            }
            self.given.nudge.rest(false);
        }
    }

    /// Asks what is due.
    async fn turn(&mut self) {
        self.answer().await;
        let now = self.now();
        if self.engine.is_none() || (self.due.look <= now && !self.unreachable) {
            if self.engine.is_none() && self.due.load > now {
                return;
            }
            if let Err(failure) = self.look().await {
                self.due.look = self.now() + LOOK_AGAIN;
                if self.engine.is_none() {
                    self.failed(failure);
                    return;
                }
            }
        }
        if !self.tells_load() {
            self.due.load = Time::MAX;
        }
        // First who it is and then how much it has to do.
        let reachable = !(self.unreachable && self.due.load > now) || self.is_in_doubt();
        if self.due.models <= self.now() && reachable {
            self.find_out().await;
        }
        // Asked meanwhile, and not to wait for the load.
        self.answer().await;
        if self.due.load <= now {
            self.read_load().await;
        }
    }

    /// Finds out which engine answers, or takes what is set.
    pub(super) async fn look(&mut self) -> Result<(), ScrapeFailure> {
        let began = self.now();
        let target = &self.given.target;
        let found = match target.dialect {
            Some(dialect) => dialect.into(),
            None => find(target, &self.asker()).await?,
        };
        let dialect = found.dialect;
        let engine = Engine::new(target, found)?;
        let (tells_load, is_open) = (engine.tells_load(), target.dialect.is_none());
        let news = self.given.past.lock().found(dialect);
        self.engine = Some(engine);
        self.found = Some(began);
        self.counters.forget();
        self.unreachable = false;
        if news != Found::Same && is_open {
            let url = &self.given.target.url;
            tracing::info!(%url, engine = dialect.as_str(), "found out which engine answers");
            if news == Found::Another {
                self.doubt();
                self.restarted("another engine answers");
            }
            self.membership().detected(self.id(), dialect);
        }
        let now = self.now();
        self.due.look = if is_open && !tells_load { now + LOOK_AGAIN } else { Time::MAX };
        if tells_load {
            self.due.load = self.due.load.min(now);
        } else {
            // Its models are all there is to read, and show that it is back.
            self.due.models = now;
        }
        if self.is_in_doubt() {
            self.due.models = now;
        }
        Ok(())
    }

    /// Takes in that the load was told, and when to ask again.
    pub(super) fn told(&mut self, at: Instant, signals: &Signals) {
        let busy = is_busy(signals) || self.membership().in_flight(self.id()) > 0;
        if busy {
            self.pace.busy()
        } else {
            self.pace.idle()
        }
        self.unreachable = false;
        self.due.load = self.pace.next(self.now());
        self.recovered();
        self.membership().signals(self.id(), at, signals);
    }

    /// Takes in that the models were told, where they are all there is.
    pub(super) fn told_models(&mut self) {
        if self.tells_load() {
            return;
        }
        self.pace.idle();
        self.recovered();
        // Nothing else will bring them.
        if let Some((at, exported)) = self.gpus.now(&self.given) {
            let mut signals = Signals::default();
            gpu::add(&mut signals, exported);
            self.membership().signals(self.id(), at, &signals);
        }
    }

    fn recovered(&mut self) {
        if std::mem::take(&mut self.logged) {
            tracing::info!(url = %self.given.target.url, "the endpoint tells of itself again");
        }
    }

    /// Takes in that the load could not be read, and when to try again.
    pub(super) fn failed(&mut self, failure: ScrapeFailure) {
        let times = self.pace.failed();
        let here = self.engine.as_ref().is_none_or(|engine| engine.metrics_here);
        self.unreachable = here && !failure.answered();
        if here && failure == ScrapeFailure::Connect {
            self.given.shared.suspect(self.id());
        }
        self.due.load = self.pace.next(self.now());
        let target = &self.given.target;
        if times == LOGGED_AFTER {
            self.logged = true;
            tracing::warn!(url = %target.url, reason = %failure, "the endpoint does not tell of itself");
        }
        if times >= LOST_AFTER && target.dialect.is_none() {
            self.engine = None;
        }
        self.membership().scrape_failed(self.id(), failure.label());
    }

    /// The list of models is all that such an engine tells, and that failed.
    pub(super) fn lost_without_load(&mut self) {
        if self.given.target.dialect.is_none() && !self.tells_load() && self.models_failed >= LOST_AFTER {
            self.engine = None;
            self.pace.failed();
            self.due.load = self.pace.next(self.now());
        }
    }

    pub(super) fn restarted(&mut self, why: &'static str) {
        let target = &self.given.target;
        tracing::info!(url = %target.url, reason = why, "the engine began anew");
        self.counters.forget();
        if target.dialect.is_none() {
            self.due.look = self.now();
        }
        self.membership().restarted(self.id());
    }

    pub(super) fn judged(&self, verdict: &Verdict) {
        let (url, expected) = (&self.given.target.url, self.given.target.model.as_deref());
        let identity = match verdict {
            Verdict::Doubt => {
                tracing::info!(%url, "something else may answer there: it gets no requests until that is known");
                Identity::Doubtful
            }
            Verdict::Matches => {
                tracing::info!(%url, model = expected, "the endpoint serves its model");
                Identity::Matches
            }
            Verdict::Unlisted => {
                tracing::info!(%url, model = expected, "the endpoint lists no models: it is taken to serve its own");
                Identity::Unlisted
            }
            Verdict::Mismatch(found) => {
                tracing::warn!(%url, expected, found, "the endpoint serves another model");
                Identity::Mismatch { found }
            }
        };
        self.membership().identity(self.id(), identity);
    }
}
