//! The engine behind its connections: the model, its clock, and who waits for
//! which tokens.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use forebay_core::Time;
use forebay_sim::engine::{EngineEvent, EngineModel, EngineRequest, Profile, SeqId};
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::time::Instant;

use crate::answer::FinishReason;
use crate::clock::{EngineClock, unix_seconds};
use crate::error::ApiError;
use crate::fault::{Fault, FaultKind, RequestFault};
use crate::kv::{KvBatch, KvFeed, KvSettings, SeqText};
use crate::metrics::{Lifetime, Metrics};
use crate::options::EngineOptions;
use crate::page::Page;

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

/// One sequence to run: its request, and which adapter it counts for.
pub(crate) struct Job {
    pub(crate) request: EngineRequest,
    pub(crate) finish: FinishReason,
    pub(crate) adapter: Option<String>,
    /// For KV events, if there are any.
    pub(crate) text: Option<Arc<SeqText>>,
}

pub(crate) struct Shared {
    pub(crate) options: EngineOptions,
    pub(crate) profile: Profile,
    /// How KV events are published, if they are.
    pub(crate) kv: Option<KvSettings>,
    /// Most tokens of prompt and answer together.
    pub(crate) max_model_len: u32,
    state: Mutex<State>,
    numbers: AtomicU64,
    /// Wakes the driver when there is something new to do.
    wake: Notify,
    /// Wakes the server when the engine dies.
    pub(crate) died: Notify,
}

struct State {
    model: EngineModel,
    clock: EngineClock,
    sinks: BTreeMap<SeqId, Sink>,
    events: Vec<EngineEvent>,
    metrics: Metrics,
    kv: Option<KvFeed>,
    adapters: BTreeMap<String, u32>,
    /// The numbers of all adapters there ever were, from 1.
    adapter_numbers: BTreeMap<String, u32>,
    fault: Fault,
    death: Option<Death>,
    draining: bool,
    requests: u64,
    in_flight: u32,
}

struct Sink {
    tx: UnboundedSender<(u32, SeqEvent)>,
    choice: u32,
    life: Lifetime,
    finish: FinishReason,
    adapter: Option<String>,
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
    /// The model's own gauges and totals.
    pub load: forebay_sim::engine::EngineLoad,
}

impl Shared {
    /// With `kv`, block changes go out as events.
    pub(crate) fn new(options: EngineOptions, kv: Option<(KvSettings, UnboundedSender<KvBatch>)>) -> Shared {
        let profile = options.effective_profile();
        let (kv, feed) = kv.map(|(settings, out)| (settings, KvFeed::new(out))).unzip();
        let capacity = profile.blocks().saturating_mul(profile.block_size);
        let mut model = EngineModel::new(profile);
        if feed.is_some() {
            model.log_block_changes();
        }
        let state = State {
            model,
            clock: EngineClock::new(options.time_scale),
            sinks: BTreeMap::new(),
            events: Vec::new(),
            metrics: Metrics::new(),
            kv: feed,
            adapters: options.adapters.iter().map(|name| (name.clone(), 0)).collect(),
            adapter_numbers: options.adapters.iter().cloned().zip(1..).collect(),
            fault: Fault { kind: FaultKind::None, count: None },
            death: None,
            draining: false,
            requests: 0,
            in_flight: 0,
        };
        Shared {
            max_model_len: options.max_model_len.min(capacity),
            profile,
            kv,
            options,
            state: Mutex::new(state),
            numbers: AtomicU64::new(0),
            wake: Notify::new(),
            died: Notify::new(),
        }
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
    pub(crate) fn submit(&self, jobs: Vec<Job>) -> Result<(Vec<SeqId>, SeqEvents), ApiError> {
        let mut state = self.state.lock();
        let state = &mut *state;
        if state.death.is_some() || state.draining {
            return Err(ApiError::engine_dead());
        }
        let waiting = state.model.load().waiting;
        if self.options.max_queued.is_some_and(|most| waiting >= most) {
            state.metrics.rejected += 1;
            return Err(ApiError::busy());
        }
        let now = state.clock.now();
        let (tx, rx) = unbounded_channel();
        let mut ids = Vec::with_capacity(jobs.len());
        for (choice, job) in jobs.into_iter().enumerate() {
            let prompt_tokens = job.request.prompt_tokens;
            let id = match state.model.enqueue(now, job.request) {
                Ok(id) => id,
                Err(error) => {
                    state.cancel(&ids);
                    return Err(ApiError::bad_request(error.to_string(), None));
                }
            };
            if let Some(in_flight) = job.adapter.as_ref().and_then(|name| state.adapters.get_mut(name)) {
                *in_flight += 1;
            }
            let life =
                Lifetime { arrival: now, started: now, first: now, last: now, prompt_tokens, tokens: 0 };
            let sink = Sink {
                tx: tx.clone(),
                choice: choice as u32,
                life,
                finish: job.finish,
                adapter: job.adapter,
            };
            state.sinks.insert(id, sink);
            if let (Some(kv), Some(text)) = (&mut state.kv, job.text) {
                kv.begin(id, text);
            }
            ids.push(id);
        }
        self.wake.notify_one();
        Ok((ids, rx))
    }

    /// Stops generating what is not finished of these.
    pub(crate) fn cancel(&self, ids: &[SeqId]) {
        self.state.lock().cancel(ids);
        self.wake.notify_one();
    }

    pub(crate) fn set_fault(&self, fault: Fault) {
        let mut state = self.state.lock();
        // What has happened by now comes before the fault.
        state.tick();
        state.clock.set_frozen(fault.kind == FaultKind::Freeze);
        state.model.set_slowdown(match fault.kind {
            FaultKind::Slow { factor } => factor,
            _ => 1.0,
        });
        match fault.kind {
            FaultKind::Crash => state.death = Some(Death::Crash),
            FaultKind::EngineDead => {
                state.death = Some(Death::EngineDead);
                state.end_all(SeqEvent::Dead);
            }
            _ => {}
        }
        state.fault = fault;
        drop(state);
        self.wake.notify_one();
        self.died.notify_one();
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
        EngineStats { requests: state.requests, in_flight: state.in_flight, load: state.model.load() }
    }

    pub(crate) fn metrics_page(&self) -> String {
        let state = self.state.lock();
        let page = Page {
            model: &self.options.model,
            profile: &self.profile,
            load: state.model.load(),
            metrics: &state.metrics,
            adapters: &state.adapters,
            unix: unix_seconds(),
        };
        page.render()
    }

    /// Names of the loaded adapters.
    pub(crate) fn adapters(&self) -> Vec<String> {
        self.state.lock().adapters.keys().cloned().collect()
    }

    /// Loads an adapter; false when it is there already.
    pub(crate) fn load_adapter(&self, name: &str) -> bool {
        let mut state = self.state.lock();
        let new = !state.adapters.contains_key(name);
        if new {
            state.adapters.insert(name.into(), 0);
            let number = state.adapter_numbers.len() as u32 + 1;
            state.adapter_numbers.entry(name.into()).or_insert(number);
        }
        new
    }

    /// The number that stands for an adapter in KV events.
    pub(crate) fn adapter_number(&self, name: &str) -> u32 {
        self.state.lock().adapter_numbers.get(name).copied().unwrap_or(0)
    }

    /// Forgets an adapter; false when it is not there.
    pub(crate) fn unload_adapter(&self, name: &str) -> bool {
        self.state.lock().adapters.remove(name).is_some()
    }
}

impl State {
    /// Lets time pass up to now; gives the moment of the next event.
    fn tick(&mut self) -> Option<Instant> {
        let now = self.clock.now();
        let mut events = std::mem::take(&mut self.events);
        self.model.advance(now, &mut events);
        self.announce();
        for event in events.drain(..) {
            self.dispatch(event);
        }
        self.events = events;
        self.model.next_time().and_then(|at| self.clock.real(at))
    }

    /// Hands the changes of the prefix cache on.
    fn announce(&mut self) {
        if let Some(kv) = &mut self.kv {
            kv.announce(self.model.take_block_changes(), unix_seconds(), self.model.load().steps);
        }
    }

    fn dispatch(&mut self, event: EngineEvent) {
        let Some(sink) = self.sinks.get_mut(&event.seq()) else { return };
        let tell = match event {
            EngineEvent::Started { at, cached_tokens, .. } => {
                sink.life.started = at;
                SeqEvent::Started(cached_tokens)
            }
            EngineEvent::Token { at, .. } => {
                self.metrics.token(&sink.life, at);
                if sink.life.tokens == 0 {
                    sink.life.first = at;
                }
                sink.life.last = at;
                sink.life.tokens += 1;
                SeqEvent::Token
            }
            EngineEvent::Finished { at, .. } => {
                self.metrics.finish(&sink.life, sink.finish, at);
                SeqEvent::Finished
            }
            EngineEvent::Preempted { .. } => return,
        };
        // A receiver that is gone cancels by itself.
        let _ = sink.tx.send((sink.choice, tell));
        if matches!(tell, SeqEvent::Finished) {
            self.forget(event.seq());
        }
    }

    fn cancel(&mut self, ids: &[SeqId]) {
        let now = self.clock.now();
        for id in ids {
            self.model.cancel(now, *id);
            self.forget(*id);
        }
    }

    fn forget(&mut self, id: SeqId) {
        if let Some(kv) = &mut self.kv {
            kv.end(id, self.model.load().steps);
        }
        let adapter = self.sinks.remove(&id).and_then(|sink| sink.adapter);
        if let Some(in_flight) = adapter.and_then(|name| self.adapters.get_mut(&name)) {
            *in_flight = in_flight.saturating_sub(1);
        }
    }

    /// Ends every sequence with this word to its receiver.
    fn end_all(&mut self, with: SeqEvent) {
        let now: Time = self.clock.now();
        for (id, sink) in std::mem::take(&mut self.sinks) {
            self.model.cancel(now, id);
            if let Some(kv) = &mut self.kv {
                kv.end(id, self.model.load().steps);
            }
            *self.metrics.finished.entry(FinishReason::Abort).or_default() += 1;
            let _ = sink.tx.send((sink.choice, with));
        }
        self.adapters.values_mut().for_each(|in_flight| *in_flight = 0);
    }
}
