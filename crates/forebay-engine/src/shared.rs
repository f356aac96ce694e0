//! The engine behind its connections, and who waits for which tokens.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use forebay_core::Time;
use forebay_sim::engine::Profile;
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use crate::clock::unix_seconds;
use crate::dialect::MetricsDialect;
use crate::error::ApiError;
use crate::fault::{Away, Fault, FaultKind, RequestFault};
use crate::kv::{KvMessage, KvSettings};
use crate::options::EngineOptions;
use crate::other_pages;
use crate::page::Page;
use crate::state::{Job, JobId, State};

/// Something that happened to one answer of a request.
#[derive(Clone, Copy, Debug)]
pub(crate) enum SeqEvent {
    /// Left the queue, with this many prompt tokens cached.
    Started(u32),
    Token,
    Finished,
    /// Given up by the engine.
    Aborted,
    /// The engine is gone.
    Dead,
}

/// The events of one request, each with the index of its answer.
pub(crate) type SeqEvents = UnboundedReceiver<(u32, SeqEvent)>;

/// How an engine stops, apart from being told to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Death {
    /// Everything closes at once.
    Crash,
    /// Answers in flight get an error first.
    EngineDead,
}

pub(crate) struct Shared {
    pub(crate) options: EngineOptions,
    pub(crate) profile: Profile,
    /// How KV events are published, if they are.
    pub(crate) kv: Option<KvSettings>,
    /// Most tokens of prompt and answer together.
    pub(crate) max_model_len: u32,
    /// Where KV events go.
    kv_out: Option<UnboundedSender<KvMessage>>,
    state: Mutex<State>,
    numbers: AtomicU64,
    jobs: AtomicU64,
    /// Connections that close now do so with a reset.
    pub(crate) severed: AtomicBool,
    /// Wakes the driver when there is something new to do.
    wake: Notify,
    /// Wakes the server when the engine dies.
    pub(crate) died: Notify,
}

/// A request being answered.
pub(crate) struct InFlight {
    shared: Arc<Shared>,
}

impl Drop for InFlight {
    fn drop(&mut self) {
        let mut state = self.shared.state.lock();
        state.in_flight = state.in_flight.saturating_sub(1);
    }
}

/// Totals and gauges of an engine.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct EngineStats {
    /// Inference requests that came in, refused ones included.
    pub requests: u64,
    /// Requests now being answered, waiting ones included.
    pub in_flight: u32,
    /// Sequences that wait for their adapter to be loaded.
    pub deferred: u32,
    /// The model's own gauges and totals.
    pub load: forebay_sim::engine::EngineLoad,
}

impl Shared {
    /// With `kv`, block changes go out as events.
    pub(crate) fn new(
        options: EngineOptions,
        kv: Option<(KvSettings, UnboundedSender<KvMessage>)>,
    ) -> Shared {
        let profile = options.effective_profile();
        let capacity = profile.blocks().saturating_mul(profile.block_size);
        let (kv, kv_out) = kv.unzip();
        Shared {
            max_model_len: options.max_model_len.min(capacity),
            state: Mutex::new(State::new(&options, profile, kv_out.clone())),
            profile,
            kv,
            kv_out,
            options,
            numbers: AtomicU64::new(0),
            jobs: AtomicU64::new(0),
            severed: AtomicBool::new(false),
            wake: Notify::new(),
            died: Notify::new(),
        }
    }

    /// Starts again as a new process would, with nothing in its cache.
    pub(crate) fn start_again(&self) {
        *self.state.lock() = State::new(&self.options, self.profile, self.kv_out.clone());
        self.wake.notify_one();
    }

    /// A number that no other request of this engine has.
    pub(crate) fn next_number(&self) -> u64 {
        self.numbers.fetch_add(1, Ordering::Relaxed)
    }

    /// Hands tokens out as their time comes, until the runtime drops it. One
    /// timer serves every stream.
    pub(crate) async fn drive(&self) {
        loop {
            let next = self.state.lock().tick();
            match next {
                Some(at) => {
                    tokio::select! {
                        () = tokio::time::sleep_until(at) => {}
                        () = self.wake.notified() => {}
                    }
                }
                None => self.wake.notified().await,
            }
        }
    }

    /// Counts an inference request, and it as in flight until the guard is gone.
    pub(crate) fn arrive(self: &Arc<Self>) -> InFlight {
        let mut state = self.state.lock();
        state.requests += 1;
        state.in_flight += 1;
        InFlight { shared: Arc::clone(self) }
    }

    /// Draws the fault of an inference request; `Err` is its answer.
    pub(crate) fn draw_fault(&self) -> Result<Option<RequestFault>, (ApiError, Option<u32>)> {
        self.state.lock().fault.strike()
    }

    /// Puts the sequences of one request into the queue. Events come with the
    /// index of the job.
    pub(crate) fn submit(&self, jobs: Vec<Job>) -> Result<(Vec<JobId>, SeqEvents), ApiError> {
        let mut state = self.state.lock();
        if state.death.is_some() || state.draining {
            return Err(ApiError::engine_dead());
        }
        let waiting = state.model.load().waiting + state.deferred();
        if self.options.max_queued.is_some_and(|most| waiting >= most) {
            state.metrics.rejected += 1;
            return Err(ApiError::busy());
        }
        let (tx, rx) = unbounded_channel();
        let mut ids = Vec::with_capacity(jobs.len());
        for (choice, job) in (0..).zip(jobs) {
            let id = self.jobs.fetch_add(1, Ordering::Relaxed);
            if let Err(error) = state.take(id, job, (tx.clone(), choice)) {
                state.cancel(&ids);
                return Err(ApiError::bad_request(error.to_string(), None));
            }
            ids.push(id);
        }
        self.wake.notify_one();
        Ok((ids, rx))
    }

    /// Stops generating what is not finished of these.
    pub(crate) fn cancel(&self, ids: &[JobId]) {
        self.state.lock().cancel(ids);
        self.wake.notify_one();
    }

    pub(crate) fn set_fault(&self, fault: Fault) {
        let mut state = self.state.lock();
        // What has happened by now comes before the fault.
        state.tick();
        // A process that is gone computes nothing.
        let frozen = matches!(fault.kind, FaultKind::Freeze | FaultKind::Restart { .. });
        state.clock.set_frozen(frozen);
        match fault.kind {
            FaultKind::Crash => state.death = Some(Death::Crash),
            FaultKind::EngineDead => {
                state.death = Some(Death::EngineDead);
                state.end_all(SeqEvent::Dead);
            }
            FaultKind::Restart { seconds } => state.away = Some(Away::new(seconds, false)),
            FaultKind::CutOff { seconds } => state.away = Some(Away::new(seconds, true)),
            _ => {}
        }
        state.fault = fault;
        state.set_pace();
        drop(state);
        self.wake.notify_one();
        self.died.notify_one();
    }

    /// Makes every later step this many times as fast as the profile says.
    pub(crate) fn set_speed(&self, speed: f64) {
        let mut state = self.state.lock();
        state.tick();
        state.speed = if speed.is_finite() && speed > 0.0 { speed } else { 1.0 };
        state.set_pace();
        drop(state);
        self.wake.notify_one();
    }

    /// Forgets the prefix cache; false when requests hold blocks of it.
    pub(crate) fn reset_prefix_cache(&self) -> bool {
        let mut state = self.state.lock();
        state.tick();
        let now = state.clock.now();
        state.model.reset_prefix_cache(now)
    }

    /// Takes the order to be away for a while, if there is one.
    pub(crate) fn take_away(&self) -> Option<Away> {
        self.state.lock().away.take()
    }

    /// The end of the fault that made it go away.
    pub(crate) fn back(&self) {
        self.state.lock().fault = Fault { kind: FaultKind::None, count: None };
    }

    /// How the engine died, if it did.
    pub(crate) fn death(&self) -> Option<Death> {
        self.state.lock().death
    }

    /// Takes no more requests, and gives up those in flight.
    pub(crate) fn drain(&self) {
        let mut state = self.state.lock();
        state.draining = true;
        state.end_all(SeqEvent::Aborted);
    }

    pub(crate) fn stats(&self) -> EngineStats {
        let state = self.state.lock();
        EngineStats {
            requests: state.requests,
            in_flight: state.in_flight,
            deferred: state.deferred(),
            load: state.model.load(),
        }
    }

    pub(crate) fn metrics_page(&self) -> String {
        self.page(|page| match self.options.dialect {
            MetricsDialect::Vllm => page.render(),
            other => other_pages::render(other, page),
        })
    }

    /// SGLang's other way of telling its load.
    pub(crate) fn loads(&self) -> String {
        self.page(|page| other_pages::loads(page, self.profile.name))
    }

    fn page(&self, show: impl FnOnce(&Page<'_>) -> String) -> String {
        let mut state = self.state.lock();
        let state = &mut *state;
        let elapsed = state.clock.now().since(Time::ZERO).as_secs_f64();
        show(&Page {
            model: &self.options.model,
            profile: &self.profile,
            load: state.model.load(),
            deferred: state.deferred(),
            metrics: &state.metrics,
            adapters: state.adapters.report(unix_seconds()),
            started: state.started,
            elapsed,
        })
    }

    /// Names of the known adapters.
    pub(crate) fn adapters(&self) -> Vec<String> {
        self.state.lock().adapters.names()
    }

    /// Names of the adapters in memory.
    pub(crate) fn resident_adapters(&self) -> Vec<String> {
        self.state.lock().adapters.resident()
    }

    /// Adds an adapter; false when it is there already.
    pub(crate) fn load_adapter(&self, name: &str) -> bool {
        self.state.lock().adapters.learn(name)
    }

    /// The number that stands for an adapter in KV events.
    pub(crate) fn adapter_number(&self, name: &str) -> u32 {
        self.state.lock().adapters.number(name)
    }

    /// Forgets an adapter; false when it is not there.
    pub(crate) fn unload_adapter(&self, name: &str) -> bool {
        let gone = self.state.lock().adapters.unlearn(name);
        // What waited for it need not wait any longer.
        self.wake.notify_one();
        gone
    }
}
